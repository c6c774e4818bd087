"""Writes formulas of Office documents (OMML) as LaTeX, with what `mathml_markup` needs for the same.

Signs without a name in the table stay as they are, which TeX engines of today read. A formula that is nested deeper
than any real one is written as its plain signs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from xml.etree.ElementTree import Element

DEEPEST = 40
_SIGNS = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "θ": "theta",
    "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho",
    "ς": "varsigma", "σ": "sigma", "τ": "tau", "υ": "upsilon", "φ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega",
    "Γ": "Gamma", "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi", "Σ": "Sigma", "Υ": "Upsilon",
    "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega",
    "ϵ": "varepsilon", "ϕ": "varphi", "ϑ": "vartheta", "±": "pm", "∓": "mp", "×": "times", "÷": "div", "·": "cdot",
    "⋅": "cdot", "∗": "ast", "≤": "leq", "≥": "geq", "≠": "neq", "≈": "approx", "≡": "equiv", "≅": "cong",
    "∼": "sim", "∝": "propto", "→": "to", "←": "leftarrow", "↔": "leftrightarrow", "⇒": "Rightarrow",
    "⇐": "Leftarrow", "⇔": "Leftrightarrow", "↦": "mapsto", "∞": "infty", "∂": "partial", "∇": "nabla",
    "∈": "in", "∉": "notin", "⊂": "subset", "⊆": "subseteq", "⊃": "supset", "∪": "cup", "∩": "cap",
    "∅": "emptyset", "∀": "forall", "∃": "exists", "¬": "neg", "∧": "land", "∨": "lor", "⊕": "oplus", "⊗": "otimes",
    "…": "ldots", "⋯": "cdots", "⋮": "vdots", "⋱": "ddots", "√": "surd", "∑": "sum", "∏": "prod", "∫": "int",
    "∬": "iint", "∭": "iiint", "∮": "oint", "⋃": "bigcup", "⋂": "bigcap", "⋁": "bigvee", "⋀": "bigwedge",
    "ℝ": "mathbb{R}", "ℕ": "mathbb{N}", "ℤ": "mathbb{Z}", "ℚ": "mathbb{Q}", "ℂ": "mathbb{C}", "ℏ": "hbar",
    "ℓ": "ell", "′": "prime", "°": "degree", "|": "vert", "‖": "Vert", "⟨": "langle", "⟩": "rangle", "⌊": "lfloor",
    "⌋": "rfloor", "⌈": "lceil", "⌉": "rceil", "\\": "backslash", "~": "sim",
}  # fmt: skip
_ESCAPED = frozenset("#$%&_{}")
_PLAIN = {"−": "-", "\u2061": "", "\u2062": "", "\u2063": "", "\u200b": "", "\u00a0": " "}
FUNCTIONS = {
    "arccos", "arcsin", "arctan", "arg", "cos", "cosh", "cot", "coth", "csc", "deg", "det", "dim", "exp", "gcd",
    "hom", "inf", "ker", "lg", "lim", "liminf", "limsup", "ln", "log", "max", "min", "Pr", "sec", "sin", "sinh",
    "sup", "tan", "tanh",
}  # fmt: skip
ACCENTS = {
    "\u0302": "hat", "^": "hat", "\u0303": "tilde", "~": "tilde", "\u0304": "bar", "\u0305": "overline",
    "¯": "bar", "\u20d7": "vec", "→": "vec", "\u0307": "dot", "\u0308": "ddot", "\u20db": "dddot",
    "\u030c": "check", "\u0306": "breve", "\u0301": "acute", "\u0300": "grave",
}  # fmt: skip
_BRACES = {"⏞": ("overbrace", "^"), "⏟": ("underbrace", "_")}

FORMULA_MARK = "$$"


def inline_formula(latex: str) -> str:
    """A formula inside a line of Markdown."""
    return f"${latex}$" if latex else ""


def display_formula(latex: str) -> str:
    """A formula that is a block of its own."""
    return f"{FORMULA_MARK}\n{latex}\n{FORMULA_MARK}"


def latex_of(formula: Element, local: Mapping[str, str]) -> str:
    """The LaTeX of an `m:oMath` element; `local` has the local name of each tag."""
    return " ".join(_Formula(local).inside(formula, 0).split())


class _Formula:
    def __init__(self, local: Mapping[str, str]) -> None:
        self._local = local

    def inside(self, element: Element | None, depth: int) -> str:
        """All that is in the element, one after the other."""
        if element is None:
            return ""
        if depth > DEEPEST:
            return latex_signs(
                "".join(one.text or "" for one in element.iter() if self._local[one.tag] == "t")
            )
        return "".join(self._one(child, depth + 1) for child in element)

    def _one(self, element: Element, depth: int) -> str:
        name = self._local[element.tag]
        if name == "r":
            return self._run(element)
        if name.endswith("Pr"):
            return ""
        write = _WRITERS.get(name)
        return write(self, element, depth) if write else self.inside(element, depth)

    def _run(self, run: Element) -> str:
        text = "".join(one.text or "" for one in run if self._local[one.tag] == "t")
        properties = self._child(run, "rPr")
        if properties is not None and self._child(properties, "nor") is not None:
            return f"\\text{{{latex_words(text)}}}" if text.strip() else " "
        return latex_signs(text)

    def _child(self, element: Element | None, name: str) -> Element | None:
        return (
            next((one for one in element if self._local[one.tag] == name), None)
            if element is not None
            else None
        )

    def _part(self, element: Element, name: str, depth: int) -> str:
        return self.inside(self._child(element, name), depth).strip()

    def _setting(self, element: Element, name: str, default: str) -> str:
        """A value in the element's properties; a property without a value says yes."""
        properties = next((one for one in element if self._local[one.tag].endswith("Pr")), None)
        found = self._child(properties, name)
        if found is None:
            return default
        return next((v for key, v in found.attrib.items() if key.rpartition("}")[2] == "val"), "1")

    def _is_on(self, element: Element, name: str) -> bool:
        return self._setting(element, name, "0") in ("1", "on", "true")

    def fraction(self, element: Element, depth: int) -> str:
        above, below = self._part(element, "num", depth), self._part(element, "den", depth)
        kind = self._setting(element, "type", "bar")
        if kind == "lin":
            return f"{grouped(above)}/{grouped(below)}"
        return f"{{{above} \\atop {below}}}" if kind == "noBar" else f"\\frac{{{above}}}{{{below}}}"

    def script(self, element: Element, depth: int) -> str:
        """A base with what is below and above it."""
        below, above = self._part(element, "sub", depth), self._part(element, "sup", depth)
        scripts = (f"_{{{below}}}" if below else "") + (f"^{{{above}}}" if above else "")
        base = self._part(element, "e", depth)
        if self._local[element.tag] == "sPre":
            return f"{{}}{scripts}{base}"
        return f"{grouped(base)}{scripts}"

    def root(self, element: Element, depth: int) -> str:
        degree = "" if self._is_on(element, "degHide") else self._part(element, "deg", depth)
        return f"\\sqrt{f'[{degree}]' if degree else ''}{{{self._part(element, 'e', depth)}}}"

    def operator(self, element: Element, depth: int) -> str:
        """A sum, an integral or the like."""
        sign = latex_signs(self._setting(element, "chr", "∫")).strip()
        below = "" if self._is_on(element, "subHide") else self._part(element, "sub", depth)
        above = "" if self._is_on(element, "supHide") else self._part(element, "sup", depth)
        limits = (f"_{{{below}}}" if below else "") + (f"^{{{above}}}" if above else "")
        return f"{sign}{limits} {self._part(element, 'e', depth)}"

    def brackets(self, element: Element, depth: int) -> str:
        opening, closing = self._setting(element, "begChr", "("), self._setting(element, "endChr", ")")
        between = latex_signs(self._setting(element, "sepChr", "|"))
        parts = [self.inside(one, depth).strip() for one in element if self._local[one.tag] == "e"]
        return f"\\left{_bracket(opening)} {between.join(parts)} \\right{_bracket(closing)}"

    def function(self, element: Element, depth: int) -> str:
        name = self._part(element, "fName", depth)
        return f"{named_function(name)} {self._part(element, 'e', depth)}"

    def limit(self, element: Element, depth: int) -> str:
        mark = "_" if self._local[element.tag] == "limLow" else "^"
        return (
            f"{named_function(self._part(element, 'e', depth))}{mark}{{{self._part(element, 'lim', depth)}}}"
        )

    def accent(self, element: Element, depth: int) -> str:
        name = ACCENTS.get(self._setting(element, "chr", "\u0302"), "hat")
        return f"\\{name}{{{self._part(element, 'e', depth)}}}"

    def bar(self, element: Element, depth: int) -> str:
        name = "overline" if self._setting(element, "pos", "bot") == "top" else "underline"
        return f"\\{name}{{{self._part(element, 'e', depth)}}}"

    def brace(self, element: Element, depth: int) -> str:
        name, _ = _BRACES.get(self._setting(element, "chr", "⏟"), ("underbrace", "_"))
        return f"\\{name}{{{self._part(element, 'e', depth)}}}"

    def box(self, element: Element, depth: int) -> str:
        return f"\\boxed{{{self._part(element, 'e', depth)}}}"

    def matrix(self, element: Element, depth: int) -> str:
        rows = [
            [self.inside(cell, depth).strip() for cell in row if self._local[cell.tag] == "e"]
            for row in element
            if self._local[row.tag] == "mr"
        ]
        return latex_rows("matrix", [" & ".join(cells) for cells in rows])

    def equations(self, element: Element, depth: int) -> str:
        lines = [self.inside(one, depth).strip() for one in element if self._local[one.tag] == "e"]
        return latex_rows("aligned", [line.replace("\\&", "&") for line in lines])


_WRITERS: dict[str, Callable[[_Formula, Element, int], str]] = {
    "f": _Formula.fraction,
    "sSup": _Formula.script,
    "sSub": _Formula.script,
    "sSubSup": _Formula.script,
    "sPre": _Formula.script,
    "rad": _Formula.root,
    "nary": _Formula.operator,
    "d": _Formula.brackets,
    "func": _Formula.function,
    "limLow": _Formula.limit,
    "limUpp": _Formula.limit,
    "acc": _Formula.accent,
    "bar": _Formula.bar,
    "groupChr": _Formula.brace,
    "borderBox": _Formula.box,
    "m": _Formula.matrix,
    "eqArr": _Formula.equations,
}


def latex_signs(text: str) -> str:
    """Signs as LaTeX writes them."""
    parts: list[str] = []
    for sign in text:
        if sign in _ESCAPED:
            parts.append(f"\\{sign}")
        elif sign in _SIGNS:
            parts.append(f"\\{_SIGNS[sign]} ")
        else:
            parts.append(_PLAIN.get(sign, sign))
    return "".join(parts)


def latex_words(text: str) -> str:
    """Words inside a formula."""
    return "".join(
        f"\\{sign}" if sign in _ESCAPED else _PLAIN.get(sign, sign) for sign in text if sign != "\\"
    )


def grouped(base: str) -> str:
    """A base that a script or a stroke can follow: one sign as it is, all else in braces."""
    simple = len(base) == 1 or (base.startswith("\\") and base[1:].isalpha())
    return base if simple else f"{{{base}}}"


def named_function(name: str) -> str:
    plain = name.removeprefix("\\text{").removesuffix("}") if name.startswith("\\text{") else name
    return f"\\{plain}" if plain in FUNCTIONS else name


def _bracket(sign: str) -> str:
    if not sign:
        return "."
    return f"\\{sign}" if sign in "{}" else latex_signs(sign).strip()


def latex_rows(name: str, rows: Sequence[str]) -> str:
    body = " \\\\ ".join(rows)
    return f"\\begin{{{name}}} {body} \\end{{{name}}}"
