"""Pictures inside office files, books, web pages and mails, described by AI at their place in the text.

The page's text needs no AI; only its pictures are sent, all in one call, on one sheet with a number at each. The
answer must have a description for every number.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from quire.coordination.job_records import Claim
from quire.dispatch.answer_checks import CUT_OFF, EMPTY, Verdict
from quire.dispatch.page_task import PagePicture, PageTask
from quire.domain.job import PageRecord
from quire.pipeline.intake.attachment_jobs import office_limits
from quire.pipeline.object_keys import local_document
from quire.pipeline.parts import Parts
from quire.providers.provider_protocol import AnswerSchema, StopReason, VisionAnswer
from quire.reading.office.picture_sheet import (
    MOST_PICTURES,
    SheetOptions,
    contact_sheet,
    described_page,
)
from quire.reading.pdf.grounding import GroundedAnswer, pack_described_page

NOT_THE_FORM = "answer_not_in_form"
INCOMPLETE = "answer_incomplete"

_INSTRUCTIONS = (
    "The image is a sheet of pictures taken from one page of a document. A number is printed above each picture. "
    "The page's text follows; [Picture] marks where pictures are in it. Describe each picture for a reader who "
    "can't see it, in one to four sentences and in the language of the page's text: what it shows, any text in it, "
    "and for charts and diagrams what they say, with the figures. Give one description for every number."
)
_MAX_TOKENS_OUT = 3_000
_TEXT_CHARS = 12_000
_LONGEST_DESCRIPTION = 2_000
_SCHEMA = AnswerSchema(
    "picture_descriptions",
    json.dumps(
        {
            "type": "object",
            "properties": {
                "pictures": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "number": {"type": "integer"},
                            "description": {"type": "string"},
                        },
                        "required": ["number", "description"],
                        "additionalProperties": False,
                    },
                }
            },
            "required": ["pictures"],
            "additionalProperties": False,
        }
    ).encode(),
)


class Illustrations:
    """The pictures of one claimed page. `local` is the page's record from local reading."""

    def __init__(self, claim: Claim, parts: Parts, local: PageRecord) -> None:
        self._claim = claim
        self._parts = parts
        self._local = local

    def instructions(self, prompt: str | None) -> str:
        return f"{_INSTRUCTIONS}\n\nThe user adds: {prompt}" if prompt else _INSTRUCTIONS

    def apply_to(self, task: PageTask) -> PageTask:
        return replace(task, judge=judge, answer=_SCHEMA, max_tokens_out=_MAX_TOKENS_OUT, redraw=None)

    async def picture(self) -> PagePicture:
        """Returns the sheet. Its `layer` has the numbers on it, which the judge expects in the answer."""
        images = self._parts.settings.images
        options = SheetOptions(images.max_px, images.jpeg_quality)
        sheet = await self._in_child(contact_sheet, options)
        numbers = " ".join(str(number) for number in range(1, sheet.pictures + 1))
        text = (
            f"The sheet has {sheet.pictures} pictures, numbered {numbers}.\n\n"
            f"=== The page's text ===\n{sheet.text[:_TEXT_CHARS]}"
        )
        return PagePicture(sheet.image, "image/jpeg", text, numbers, sheet.pixels)

    async def page(self, answer: str) -> str:
        found = _descriptions(answer)
        text: str = await self._in_child(described_page, found)
        return text

    async def elements(self, markdown: str) -> GroundedAnswer:
        """The elements of the page with its descriptions. Raises DocumentError, PageError."""
        found: GroundedAnswer = await self._in_child(pack_described_page, markdown)
        return found

    async def _in_child(self, function: Any, last: Any) -> Any:
        job, parts = self._claim.job, self._parts
        password = parts.sealer.unseal(job.id, job.sealed).password
        async with local_document(parts.objects, job.content_ref or "") as path:
            return await parts.pool.run(
                function,
                *(str(path), password, self._local.number, office_limits(job, parts.settings.limits), last),
                timeout_s=parts.settings.reading.page_timeout_s * 3,
            )


def judge(answer: VisionAnswer, numbers: str) -> Verdict:
    """Accepts an answer that has a description for every number on the sheet."""
    if answer.stop is StopReason.LENGTH:
        return Verdict(CUT_OFF)
    if not answer.text.strip():
        return Verdict(EMPTY)
    found = _descriptions(answer.text)
    if not found:
        return Verdict(NOT_THE_FORM)
    missing = [number for number in numbers.split() if not found.get(int(number))]
    return Verdict(INCOMPLETE if missing else "")


def _descriptions(answer: str) -> dict[int, str]:
    """Descriptions by number; empty for what is not in the form."""
    try:
        pictures = json.loads(answer)["pictures"]
        rows = [(row["number"], row["description"]) for row in pictures[: MOST_PICTURES * 2]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return {
        number: " ".join(text.split())[:_LONGEST_DESCRIPTION]
        for number, text in rows
        if isinstance(number, int) and isinstance(text, str) and text.strip()
    }
