"""Which element holds which, whatever reader it is from."""

from __future__ import annotations

from dataclasses import replace

from quire.domain.element import Element, ElementKind, PageElements
from quire.domain.element_codec import decode, encode
from quire.domain.element_tree import renumbered, with_item_parents
from quire.reading.files.markdown_elements import markdown_elements
from quire.reading.office.office_elements import office_elements
from quire.reading.office.office_pages import Lists
from quire.rendering.docling_json import docling_dict
from quire.rendering.page_html import render_html
from quire.rendering.page_markdown import render_markdown

NESTED = "- one\n  - inner\n    1. innermost\n  - second inner\n- two\n  - of two"


def items(*depths: int) -> list[Element]:
    return [
        Element(f"p1-e{at}", ElementKind.LIST_ITEM, "x", depth=depth) for at, depth in enumerate(depths, 1)
    ]


def parents(elements: list[Element]) -> list[str | None]:
    return [one.parent for one in with_item_parents(elements)]


def test_an_inner_item_is_held_by_the_nearest_item_before_it_that_is_less_indented() -> None:
    assert parents(items(0, 1, 2, 1, 0, 2, 1)) == [
        *(None, "p1-e1", "p1-e2", "p1-e1", None, "p1-e5", "p1-e5"),
    ]


def test_an_item_that_goes_on_from_the_page_before_has_no_parent() -> None:
    assert parents(items(1, 2, 0)) == [None, "p1-e1", None]


def test_a_paragraph_between_ends_a_list_and_what_an_item_holds_or_a_running_line_does_not() -> None:
    first, second = items(0, 1)
    between = Element("p1-e9", ElementKind.PARAGRAPH, "between")
    held = Element("p1-e9", ElementKind.CODE, "x = 1", parent="p1-e1")
    running = Element("p1-e9", ElementKind.PAGE_NUMBER, "7")
    assert parents([first, between, second])[2] is None
    assert parents([first, held, second])[2] == "p1-e1"
    assert parents([first, running, second])[2] == "p1-e1"


def test_a_parent_that_a_reader_gave_is_kept() -> None:
    outer, inner = items(0, 1)
    quoted = Element("p1-e3", ElementKind.LIST_ITEM, "quoted", depth=1, parent="p1-e1")
    assert parents([outer, inner, quoted]) == [None, "p1-e1", "p1-e1"]


def test_every_reader_s_items_have_the_same_parents_when_they_were_stored() -> None:
    of_office = office_elements(NESTED, 1)
    of_ai = markdown_elements(NESTED, 1)
    expected = [None, "p1-e1", "p1-e2", "p1-e1", None, "p1-e5"]
    for elements in (of_office, of_ai):
        stored = decode(encode(PageElements(1, tuple(elements)))).elements
        assert [one.parent for one in stored] == expected
        assert render_markdown(stored) == render_markdown(elements)


def test_html_and_docling_documents_nest_items_by_their_parents() -> None:
    stored = decode(encode(PageElements(1, office_elements(NESTED, 1))))
    assert render_html(stored.elements) == (
        '<ul><li id="p1-e1">one<ul><li id="p1-e2">inner<ol><li id="p1-e3">innermost</li></ol></li>'
        '<li id="p1-e4">second inner</li></ul></li>'
        '<li id="p1-e5">two<ul><li id="p1-e6">of two</li></ul></li></ul>'
    )
    found = docling_dict("x", None, [(stored, "")])
    texts = {one["self_ref"]: one["text"] for one in found["texts"]}
    groups = {one["self_ref"]: one for one in found["groups"]}
    assert [
        (texts.get(one["parent"]["$ref"]), [texts[child["$ref"]] for child in one["children"]])
        for one in groups.values()
    ] == [
        (None, ["one", "two"]),
        ("one", ["inner", "second inner"]),
        ("inner", ["innermost"]),
        ("two", ["of two"]),
    ]


def test_what_an_item_or_a_quotation_holds_is_its_child_in_a_docling_document() -> None:
    made = markdown_elements("- one\n\n  more of one\n\n- two\n\n> said\n>\n> again", 1)
    found = docling_dict("x", None, [(PageElements(1, made), "")])
    texts = {one["text"]: one for one in found["texts"]}
    assert texts["more of one"]["parent"]["$ref"] == texts["one"]["self_ref"]
    assert texts["again"]["parent"]["$ref"] == texts["said"]["self_ref"]
    (group,) = found["groups"]
    assert [child["$ref"] for child in group["children"]] == [
        texts["one"]["self_ref"],
        texts["two"]["self_ref"],
    ]


def test_parents_follow_their_elements_when_these_are_numbered_anew() -> None:
    made = [
        Element("", ElementKind.FIGURE),
        Element("p1-e1", ElementKind.TABLE),
        Element("p1-e2", ElementKind.CAPTION, "Table 1", parent="p1-e1"),
        Element("p1-e3", ElementKind.PARAGRAPH, "gone", parent="p1-e8"),
    ]
    assert [(one.id, one.parent) for one in renumbered(made, 4)] == [
        ("p4-e1", None),
        ("p4-e2", None),
        ("p4-e3", "p4-e2"),
        ("p4-e4", None),
    ]


def test_markdown_has_what_an_item_holds_behind_its_inner_items_behind_them() -> None:
    inner = "  - inner\n    - innermost\n  - last inner"
    markdown = f"- one\n\n  more of one\n\n{inner}\n\n  last of one\n- two\n  - of two"
    found = with_item_parents(markdown_elements(markdown, 1))
    assert render_markdown(found) == markdown
    again = with_item_parents(markdown_elements(render_markdown(found), 1))
    assert [(one.text, one.parent) for one in again] == [(one.text, one.parent) for one in found]


def test_a_list_that_begins_with_inner_items_has_them_beside_each_other_in_markdown() -> None:
    begun = [replace(one, text=str(at)) for at, one in enumerate(items(1, 1, 2, 0, 1), 1)]
    assert render_markdown(with_item_parents(begun)) == "- 1\n- 2\n  - 3\n- 4\n  - 5"
    lists = Lists()
    assert [lists.item(depth, "-", "x") for depth in (1, 1, 2, 0, 1)] == [
        "- x",
        "- x",
        "  - x",
        "- x",
        "  - x",
    ]
