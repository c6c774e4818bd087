"""Parts of a table as one: no cell is lost, and none is there twice."""

from __future__ import annotations

import random

from quire.domain.element import (
    CellMarkdown,
    CellSpan,
    Element,
    ElementKind,
    PageElements,
    TableGrid,
    element_id,
)
from quire.domain.table_joining import join_tables, repeated_head
from quire.domain.table_seams import TableEdge, packed_edges, unpacked_edges
from quire.rendering import joined_tables
from quire.rendering.joined_tables import joined_pages

HEAD = ("Boat", "Harbour", "Fee")


def texts(table: TableGrid) -> list[str]:
    return [cell.text for cell in table.cells() if cell.text]


def test_all_cells_are_there_once_when_parts_are_joined() -> None:
    for seed in range(300):
        chance = random.Random(seed)
        width = chance.randint(1, 6)
        head = tuple(f"head {column}" for column in range(width))
        parts, wanted, count = [], [], 0
        for place in range(chance.randint(1, 5)):
            rows = [head] if place == 0 or chance.random() < 0.5 else []
            for _ in range(chance.randint(0 if rows else 1, 6)):
                row = []
                for _ in range(width):
                    count += 1
                    row.append(chance.choice(("", f"w{count}", f"W{count}.", f"{count}")))
                rows.append(tuple(row))
            spans = []
            first = int(rows[0] == head)
            if width > 1 and len(rows) > first + 1 and chance.random() < 0.4:
                row = chance.randrange(first, len(rows) - 1)
                rows[row] = (rows[row][0], "", *rows[row][2:])
                spans.append(CellSpan(row, 0, 1, 2))
            marked = (CellMarkdown(first, width - 1, "**x**"),) if len(rows) > first else ()
            parts.append(TableGrid(tuple(rows), 1, tuple(spans), marked))
            wanted += [text for row in rows[first if place else 0 :] for text in row if text]
        found = join_tables(parts)
        assert sorted(" ".join(texts(found.grid)).split()) == sorted(" ".join(wanted).split()), seed
        assert found.first_rows[0] == 0
        assert list(found.first_rows) == sorted(found.first_rows)
        assert len(found.grid.spans) == sum(len(part.spans) for part in parts)
        assert len(found.grid.marked) == sum(len(part.marked) for part in parts)
        assert all(found.grid.rows[mark.row] for mark in found.grid.marked)


def test_a_head_of_two_rows_is_left_out_when_it_is_repeated() -> None:
    head = (("Boat", "Fees", ""), ("", "Summer", "Winter"))
    first = TableGrid((*head, ("A", "1", "2")), spans=(CellSpan(0, 1, 1, 2),))
    part = TableGrid((*head, ("B", "3", "4")), spans=(CellSpan(0, 1, 1, 2),))
    assert repeated_head(first, part) == 2
    assert join_tables([first, part]).grid == TableGrid(
        (*head, ("A", "1", "2"), ("B", "3", "4")), spans=(CellSpan(0, 1, 1, 2),)
    )


def test_an_equal_row_below_the_head_stays_when_it_is_no_head() -> None:
    rows = (HEAD, ("Anna", "North", "yes"))
    joined = join_tables([TableGrid(rows), TableGrid((*rows, ("Berta", "South", "no")))])
    assert joined.grid.rows == (*rows, rows[1], ("Berta", "South", "no"))
    assert joined.first_rows == (0, 2)


def test_a_row_is_one_again_when_its_rest_is_certain() -> None:
    first = TableGrid((HEAD, ("Anna", "The quay between the", "7")))
    rest = TableGrid((("", "northern piers", ""), ("Berta", "South", "8")))
    joined = join_tables([first, rest])
    assert joined.grid.rows == (
        HEAD,
        ("Anna", "The quay between the northern piers", "7"),
        ("Berta", "South", "8"),
    )
    assert joined.first_rows == (0, 1)
    for row in (("", "Northern piers", ""), ("Carla", "northern piers", ""), ("", "northern piers", "9")):
        assert len(join_tables([first, TableGrid((row,))]).grid.rows) == 3


def page(number: int, *grids: TableGrid, continues: str = "") -> PageElements:
    made = [
        Element(
            element_id(number, place), ElementKind.TABLE, table=grid, continues="" if place else continues
        )
        for place, grid in enumerate(grids)
    ]
    return PageElements(number, tuple(made))


def test_pages_come_in_order_and_whole_when_tables_are_joined() -> None:
    grid = TableGrid((HEAD, ("a", "b", "1")))
    pages = [
        page(1, grid),
        page(2, grid, grid, continues="p1-e1"),
        page(3, grid, continues="p2-e2"),
        PageElements(4),
        page(5, grid, continues="p9-e9"),
    ]
    found = list(joined_pages(pages))
    assert [one.number for one in found] == [1, 2, 3, 4, 5]
    rows = [[len(e.table.rows) if e.table else 0 for e in one.elements] for one in found]
    assert rows == [[3], [0, 3], [0], [], [2]]


def test_a_table_ends_when_it_would_grow_without_bound() -> None:
    grid = TableGrid((HEAD, *((f"a{row}", "b", "1") for row in range(100))))
    known = joined_tables.MOST_CELLS
    count = known // (3 * 101) + 2
    pages = [page(n, grid, continues=f"p{n - 1}-e1" if n > 1 else "") for n in range(1, count + 1)]
    found = list(joined_pages(pages))
    sizes = [sum(map(len, e.table.rows)) for one in found for e in one.elements if e.table]
    assert len(sizes) == 2
    assert max(sizes) <= known


def test_edges_of_tables_are_the_same_after_a_record_has_kept_them() -> None:
    edge = TableEdge(*range(12), columns=(1, 2, 3, 4), first=(5,), body=())
    assert unpacked_edges(packed_edges([edge, edge])) == (edge, edge)
    (packed,) = packed_edges([edge])
    for wrong in ((1, 2, 3), packed[:-1], (*packed, 7), (-1, *packed[1:]), (*packed[:12], 900, *packed[13:])):
        assert unpacked_edges([wrong]) == ()
