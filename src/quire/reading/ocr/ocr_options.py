"""How a page is read by OCR: languages and their models, resolution, and which of the readers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from quire.domain.job import ReadingEffort
from quire.reading.ocr import quick_reader
from quire.reading.ocr.quick_reader import TesseractModels

if TYPE_CHECKING:
    from quire.settings import OcrSettings

AUTO, QUICK, CAREFUL = "auto", "quick", "careful"
CAREFUL_FAILED = "careful_reader_failed"


@dataclass(frozen=True, slots=True)
class OcrOptions:
    """`data_dir` has models besides those of the wheel; `mode` is one of AUTO, QUICK and CAREFUL."""

    languages: str = "eng"
    dpi: int = 200
    data_dir: str | None = None
    mode: str = AUTO
    notes: tuple[str, ...] = ()  # what is known already of how the page fared
    join_hyphens: bool = True
    is_thorough: bool = False
    """A page with flaws is read again by other means, not only a page that can't be trusted."""

    @classmethod
    def of(cls, settings: OcrSettings) -> OcrOptions:
        folder = str(settings.data_dir) if settings.data_dir else quick_reader.system_folder()
        return cls(settings.languages, settings.dpi, folder, settings.mode)

    def with_effort(self, effort: ReadingEffort) -> OcrOptions:
        """The same for that effort. A mode that the operator has set stays."""
        if self.mode != AUTO or effort is ReadingEffort.BALANCED:
            return self
        if effort is ReadingEffort.FAST:
            has_model = quick_reader.available() and quick_reader.has(self.models)
            return replace(self, mode=QUICK) if has_model else self
        return replace(self, mode=CAREFUL, is_thorough=True)

    @property
    def models(self) -> TesseractModels:
        return TesseractModels(self.languages, self.data_dir)

    @property
    def has_quicker(self) -> bool:
        return self.mode != QUICK and quick_reader.available() and quick_reader.has(self.models)

    def quicker(self) -> OcrOptions:
        """The same for a page that was too much for the careful reader."""
        return replace(self, mode=QUICK, notes=(CAREFUL_FAILED,))
