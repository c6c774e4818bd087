"""Numbers of list items and headings of an OpenDocument file, which the file does not store: they are counted."""

from __future__ import annotations

from quire.reading.office.odf_styles import OdfLevel, OdfStyles
from quire.reading.office.word_styles import written_number

_DEEPEST = 10
_FORMATS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}


class OdfNumbers:
    """Labels are to be asked for in the order of the document."""

    def __init__(self, styles: OdfStyles) -> None:
        self._styles = styles
        self._counts: dict[str, list[int | None]] = {}

    def begin(self, style: str, depth: int, *, goes_on: bool) -> None:
        """A list begins, or goes on with the numbers of the last one of its style."""
        if not goes_on:
            self._of(style)[depth:] = [None] * (_DEEPEST + 1 - depth)

    def label(self, style: str, depth: int, start: str = "") -> tuple[str, str]:
        """The marker of the next item as Markdown takes it, and the number that a reader sees; "" for a bullet."""
        levels = self._styles.levels.get(style, {})
        level = levels.get(depth + 1)
        if level is None:
            return "-", ""
        counts = self._of(style)
        before = counts[depth]
        given = int(start) if start.isascii() and start.isdigit() and len(start) < 7 else None
        count = given if given is not None else level.start if before is None else before + 1
        counts[depth] = count
        counts[depth + 1 :] = [None] * (_DEEPEST - depth)
        first = max(0, depth + 1 - level.shown)
        numbers = (self._written(levels.get(n + 1), counts[n]) for n in range(first, depth + 1))
        shown = f"{level.prefix}{'.'.join(filter(None, numbers))}{level.suffix}".strip()
        is_plain = level.format == "1" and level.shown < 2 and not level.prefix.strip()
        return (f"{count}." if is_plain and level.suffix.strip() in ("", ".", ")") else "-"), shown

    def _of(self, style: str) -> list[int | None]:
        return self._counts.setdefault(style, [None] * (_DEEPEST + 1))

    def _written(self, level: OdfLevel | None, count: int | None) -> str:
        if level is None:
            return ""
        return written_number(level.start if count is None else count, _FORMATS.get(level.format, "decimal"))
