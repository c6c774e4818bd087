"""Folding, cutting and comparing words: pure functions."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.catalog.search.piece_places import packed_places, unpacked_places
from quire.catalog.search.query_reading import same_stem
from quire.catalog.search.snippets import StoredPiece, best_snippet, highlights
from quire.catalog.search.team_terms import change, distance
from quire.catalog.search.text_pieces import MAX_PIECES, PIECE_CHARS, cut
from quire.catalog.search.word_rules import slug, spans, storable, words
from quire.domain.text_chunk import ChunkPlace
from quire.domain.vault_document import ChunkStart, ContentPage


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Über-Größe, l’été!", ["uber", "grosse", "l", "ete"]),
        ("ﬁnance Ｆｕｌｌ", ["finance", "full"]),
        ("snake_case 3.14", ["snake", "case", "3", "14"]),
        ("東京都2024年", ["東京", "京都", "2024", "年"]),
        ("e\u0301te\u0301", ["ete"]),
        ("", []),
    ],
)
def test_words_are_folded(text: str, wanted: list[str]) -> None:
    assert words(text) == wanted


@given(st.text())
def test_words_of_spans_are_those_of_the_text(text: str) -> None:
    assert [word for _, _, parts in spans(text) for word in parts] == words(text) or not text.isascii()
    for start, end, parts in spans(text):
        assert list(parts) == words(text[start:end])


@given(st.text())
def test_words_hold_nothing_that_a_query_would_have_to_escape(text: str) -> None:
    for word in words(text):
        assert word
        assert not set(word) & set(" '\"\\:*()&|!=<>-_\0")
        assert words(word) == [word] or not word.isascii()


@given(st.text(alphabet=st.characters()))
def test_stored_texts_can_be_encoded(text: str) -> None:
    assert b"\0" not in storable(text).encode()


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [("invoice", "invoce", 1), ("invoice", "inovice", 1), ("invoice", "invoice", 0), ("invoice", "voice", 2),
     ("abc", "xyz", 3), ("statement", "satement", 1), ("a", "abcdef", 3)],
)  # fmt: skip
def test_distance_counts_typing_errors(first: str, second: str, wanted: int) -> None:
    assert distance(first, second, 2) == wanted
    assert distance(second, first, 2) == wanted


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [("invoice", "invoices", True), ("invoice", "invoicing", True), ("inherit", "inheritance", True),
     ("deliveries", "delivery", True), ("contract", "contrast", False), ("car", "care", False), ("tax", "taxi", False)],
)  # fmt: skip
def test_endings_are_told_from_other_words(first: str, second: str, same: bool) -> None:
    assert same_stem(first, second) is same
    assert same_stem(second, first) is same


def test_tags_have_one_slug_for_all_their_spellings() -> None:
    assert slug("Crème Brûlée") == slug("  creme--BRULEE ") == "creme-brulee"
    assert slug("☂ !") == ""


@given(st.lists(st.text(max_size=3000), max_size=8), st.integers(1, 5000))
def test_pieces_hold_the_text_up_to_the_bound_and_no_more(texts: list[str], most: int) -> None:
    pieces, truncated = cut([ContentPage(text, n) for n, text in enumerate(texts)], most)
    whole = "".join(storable(text) for text in texts)
    assert truncated == (len(whole) > most)
    assert sum(len(piece.text) for piece in pieces) <= most
    assert all(len(piece.text) <= PIECE_CHARS for piece in pieces)
    assert [piece.number for piece in pieces] == list(range(1, len(pieces) + 1))
    if not truncated:
        assert "".join("".join(piece.text.split()) for piece in pieces) == "".join(whole.split())


@given(st.lists(st.lists(st.text("ab \n.", min_size=1, max_size=900), min_size=1, max_size=6), max_size=6))
def test_places_are_where_their_text_is_when_pieces_are_cut(texts: list[list[str]]) -> None:
    pages: list[ContentPage] = []
    for number, parts in enumerate(texts):
        marked = [f"<{number}.{place}>{part}" for place, part in enumerate(parts)]
        starts = accumulate((len(one) for one in marked[:-1]), initial=0)
        places = tuple(ChunkPlace(number, f"<{number}.{n}>", None, at) for n, at in enumerate(starts))
        pages.append(ContentPage("".join(marked), number, (ChunkStart(0, number, "h"),), places))
    pieces, _ = cut(pages, 1_000_000)
    for piece in pieces:
        assert [one.index for one in piece.chunks] == [piece.page]
        for place in piece.places:
            shown = piece.text[place.start : place.start + len(place.element)]
            assert place.start == 0 or (shown and place.element.startswith(shown))
    said = {place.element for piece in pieces for place in piece.places}
    assert said == {f"<{number}.{n}>" for number, parts in enumerate(texts) for n in range(len(parts))}


def test_texts_are_joined_with_their_places_when_there_are_more_than_pieces() -> None:
    pages = [
        ContentPage(f"text{n}", n, (ChunkStart(0, n, "h"),), (ChunkPlace(n, f"e{n}", None),))
        for n in range(MAX_PIECES + 1)
    ]
    pieces, truncated = cut(pages, 1_000_000)
    assert not truncated
    assert len(pieces) < MAX_PIECES
    found = unpacked_places(packed_places(pieces[1]))
    assert found == (pieces[1].chunks, pieces[1].places)
    for chunk, place in zip(*found, strict=True):
        assert pieces[1].text.startswith(f"text{chunk.index}", chunk.start)
        assert (place.page, place.start) == (chunk.index, chunk.start)


def test_pieces_grow_when_the_text_is_very_long() -> None:
    pieces, truncated = cut([ContentPage("word " * 4_000_000)], 20_000_000)
    assert not truncated
    assert len(pieces) <= MAX_PIECES


def test_counts_change_by_what_was_added_and_removed() -> None:
    assert change(["a1", "both"], ["both", "new", "new"]) == {"a1": -1, "new": 1}
    assert change([], ["x" * 33, "1234567890123"]) == {}


@given(st.text(max_size=2000), st.text(max_size=30))
def test_highlights_lie_within_the_snippet(text: str, query: str) -> None:
    wanted = dict.fromkeys(words(query), 1.0)
    found = best_snippet([StoredPiece(text, 3)], wanted)
    if not text:
        assert found is None
        return
    assert found is not None
    for start, end in found.highlights:
        assert 0 <= start < end <= len(found.text)
        assert set(words(found.text[start:end])) & set(wanted)


@given(
    st.lists(st.sampled_from(["ab", "ABC", "a", "cab", "x1", "1", " ", ".", "_", "-"])).map("".join),
    st.sets(st.sampled_from(["a", "ab", "abc", "abab", "cab", "c", "x1", "1"])),
)
def test_plain_texts_are_highlighted_as_others_are(text: str, wanted: set[str]) -> None:
    worth = dict.fromkeys(wanted, 1.0)
    assert highlights(text, worth) == highlights(f"{text} \u00e9", worth)
