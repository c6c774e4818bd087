"""The title of a document: its own title, or one made of its kind, number and sender."""

from __future__ import annotations

import re

from quire.classification.document_dates import find_dates
from quire.classification.document_kinds import TYPES, KindFound
from quire.classification.markdown_lines import MarkdownLine, plain

_MOST_CHARS = 120
_HEAD_LINES = 40
_JUNK = re.compile(
    r"^(?:untitled|unbenannt|document\s*\d*|dokument\s*\d*|microsoft\s+(?:word|excel|powerpoint)\b.*|scan\w*[\s_-]*\d*|"
    r"img[\s_-]*\d+|page\s*\d*|seite\s*\d*|print|title|titel|new\s+document|slide\s*\d+|contents?|inhalt(?:sverzeichnis)?|"
    r"table\s+of\s+contents|[\W\d_]+|\S+\.(?:docx?|pdf|xlsx?|pptx?|indd|tex|odt|rtf|html?|jpe?g|png))$",
    re.IGNORECASE,
)
_SUBJECT = re.compile(
    r"^(?:subject|betreff|betr\.|re|objet|asunto|oggetto|onderwerp)\s*:\s*(\S.{3,})$", re.IGNORECASE
)
_GREETING = re.compile(
    r"^(?:dear\b|sehr\s+geehrte|liebe[r]?\b|hello\b|hallo\b|guten\s+tag|madame|monsieur|estimad|egregi|geachte)",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"(?:no\.?|nr\.?|number|nummer|#|n[°º])\s*[:.]?\s*([A-Z0-9][A-Z0-9./_-]{1,24}[A-Z0-9])(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_BEFORE_NAME = re.compile(
    r"^(?:(?:from|von|absender|seller|verkäufer)\s*:\s*|(?:zwischen|between|und|and)\s+(?:(?:der|dem|die|the)\s+)?)",
    re.IGNORECASE,
)
_COMPANY = re.compile(
    r"\b(?:GmbH(?:\s*&\s*Co\.?\s*KG)?|AG|KG|OHG|e\.\s?V\.|UG|SE|Ltd\.?|Limited|Inc\.?|LLC|LLP|Corp\.?|PLC|S\.?A\.?R\.?L\.?|S\.A\.|S\.p\.A\.|B\.V\.|N\.V\.|Oy|AB)(?=$|[\s,.;:|–—-])"
)
_FACT = re.compile(
    r"^(?:date|datum|page|seite|tel|phone|fax|e-?mail|web|iban|bic|ust|vat|tax|invoice\s+(?:no|number|date)|rechnungs(?:nummer|nr|datum)|"
    r"kundennummer|customer|bill\s+to|ship\s+to|from|to|von|an)\b.{0,3}[:#]",
    re.IGNORECASE,
)
_ADDRESS = re.compile(
    r"^\W*(?:[A-Z]{1,2}-)?\d{4,5}\s+\w|\b(?:street|st\.|road|rd\.|avenue|ave\.|straße|strasse|str\.|platz|weg)\b\W*\d*|@|www\.|\+\d{2}",
    re.IGNORECASE,
)


def title_of(lines: list[MarkdownLine], metadata_title: str, filename: str, kinds: list[KindFound]) -> str:
    """Never empty: at the worst the name of the file."""
    own = clean(metadata_title)
    if sensible(own):
        return own
    head = lines[:_HEAD_LINES]
    subject = _subject(head)
    if subject:
        return subject
    heading = _heading(head)
    kind = kinds[0] if kinds else None
    if heading and not (kind and _is_only(heading, kind)):
        return clean(heading)
    made = _made(head, kind)
    return (
        made
        or clean(heading)
        or _first(head)
        or clean(re.sub(r"[_-]+", " ", filename.rsplit(".", 1)[0]))
        or "Document"
    )


def clean(text: str) -> str:
    """One plain line, cut between words."""
    kept = plain(text).strip(" .:;,–—-|*#\"'“”„")
    if len(kept) <= _MOST_CHARS:
        return kept
    return kept[: _MOST_CHARS - 1].rsplit(" ", 1)[0].rstrip(" ,;:.") + "…"


def sensible(title: str) -> bool:
    """Whether a title says anything: programs leave all kinds of things in that field."""
    letters = sum(map(str.isalpha, title))
    return letters >= 4 and letters >= len(title) * 0.4 and not _JUNK.match(title) and "\\" not in title


def sender(head: list[MarkdownLine]) -> str:
    """The company whose letterhead this is, as far as the first lines tell."""
    for line in head[:15]:
        found = _COMPANY.search(line.text)
        if found and not re.match(
            r"^(?:to|an|bill\s+to|ship\s+to|customer|kunde)\b", line.text, re.IGNORECASE
        ):
            name = line.text[: found.end()]
            name = re.split(r"\s[|•·–—]\s|,\s", name)[-1] if len(name) > 60 else name
            name = _BEFORE_NAME.sub("", name)
            return clean(name)[:60]
    return ""


def _subject(head: list[MarkdownLine]) -> str:
    for line in head:
        found = _SUBJECT.match(line.text)
        if found and sensible(clean(found[1])):
            return clean(found[1])
    for place, line in enumerate(head):
        # In German letters the subject is a line of its own above the greeting, without a word for it.
        if _GREETING.match(line.text) and place and _is_subject(head[place - 1], line):
            return clean(head[place - 1].text)
    return ""


def _is_subject(line: MarkdownLine, greeting: MarkdownLine) -> bool:
    stands_alone = line.after_gap and greeting.after_gap and not line.in_table and 10 <= len(line.text) <= 100
    is_fact = _FACT.match(line.text) or _ADDRESS.search(line.text) or _is_dateline(line.text)
    return stands_alone and not is_fact and sensible(clean(line.text))


def _is_dateline(text: str) -> bool:
    """`Kiel, den 5. Januar 2026`: a date and hardly anything else."""
    return any(len(one.before.split()) <= 3 and len(text) - one.at < 22 for one in find_dates(text))


def _heading(head: list[MarkdownLine]) -> str:
    ranked = sorted((line for line in head if line.level), key=lambda line: line.level)
    for line in ranked:
        is_letterhead = _COMPANY.search(line.text) and len(line.text) <= 50
        is_fact = _FACT.match(line.text) or _ADDRESS.search(line.text)
        if sensible(clean(line.text)) and not is_fact and not is_letterhead:
            return line.text
    return ""


def _is_only(heading: str, kind: KindFound) -> bool:
    """`Invoice`, `RECHNUNG`: true, but it names no document."""
    return len(heading.split()) <= 2 and len(heading) <= max(16, len(kind.label) + 8)


def _made(head: list[MarkdownLine], kind: KindFound | None) -> str:
    """`Invoice 2026-17 – Muster GmbH`."""
    if kind is None:
        return ""
    number = next(
        (
            found[1]
            for line in head
            if (found := _NUMBER.search(line.text)) and any(map(str.isdigit, found[1]))
        ),
        "",
    )
    who = sender(head)
    if not number and not who:
        return ""
    word = _word(head, kind)
    named = f"{word[:1].upper()}{word[1:]}" + (f" {number}" if number else "")
    return f"{named} – {who}" if who else named


def _word(head: list[MarkdownLine], kind: KindFound) -> str:
    """The document's own word for what it is (`Arbeitsvertrag`), or the usual one."""
    pattern = next(pattern for name, _, pattern in TYPES if name == kind.name)
    for line in head[:10]:
        found = pattern.search(line.text) if len(line.text) <= 60 else None
        if found and found[0].isalpha():
            return found[0].lower()
    return kind.label


def _first(head: list[MarkdownLine]) -> str:
    for line in head:
        is_fact = _FACT.match(line.text) or _ADDRESS.search(line.text) or _GREETING.match(line.text)
        if len(line.text) >= 8 and sensible(clean(line.text)) and not is_fact and not line.in_table:
            return clean(line.text)
    return ""
