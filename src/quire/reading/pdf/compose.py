"""A page's Markdown, put together from the layout reader's order, MuPDF's lines and the tables found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from quire.reading.pdf.block_matching import FilledBlock, compact, match
from quire.reading.pdf.drawn_rules import Box
from quire.reading.pdf.headings import HeadingGroup, PageType, groups_of, is_heading, level_of
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.ruled_tables import Table
from quire.reading.pdf.text_lines import TextLine, body_size
from quire.rendering import markdown_writer

_BULLET_LINE = re.compile(r"^([•●▪■◦‣➢➤►❖\uf0b7\uf0a7\uf0d8\uf076])\s*(?=\S)")

_TOUCHED = 0.05


@dataclass(frozen=True, slots=True)
class ComposeStyle:
    """What the composition needs to know besides the page itself."""

    body_size: float
    height: float
    join_hyphens: bool


def compose(
    blocks: Sequence[LayoutBlock],
    lines: Sequence[TextLine],
    tables: Sequence[Table],
    dropped: Sequence[TextLine],
    style: ComposeStyle,
) -> str:
    """Markdown of the whole page without the lines `dropped`.

    No other line is lost: those that no block has are put in where they stand. Tables keep all they have.
    """
    kept, cut = _with_tables(blocks, tables)
    filled, orphans = match(kept, outside(lines, tables), cut)
    _place(filled, orphans)
    return render(_without(filled, dropped), style)


def compose_plain(filled: Sequence[FilledBlock], tables: Sequence[Table], style: ComposeStyle) -> str:
    """Markdown of blocks that follow one another down the page, with the tables between them."""
    return render(_with_tables_between(filled, tables), style)


def render(filled: Sequence[FilledBlock], style: ComposeStyle) -> str:
    """Markdown of blocks that have their lines, in the order given."""
    page = _page_type(filled, style)
    return _join([part for item in filled for part in _parts(item, page, style)])


def _without(filled: Sequence[FilledBlock], dropped: Sequence[TextLine]) -> list[FilledBlock]:
    """The blocks without the lines dropped; a block that consisted of nothing else goes too."""
    if not dropped:
        return list(filled)
    gone = {id(line) for line in dropped}
    texts = {compact(line.text) for line in dropped}
    kept: list[FilledBlock] = []
    for item in filled:
        lines = [line for line in item.lines if id(line) not in gone]
        if item.lines and not lines:
            continue
        if not item.lines and item.block.text and compact(item.block.text) in texts:
            continue
        kept.append(FilledBlock(item.block, lines))
    return kept


def _with_tables(
    blocks: Sequence[LayoutBlock], tables: Sequence[Table]
) -> tuple[list[LayoutBlock], frozenset[int]]:
    """The blocks with those that our own tables replace taken out, and which of the rest lost a part."""
    kept: list[LayoutBlock] = []
    cut: set[int] = set()
    placed: set[int] = set()
    for block in blocks:
        if block.kind == "table" and not _is_table(block):
            kept.extend(_bullets(block))
            continue
        shares = [_share(block.box, table.box) for table in tables]
        most = max(range(len(tables)), key=lambda i: shares[i], default=None)
        if most is None or shares[most] <= _TOUCHED:
            kept.append(block)
        elif shares[most] > 0.5 or block.kind == "table":
            if most not in placed:
                placed.add(most)
                kept.extend(_table_blocks(tables[most]))
        else:
            cut.add(len(kept))
            kept.append(block)
    for i, table in enumerate(tables):
        if i not in placed:
            at = next((k for k, b in enumerate(kept) if b.box[1] >= table.box[3] - 2), len(kept))
            new = _table_blocks(table)
            kept[at:at] = new
            cut = {c + len(new) if c >= at else c for c in cut}
    return kept, frozenset(cut)


def _is_table(block: LayoutBlock) -> bool:
    """Not one column, one row or a list: the layout reader calls framed prose and bullets a table."""
    if len(block.rows) < 2 or _is_bulleted(block):
        return False
    return max(map(len, block.rows)) >= 2 or _is_framed_list(block)


def _is_framed_list(block: LayoutBlock) -> bool:
    """One column of short texts in boxes; longer ones are prose, shorter ones the scale of a chart."""
    return len(block.rows) >= 5 and all(10 <= len("".join(row)) <= 90 for row in block.rows)


def _is_bulleted(block: LayoutBlock) -> bool:
    return all(len(row) == 2 and re.fullmatch(r"\W{1,2}|o", row[0]) for row in block.rows) and bool(
        block.rows
    )


def _bullets(block: LayoutBlock) -> list[LayoutBlock]:
    if not _is_bulleted(block):
        return []
    top, bottom = block.box[1], block.box[3]
    step = (bottom - top) / len(block.rows)
    return [
        LayoutBlock(
            "list_item",
            (block.box[0], top + i * step, block.box[2], top + (i + 1) * step),
            row[1],
            marker=row[0],
        )
        for i, row in enumerate(block.rows)
    ]


def _table_blocks(table: Table) -> list[LayoutBlock]:
    nowhere = (-1e6, -1e6, -1e6, -1e6)
    return [
        *(LayoutBlock("paragraph", nowhere, text) for text in table.before),
        LayoutBlock("table", table.box, rows=table.rows),
        *(LayoutBlock("paragraph", nowhere, text) for text in table.after),
    ]


def _inside(point: tuple[float, float], box: Box) -> bool:
    return box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]


def _share(box: Box, other: Box) -> float:
    """How much of `box` lies in `other`."""
    width = min(box[2], other[2]) - max(box[0], other[0])
    height = min(box[3], other[3]) - max(box[1], other[1])
    area = (box[2] - box[0]) * (box[3] - box[1])
    return width * height / area if width > 0 and height > 0 and area > 0 else 0.0


def compose_lines(
    lines: Sequence[TextLine], tables: Sequence[Table], dropped: Sequence[TextLine], style: ComposeStyle
) -> str:
    """Markdown from MuPDF's blocks alone, for a page that the layout reader could not read."""
    gone = {id(line) for line in dropped}
    blocks: dict[int, list[TextLine]] = {}
    for line in outside(lines, tables):
        if id(line) not in gone:
            blocks.setdefault(line.block, []).append(line)
    filled = [FilledBlock(LayoutBlock("paragraph", _hull(run)), run) for run in blocks.values()]
    return render(_with_tables_between(filled, tables), style)


def _with_tables_between(filled: Sequence[FilledBlock], tables: Sequence[Table]) -> list[FilledBlock]:
    """The blocks with each table in front of the first that begins below it."""
    result = list(filled)
    for table in tables:
        at = next((i for i, f in enumerate(result) if f.block.box[1] >= table.box[3] - 2), len(result))
        result[at:at] = [FilledBlock(block) for block in _table_blocks(table)]
    return result


def outside(lines: Sequence[TextLine], tables: Sequence[Table]) -> list[TextLine]:
    """The lines that are not in a table."""
    return [line for line in lines if not any(_inside(line.middle, t.box) for t in tables)]


def _page_type(filled: Sequence[FilledBlock], style: ComposeStyle) -> PageType:
    lines = [line for item in filled for line in item.lines]
    size = style.body_size or body_size(lines)
    plain = PageType(size, style.height)
    bold = any(
        group.bold and is_heading(group, plain)
        for item in filled
        for group in groups_of(item.lines, item.block.kind == "heading")
    )
    return PageType(size, style.height, bold)


def _place(filled: list[FilledBlock], orphans: Sequence[TextLine]) -> None:
    """Put each run of orphans behind the last block that ends above it in its column, else at the end."""
    runs: list[list[TextLine]] = []
    for line in orphans:
        if runs and runs[-1][-1].block == line.block:
            runs[-1].append(line)
        else:
            runs.append([line])
    for run in runs:
        hull = _hull(run)
        block = LayoutBlock("paragraph", hull, " ".join(line.text for line in run))
        at = len(filled)
        if run[0].upright:
            at = 0
            for i, item in enumerate(filled):
                x0, _, x1, y1 = item.block.box
                if y1 <= hull[1] + 2 and x0 < hull[2] and hull[0] < x1:
                    at = i + 1
        filled.insert(at, FilledBlock(block, run))


def _hull(lines: Sequence[TextLine]) -> tuple[float, float, float, float]:
    return (
        min(line.box[0] for line in lines),
        min(line.box[1] for line in lines),
        max(line.box[2] for line in lines),
        max(line.box[3] for line in lines),
    )


def _parts(item: FilledBlock, page: PageType, style: ComposeStyle) -> Sequence[str | markdown_writer.Item]:
    block = item.block
    if block.kind == "rule":
        return []
    if block.kind == "table":
        return [markdown_writer.table(block.rows)]
    if block.kind == "code":
        return [markdown_writer.code(block.lines)]
    if not item.lines:
        return _unmatched(block)
    if block.kind == "list_item":
        return _list_parts(item, style)
    parts: list[str] = []
    pending: list[TextLine] = []
    for group in groups_of(item.lines, block.kind == "heading"):
        if is_heading(group, page):
            parts.extend(_text_parts(pending, block, style))
            pending = []
            parts.append(_heading_part(group, page, style))
        else:
            pending.extend(group.lines)
    parts.extend(_text_parts(pending, block, style))
    return parts


def _unmatched(block: LayoutBlock) -> list[str | markdown_writer.Item]:
    text = markdown_writer.clean(block.text)
    if not text:
        return []
    if block.kind == "heading" and len(text) <= 160:
        return [markdown_writer.heading(text, block.level or 2)]
    if block.kind == "list_item":
        return [markdown_writer.Item(text, block.marker, block.level)]
    return [markdown_writer.paragraph(text)]


def _heading_part(group: HeadingGroup, page: PageType, style: ComposeStyle) -> str:
    texts = [markdown_writer.clean(line.text) for line in group.lines]
    text = markdown_writer.join_lines(texts, [False] * len(texts), join_hyphens=style.join_hyphens)
    return markdown_writer.heading(text, level_of(group, page))


def _list_parts(item: FilledBlock, style: ComposeStyle) -> list[markdown_writer.Item]:
    block = item.block
    rows: list[list[TextLine]] = []
    for line in item.lines:
        if not rows or _BULLET_LINE.match(line.text):
            rows.append([line])
        else:
            rows[-1].append(line)
    parts: list[markdown_writer.Item] = []
    for i, row in enumerate(rows):
        texts = [markdown_writer.clean(line.text) for line in row]
        text = markdown_writer.join_lines(texts, [False] * len(texts), join_hyphens=style.join_hyphens)
        marker = block.marker if i == 0 else ""
        if i == 0 and marker and text.startswith(marker):
            text = text[len(marker) :].lstrip()
        text = _BULLET_LINE.sub("", text)
        if text:
            parts.append(markdown_writer.Item(text, marker, block.level + (i > 0)))
    return parts


def _text_parts(lines: Sequence[TextLine], block: LayoutBlock, style: ComposeStyle) -> list[str]:
    if not lines:
        return []
    texts = [markdown_writer.clean(line.text) for line in lines]
    text = markdown_writer.join_lines(texts, _breaks(lines, block), join_hyphens=style.join_hyphens)
    return [markdown_writer.paragraph(text)] if text else []


def _breaks(lines: Sequence[TextLine], block: LayoutBlock) -> list[bool]:
    """Whether each line was ended on purpose: the next line's first word would have fitted behind it."""
    right = max(block.box[2], *(line.box[2] for line in lines)) if lines else 0.0
    breaks = []
    for line, following in zip(lines, [*lines[1:], None], strict=True):
        if following is None:
            breaks.append(False)
            continue
        first = following.text.split(" ", 1)[0]
        width = (following.box[2] - following.box[0]) * (len(first) + 1) / max(1, len(following.text))
        below = following.box[1] >= line.box[1] + 0.5 * line.size
        breaks.append(below and line.box[2] + width * 1.3 + line.size < right)
    return breaks


def _join(parts: Sequence[str | markdown_writer.Item]) -> str:
    """Parts with an empty line between them, but items of a list right below one another."""
    texts: list[str] = []
    items: list[markdown_writer.Item] = []
    for part in [*parts, ""]:
        if isinstance(part, markdown_writer.Item):
            items.append(part)
            continue
        if items:
            texts.append(markdown_writer.list_items(items))
            items = []
        texts.append(part)
    return "\n\n".join(text for text in texts if text)
