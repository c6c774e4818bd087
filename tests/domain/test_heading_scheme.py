"""The levels of a document's headings."""

from __future__ import annotations

from dataclasses import replace

from quire.domain.element import Element, ElementKind, HeadingLook, PageElements, element_id
from quire.domain.element_codec import decode, encode
from quire.domain.heading_scheme import (
    HeadingMark,
    document_levels,
    number_depth,
    packed_marks,
    page_marks,
    unpacked_marks,
)
from quire.domain.page_settling import PageNotes, PageScheme, SettledPage, settled
from quire.rendering.page_markdown import render_markdown

BOLD, CAPITALS, TOLD, ESTIMATED, TITLE = 1, 2, 4, 8, 16


def mark(size: float, *, flags: int = 0, depth: int = 0, level: int = 3) -> HeadingMark:
    return HeadingMark(0, 0, round(size * 10), flags, depth, level)


def levels(*marks: HeadingMark) -> list[int]:
    return list(document_levels([marks])[0])


def test_levels_follow_the_order_of_types_when_pages_differ() -> None:
    first = [mark(24), mark(16, level=1), mark(14, level=2)]
    second = [mark(16, level=2), mark(14, level=2), mark(10, flags=BOLD), mark(10)]
    assert document_levels([first, [], second]) == [(1, 2, 3), (), (2, 3, 4, 5)]


def test_sizes_are_one_class_when_a_file_rounds_them() -> None:
    assert levels(mark(14), mark(13.8), mark(11.96), mark(12)) == [1, 1, 2, 2]


def test_sizes_of_a_picture_take_the_class_that_is_near() -> None:
    assert levels(mark(20), mark(14), mark(18.6, flags=ESTIMATED), mark(14.9, flags=ESTIMATED)) == [
        *(1, 2, 1, 2)
    ]


def test_capitals_are_a_type_of_their_own_only_beside_other_letters() -> None:
    names = mark(12, flags=CAPITALS)
    assert levels(mark(14), names, mark(12), mark(12)) == [1, 2, 2, 2]
    assert levels(mark(14), names, names, mark(12), mark(12)) == [1, 2, 2, 3, 3]


def test_numbers_tell_levels_when_all_headings_are_in_one_type() -> None:
    bold = [mark(12, flags=BOLD, depth=depth) for depth in (1, 2, 3, 1, 2)]
    references = mark(12, flags=BOLD)
    assert levels(mark(20), *bold, references) == [1, 2, 3, 4, 2, 3, 2]


def test_a_single_number_says_nothing_when_it_is_in_smaller_type_than_chapters() -> None:
    chapter, section, item = mark(16, depth=1), mark(14, depth=2), mark(10, depth=1)
    assert levels(chapter, section, item, chapter, item) == [1, 2, 3, 1, 3]
    assert levels(mark(16), mark(10, depth=1), mark(10, depth=1)) == [1, 2, 2], "items of a list"


def test_the_outline_decides_when_it_has_some_of_the_headings() -> None:
    told = mark(16, flags=TOLD, level=1)
    found = levels(mark(30), told, mark(16), mark(14, flags=TOLD, level=2), mark(14), mark(11))
    assert found == [1, 1, 1, 2, 2, 3]


def test_the_title_is_above_sections_when_the_file_gives_both_one_level() -> None:
    title, first, second = (
        mark(size, flags=TOLD, level=level) for size, level in ((28, 1), (18, 1), (16, 2))
    )
    title = title._replace(flags=TOLD | TITLE)
    assert levels(title, first, second, mark(12)) == [1, 2, 3, 4]
    assert levels(title, first, mark(28), second) == [1, 1, 1, 2], "sections in its type"
    assert levels(title, second) == [1, 2]


def test_a_type_that_one_page_of_many_has_takes_no_level_of_its_own() -> None:
    cover = [mark(40), mark(30), mark(22)]
    pages = [[mark(16), mark(12)] for _ in range(5)]
    assert document_levels([cover, *pages]) == [(1, 1, 1), *[(2, 3)] * 5]
    advertisement = [mark(20), mark(14), mark(8)]
    assert document_levels([*pages, advertisement]) == [*[(1, 2)] * 5, (1, 2, 3)]
    few = [[mark(16), mark(12)], cover]
    assert document_levels(few) == [(4, 5), (1, 2, 3)]


def test_sizes_are_few_when_nearly_every_heading_has_its_own() -> None:
    sizes = [20 - 0.6 * place for place in range(20)]
    assert max(levels(*map(mark, sizes))) == 6
    assert len(set(levels(*map(mark, sizes)))) <= 6
    assert levels(*map(mark, sizes)) == sorted(levels(*map(mark, sizes)))
    assert levels(*map(mark, sizes))[:3] == [1, 1, 1]


def test_levels_are_never_deeper_than_six() -> None:
    assert levels(*(mark(size) for size in (40, 34, 29, 24, 20, 16, 12))) == [1, 2, 3, 4, 5, 6, 6]


def test_the_scheme_is_the_same_when_it_is_computed_from_its_own_marks() -> None:
    page = leveled([(16.0, "One", 1), (14.0, "Two", 1), (14.0, "Three", 1)])
    wanted = document_levels([marks_of(page)])[0]
    once = with_levels(page, wanted)
    assert document_levels([marks_of(once)])[0] == wanted
    assert with_levels(once, wanted) is once


def test_the_depth_of_a_number_is_that_of_a_section() -> None:
    texts = [
        "3 Results",
        "3. Results",
        "3.1 Method",
        "A.2.1 Tables",
        "2026 in brief",
        "3.1",
        "A note",
        "IV. On",
    ]
    assert [number_depth(text) for text in texts] == [1, 1, 2, 3, 0, 0, 0, 0]


def with_levels(page: SettledPage, levels: tuple[int, ...]) -> SettledPage:
    return settled(page, PageScheme(levels))


def marks_of(page: SettledPage) -> tuple[HeadingMark, ...]:
    return unpacked_marks(page.notes.headings)


def leveled(headings: list[tuple[float, str, int]], number: int = 1) -> SettledPage:
    elements: list[Element] = []
    for size, text, level in headings:
        look = HeadingLook(size, is_bold=True, is_told=False)
        id_ = element_id(number, len(elements))
        elements.append(Element(id_, ElementKind.HEADING, text, level=level, look=look))
        code = "\n".join(["# no heading", f"# {text}", "# Three", "text"])
        elements.append(Element(element_id(number, len(elements)), ElementKind.CODE, code))
    markdown = render_markdown(elements)
    page = encode(PageElements(number, tuple(elements)))
    return SettledPage(
        markdown.encode(), page, PageNotes(number, packed_marks(page_marks(elements, markdown)))
    )


def test_only_headings_change_when_a_page_gets_its_levels() -> None:
    page = leveled([(16.0, "Ä <one", 1), (14.0, "Two", 1), (14.0, "Three", 3)])
    found = with_levels(page, (2, 3, 1))
    text = page.markdown.decode()
    for old, new in (
        ("# Ä &lt;one", "## Ä &lt;one"),
        ("# Two\n\n", "### Two\n\n"),
        ("### Three", "# Three"),
    ):
        text = text.replace(old, new, 1)
    assert found.markdown.decode() == text
    elements = decode(found.elements).elements
    assert render_markdown(elements) == text
    assert with_levels(found, (1, 1, 3)).markdown == page.markdown
    assert [found.markdown[one.offset :].split(b"\n")[0] for one in marks_of(found)] == [
        line.encode() for line in ("## Ä &lt;one", "### Two", "# Three")
    ]
    assert [one[2:] for one in marks_of(found)] == [one[2:] for one in marks_of(page)]


def test_a_page_stays_as_it_is_when_its_marks_do_not_fit() -> None:
    page = leveled([(16.0, "One", 1)])
    (mark,) = marks_of(page)
    wrong, beyond = (
        replace(page, notes=PageNotes(1, packed_marks([other])))
        for other in (mark._replace(offset=3), mark._replace(place=99))
    )
    damaged = replace(page, elements=page.elements[:9])
    for one in (wrong, damaged, beyond):
        assert with_levels(one, (2,)) is one


def test_marks_are_the_same_after_a_record_has_kept_them() -> None:
    packed = leveled([(16.0, "One", 1), (14.0, "Two", 2)]).notes.headings
    assert packed_marks(unpacked_marks(packed)) == packed
    assert unpacked_marks(packed[:-1]) == ()
    for place, value in ((0, -1), (1, -1), (2, 10**9), (4, 99), (1, 10**6)):
        wrong = list(packed)
        wrong[place] = value
        assert unpacked_marks(wrong) == ()
    assert unpacked_marks(packed * 40) == ()
