"""Code of a web page: its fence, and its language, which the page says in names of classes of its own."""

from __future__ import annotations

import re

_NAME = r"([\w+#.-]{1,20})"
_OF_CODE = re.compile(
    rf"(?:^|\s)(?:lang(?:uage)?-|brush:\s?|hljs\s(?!lang)){_NAME}(?=[\s;]|$)", re.IGNORECASE
)
_OF_BLOCK = re.compile(
    rf"(?:^|\s)(?:language-{_NAME}(?=\s|$)|highlight-source-{_NAME}(?=\s|$)|highlight-{_NAME}\snotranslate)"
)
"""Class names that highlighters give to the block around code (Jekyll, GitHub, Sphinx)."""
_NONE = frozenset({"default", "none", "text", "plain", "plaintext", "nohighlight", "notranslate"})
_TICKS = re.compile(r"`{3,}")


class CodeLanguage:
    """The language of the code that comes next: what it says itself, else what the block around it says."""

    def __init__(self) -> None:
        self._own = ""
        self._around = ""

    def note_code(self, given: dict[str, str]) -> None:
        """Takes what a tag of the code says."""
        found = _OF_CODE.search(given.get("class", ""))
        self._own = _shown(found[1] if found else given.get("data-lang", "")) or self._own

    def note_block(self, given: dict[str, str]) -> None:
        """Takes what the tag of a block says, which may be around code."""
        if found := _OF_BLOCK.search(given.get("class", "")):
            self._around = _shown(found[1] or found[2] or found[3])

    def end_text(self) -> None:
        """Text has ended: a block around it is not there for the code that follows."""
        self._around = ""

    def taken(self) -> str:
        """The language of the code that ends here; the next code has one of its own."""
        found = self._own or self._around
        self._own = self._around = ""
        return found


def _shown(name: str) -> str:
    return name if re.fullmatch(_NAME, name) and name.lower() not in _NONE else ""


def fenced(language: str, text: str) -> str:
    """Code between fences that are longer than any in it."""
    fence = "`" * (max(map(len, _TICKS.findall(text)), default=2) + 1)
    return f"{fence}{language}\n{text}\n{fence}"
