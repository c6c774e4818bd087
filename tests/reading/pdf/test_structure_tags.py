"""Tagged PDFs: what is tagged as a heading is one, of the level of its tag, unless the tags can't be right."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from quire.reading.pdf.page_reader import read_pages


def _tagged_pdf(texts: Sequence[tuple[str, str]], step: int = 36) -> bytes:
    """One page with a line for each (tag, text), all in the same type."""
    content = "".join(
        f"/{tag} <</MCID {n}>> BDC BT /F1 10 Tf 72 {740 - step * n} Td ({text}) Tj ET EMC\n"
        for n, (tag, text) in enumerate(texts)
    )
    elements = [f"{8 + n} 0 R" for n in range(len(texts))]
    objects = [
        "<</Type /Catalog /Pages 2 0 R /MarkInfo <</Marked true>> /StructTreeRoot 6 0 R>>",
        "<</Type /Pages /Kids [3 0 R] /Count 1>>",
        "<</Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /StructParents 0 /Contents 4 0 R "
        "/Resources <</Font <</F1 5 0 R>>>>>>",
        f"<</Length {len(content)}>>\nstream\n{content}\nendstream",
        "<</Type /Font /Subtype /Type1 /BaseFont /Helvetica>>",
        f"<</Type /StructTreeRoot /K 7 0 R /ParentTree <</Nums [0 [{' '.join(elements)}]]>>>>",
        f"<</Type /StructElem /S /Document /P 6 0 R /K [{' '.join(elements)}]>>",
        *(f"<</Type /StructElem /S /{tag} /P 7 0 R /Pg 3 0 R /K {n}>>" for n, (tag, _) in enumerate(texts)),
    ]
    made, places = "%PDF-1.7\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(made))
        made += f"{number} 0 obj\n{one}\nendobj\n"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    size = len(objects) + 1
    table = f"xref\n0 {size}\n0000000000 65535 f \n{table}"
    end = f"trailer <</Size {size} /Root 1 0 R>>\nstartxref\n{len(made)}\n%%EOF"
    return (made + table + end).encode()


def _headings(folder: Path, texts: Sequence[tuple[str, str]]) -> list[str]:
    path = folder / f"{len(texts)}.pdf"
    path.write_bytes(_tagged_pdf(texts))
    (reading,) = read_pages(str(path), None, [1])
    return [line for line in reading.markdown.splitlines() if line.startswith("#")]


PROSE = "The committee met in the large hall and spoke of the cost of the new building, at some length."


def test_heading_has_the_level_of_its_tag_when_its_type_says_nothing(tmp_path: Path) -> None:
    texts = [("H1", "Minutes of May"), ("P", PROSE), ("H2", "Costs"), ("P", PROSE)]
    assert _headings(tmp_path, texts) == ["# Minutes of May", "## Costs"]


def test_tag_says_no_level_when_it_is_a_deep_one_alone(tmp_path: Path) -> None:
    assert _headings(tmp_path, [("P", PROSE), ("H6", "Costs"), ("P", PROSE)]) == ["### Costs"]


def test_heading_too_long_to_be_one_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    long = "till it fill " * 13  # narrow letters, so that it fits into a line
    texts = [("H1", "Minutes of May"), ("H2", long), *[("P", PROSE)] * 5, ("H2", "Costs"), ("P", PROSE)]
    assert _headings(tmp_path, texts) == ["# Minutes of May", "## Costs"]


def test_row_with_a_mark_is_an_item_when_it_is_tagged_as_one(tmp_path: Path) -> None:
    item = "- a lamp and the oil that it needs for as long as the nights of winter last, and more oil,"
    lines = [PROSE.rstrip("."), item, PROSE]
    for tag, expected in (("LI", [item]), ("P", [])):
        path = tmp_path / f"{tag}.pdf"
        path.write_bytes(_tagged_pdf([("P", lines[0]), (tag, lines[1]), ("P", lines[2])], step=13))
        (reading,) = read_pages(str(path), None, [1])
        assert [line for line in reading.markdown.splitlines() if line.startswith("- ")] == expected


def test_tags_do_not_count_when_most_of_the_page_is_tagged_as_headings(tmp_path: Path) -> None:
    texts = [("H2", PROSE), ("P", "Words."), ("H2", "He said so"), ("P", PROSE), ("H2", "Done")]
    assert _headings(tmp_path, texts) == []
