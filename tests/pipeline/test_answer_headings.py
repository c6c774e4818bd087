"""Headings of a model's answer that the page's own reading has too."""

from __future__ import annotations

from pathlib import Path

from quire.domain.element import Element, ElementKind, HeadingLook, PageElements, element_id
from quire.domain.element_codec import encode
from quire.domain.heading_scheme import packed_marks, page_marks, unpacked_marks
from quire.domain.job import JobStatus, PageRecord
from quire.pipeline.answer_headings import answer_headings
from quire.reading.files.markdown_elements import markdown_elements
from quire.rendering.page_markdown import render_markdown
from tests.support.running import quire

ANSWER = "```\n# no heading\n```\n\n## Harbour **fees**\n\nText.\n\n## Invented\n\n#### Boats\n\nText.\n"


async def test_headings_of_an_answer_look_as_on_the_page_when_it_has_them(tmp_path: Path) -> None:
    own = [
        Element(element_id(3, place), ElementKind.HEADING, text, level=level, look=look)
        for place, (text, level, look) in enumerate(
            (
                ("Harbour fees", 1, HeadingLook(16, is_bold=True, is_told=False)),
                ("Boats", 2, HeadingLook(12, is_bold=False, is_told=True)),
            )
        )
    ]
    text, stored = render_markdown(own).encode(), encode(PageElements(3, tuple(own)))
    marks = packed_marks(page_marks(own, text.decode()))
    local = PageRecord(
        *(3, JobStatus.QUEUED),
        ref="jobs/x/e1/c0-1-t",
        length=len(text),
        elements_offset=len(text),
        elements_length=len(stored),
        headings=marks,
    )
    answer = encode(PageElements(3, tuple(markdown_elements(ANSWER, 3))))
    async with quire(tmp_path) as one:
        objects = one.parts.objects
        await objects.put("jobs/x/e1/c0-1-t", text + stored)
        found = unpacked_marks(await answer_headings(objects, local, ANSWER, answer))
        gone = PageRecord(3, JobStatus.QUEUED, ref="jobs/x/gone", elements_length=9, headings=marks)
        assert await answer_headings(objects, gone, ANSWER, answer) == ()
        assert await answer_headings(objects, local, "Fees\n====\n", answer) == ()
    lines = [ANSWER.encode()[mark.offset :].split(b"\n")[0] for mark in found]
    assert lines == [b"## Harbour **fees**", b"#### Boats"]
    assert [(mark.size, mark.flags, mark.level) for mark in found] == [(160, 1, 2), (120, 4, 2)]
