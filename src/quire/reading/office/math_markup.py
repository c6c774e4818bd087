"""Writes formulas of Office documents (OMML) as LaTeX, with what `mathml_markup` needs for the same.

Signs without a name in the table stay as they are, which TeX engines of today read. A formula that is nested deeper
than any real one is written as its plain signs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    "≪": "ll", "≫": "gg", "⊥": "perp", "∥": "parallel", "∠": "angle", "△": "triangle", "∘": "circ", "∖": "setminus",
    "∣": "mid", "≻": "succ", "≺": "prec", "⊇": "supseteq", "∋": "ni", "∴": "therefore", "∵": "because", "†": "dagger",
    "⌋": "rfloor", "⌈": "lceil", "⌉": "rceil", "\\": "backslash", "~": "sim",
}  # fmt: skip
_ESCAPED = frozenset("#$%&_{}")
_PLAIN = {"−": "-", "\u2061": "", "\u2062": "", "\u2063": "", "\u200b": "", "\u00a0": " "}
_IN_WORDS = {"~": "\\textasciitilde{}", "^": "\\textasciicircum{}"}
FUNCTIONS = {
    "arccos", "arcsin", "arctan", "arg", "cos", "cosh", "cot", "coth", "csc", "deg", "det", "dim", "exp", "gcd",
    "hom", "inf", "ker", "lg", "lim", "liminf", "limsup", "ln", "log", "max", "min", "Pr", "sec", "sin", "sinh",
    "sup", "tan", "tanh",
}  # fmt: skip
ACCENTS = {
    "\u0302": "hat", "^": "hat", "\u0303": "tilde", "~": "tilde", "\u0304": "bar", "\u0305": "overline",
    "¯": "bar", "\u20d7": "vec", "→": "vec", "\u0307": "dot", "\u0308": "ddot", "\u20db": "dddot",
    "\u030c": "check", "\u0306": "breve", "\u0301": "acute", "\u0300": "grave", "\u030a": "mathring",
    "\u0332": "underline", "\u20d6": "overleftarrow", "\u20e1": "overleftrightarrow", "\u20d1": "vec",
}  # fmt: skip
_BRACES = {"⏞": "overbrace", "⏟": "underbrace"}
_ARROWS = {"→": "rightarrow", "←": "leftarrow", "↔": "leftrightarrow"}
_ALPHABETS = {"double-struck": "mathbb", "script": "mathcal", "fraktur": "mathfrak", "sans-serif": "mathsf"}
_ALPHABETS |= {"monospace": "mathtt"}
_WEIGHTS = {"b": "mathbf", "bi": "boldsymbol"}
_REMOVED = frozenset({"del", "moveFrom"})
"""What a tracked change has taken away."""
_LETTERS = (
    (0x1D400, "mathbf"), (0x1D434, ""), (0x1D468, "boldsymbol"), (0x1D49C, "mathcal"), (0x1D4D0, "mathcal"),
    (0x1D504, "mathfrak"), (0x1D538, "mathbb"), (0x1D56C, "mathfrak"), (0x1D5A0, "mathsf"), (0x1D5D4, "mathsf"),
    (0x1D608, "mathsf"), (0x1D63C, "mathsf"), (0x1D670, "mathtt"), (0x1D6A4, ""), (0x1D6A8, "boldsymbol"),
    (0x1D6E2, ""), (0x1D71C, "boldsymbol"), (0x1D756, "boldsymbol"), (0x1D790, "boldsymbol"), (0x1D7CA, "mathbf"),
)  # fmt: skip
"""Where the alphabets of Unicode for formulas begin, with the command that says the same of plain letters."""
_ACTIVE = re.compile(r"<(?=[A-Za-z/!?])|\](?=\()")
_COMMAND_END = re.compile(r"\\[A-Za-z]+\Z")

FORMULA_MARK = "$$"


def inline_formula(latex: str) -> str:
    """A formula inside a line of Markdown."""
    return f"${_harmless(latex)}$" if latex else ""


def display_formula(latex: str) -> str:
    """A formula that is a block of its own."""
    return f"{FORMULA_MARK}\n{_harmless(latex)}\n{FORMULA_MARK}"


def _harmless(latex: str) -> str:
    """The formula with spaces, which LaTeX does not read, where Markdown would see a tag or a link."""
    return _ACTIVE.sub(r"\g<0> ", latex) if "<" in latex or "](" in latex else latex


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
        return joined_latex(self._one(child, depth + 1) for child in element)

    def _one(self, element: Element, depth: int) -> str:
        name = self._local[element.tag]
        if name == "r":
            return self._run(element)
        if name.endswith("Pr") or name in _REMOVED:
            return ""
        write = _WRITERS.get(name)
        return write(self, element, depth) if write else self.inside(element, depth)

    def _run(self, run: Element) -> str:
        text = "".join(one.text or "" for one in run if self._local[one.tag] == "t")
        properties = self._child(run, "rPr")
        if properties is not None and self._child(properties, "nor") is not None:
            return f"\\text{{{latex_words(text)}}}" if text.strip() else " "
        command = self._command(properties) if text.strip() else ""
        return f"\\{command}{{{latex_signs(text).strip()}}}" if command else latex_signs(text)

    def _command(self, properties: Element | None) -> str:
        """How the letters of a run are written: bold, or in an alphabet of their own."""
        for name, commands in (("scr", _ALPHABETS), ("sty", _WEIGHTS)):
            found = self._child(properties, name)
            value = next(iter(found.attrib.values()), "") if found is not None else ""
            if value in commands:
                return commands[value]
        return ""

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
        base = named_function(self._part(element, "e", depth))
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
        name = _operator(self._part(element, "fName", depth))
        return f"{name} {self._part(element, 'e', depth)}"

    def limit(self, element: Element, depth: int) -> str:
        mark = "_" if self._local[element.tag] == "limLow" else "^"
        base = _operator(self._part(element, "e", depth))
        return f"{base}{mark}{{{self._part(element, 'lim', depth)}}}"

    def accent(self, element: Element, depth: int) -> str:
        """One without a name in LaTeX is set above as it is."""
        sign, base = self._setting(element, "chr", "\u0302"), self._part(element, "e", depth)
        if sign in ACCENTS:
            return f"\\{ACCENTS[sign]}{{{base}}}"
        return f"\\overset{{{latex_signs(sign).strip()}}}{{{base}}}" if sign.strip() else base

    def bar(self, element: Element, depth: int) -> str:
        name = "overline" if self._setting(element, "pos", "bot") == "top" else "underline"
        return f"\\{name}{{{self._part(element, 'e', depth)}}}"

    def brace(self, element: Element, depth: int) -> str:
        sign, base = self._setting(element, "chr", "⏟"), self._part(element, "e", depth)
        if sign in _BRACES:
            return f"\\{_BRACES[sign]}{{{base}}}"
        is_above = self._setting(element, "pos", "bot") == "top"
        if sign in _ARROWS:
            return f"\\{'over' if is_above else 'under'}{_ARROWS[sign]}{{{base}}}"
        return f"\\{'overset' if is_above else 'underset'}{{{latex_signs(sign).strip()}}}{{{base}}}"

    def phantom(self, element: Element, depth: int) -> str:
        """What only takes its room, unless it says that it is shown."""
        inner = self._part(element, "e", depth)
        is_shown = self._setting(element, "show", "1") not in ("0", "off", "false")
        return inner if is_shown else f"\\phantom{{{inner}}}"

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
        lines = [line.replace("\\&", "&") for line in lines]
        if self._is_on(element, "maxDist"):  # the number of a formula is at the end of its line
            lines = [line.replace("\\#", " \\qquad ", 1) for line in lines]
            if len(lines) == 1:
                return lines[0]
        return latex_rows("aligned", lines)


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
    "phant": _Formula.phantom,
}


def latex_signs(text: str) -> str:
    """Signs as LaTeX writes them."""
    parts: list[str] = []
    for sign in text:
        if sign in _ESCAPED:
            parts.append(f"\\{sign}")
        elif sign in _SIGNS:
            parts.append(f"\\{_SIGNS[sign]} ")
        elif "\U0001d400" <= sign < "\U0001d800":
            parts.append(_letter(sign))
        else:
            parts.append(_PLAIN.get(sign, sign))
    return "".join(parts)


def joined_latex(parts: Iterable[str]) -> str:
    """Parts of a formula one after the other; a letter behind a command is set apart from it."""
    found = ""
    for part in parts:
        is_apart = part[:1].isalpha() and part[:1].isascii() and _COMMAND_END.search(found[-40:])
        found += f" {part}" if is_apart else part
    return found


def _letter(sign: str) -> str:
    """A letter of one of the alphabets of Unicode for formulas, as PowerPoint writes them."""
    plain = unicodedata.normalize("NFKC", sign)
    command = next(name for start, name in reversed(_LETTERS) if ord(sign) >= start)
    inner = f"\\{_SIGNS[plain]}" if plain in _SIGNS else plain
    if command:
        return f"\\{command}{{{inner}}}"
    return f"{inner} " if plain in _SIGNS else inner


def latex_words(text: str) -> str:
    """Words inside a formula."""
    return "".join(
        f"\\{sign}" if sign in _ESCAPED else _IN_WORDS.get(sign) or _PLAIN.get(sign, sign)
        for sign in text
        if sign != "\\"
    )


def grouped(base: str) -> str:
    """A base that a script or a stroke can follow: one sign as it is, all else in braces."""
    simple = len(base) == 1 or (base.startswith("\\") and base[1:].isalpha())
    return base if simple else f"{{{base}}}"


def named_function(name: str) -> str:
    plain = name.removeprefix("\\text{").removesuffix("}") if name.startswith("\\text{") else name
    return f"\\{plain}" if plain in FUNCTIONS else name


def _operator(name: str) -> str:
    """The name of a function or an operator; one that LaTeX does not know is told from single letters."""
    named = named_function(name)
    is_word = named == name and name.isascii() and name.isalpha() and len(name) > 1
    return f"\\operatorname{{{name}}}" if is_word else named


def _bracket(sign: str) -> str:
    if not sign:
        return "."
    return f"\\{sign}" if sign in "{}" else latex_signs(sign).strip()


def latex_rows(name: str, rows: Sequence[str]) -> str:
    body = " \\\\ ".join(rows)
    return f"\\begin{{{name}}} {body} \\end{{{name}}}"
