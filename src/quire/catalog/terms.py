"""The words of a team's documents: how common each is, and which one was meant by a misspelt one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.tables import TERMS

MAX_TERM_CHARS = 32
_MAX_NUMBER_CHARS = 12
_MAX_LOOKED_AT = 4_000
_LAST = "\U0010ffff"


def listed(word: str) -> bool:
    """Whether the word is kept in the list. Long numbers and the like are searched for, but never suggested."""
    return len(word) <= _MAX_NUMBER_CHARS or (len(word) <= MAX_TERM_CHARS and word.isalpha())


def change(removed: Iterable[str], added: Iterable[str]) -> dict[str, int]:
    """What replacing one set of words by another does to the counts."""
    deltas = Counter(word for word in set(added) if listed(word))
    deltas.subtract(word for word in set(removed) if listed(word))
    return {word: delta for word, delta in sorted(deltas.items()) if delta}


async def apply(connection: AsyncConnection, team: str, deltas: Mapping[str, int], *, postgres: bool) -> None:
    """Changes the counts; words that no document has any more are removed.

    Rows are touched in the order of the words, so that two writers wait for each other and never deadlock.
    """
    if not deltas:
        return
    gone = [word for word, delta in deltas.items() if delta < 0]
    if postgres:
        await connection.execute(
            text(
                "INSERT INTO search_terms (team, term, reversed, documents) "
                "SELECT :team, t.term, reverse(t.term), t.delta "
                "FROM unnest(CAST(:terms AS text[]), CAST(:deltas AS bigint[])) AS t(term, delta) "
                'ORDER BY t.term COLLATE "C" '
                "ON CONFLICT (team, term) DO UPDATE SET documents = search_terms.documents + excluded.documents"
            ),
            {"team": team, "terms": list(deltas), "deltas": list(deltas.values())},
        )
        if gone:
            await connection.execute(
                text(
                    "DELETE FROM search_terms WHERE team = :team AND documents <= 0 "
                    "AND term = ANY(CAST(:gone AS text[]))"
                ),
                {"team": team, "gone": gone},
            )
        return
    rows = json.dumps([[word, word[::-1], delta] for word, delta in deltas.items()])
    await connection.execute(
        text(
            "INSERT INTO search_terms (team, term, reversed, documents) "
            "SELECT :team, json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]') "
            "FROM json_each(:rows) WHERE true "
            "ON CONFLICT (team, term) DO UPDATE SET documents = documents + excluded.documents"
        ),
        {"team": team, "rows": rows},
    )
    if gone:
        await connection.execute(
            text(
                "DELETE FROM search_terms WHERE team = :team AND documents <= 0 "
                "AND term IN (SELECT value FROM json_each(:gone))"
            ),
            {"team": team, "gone": json.dumps(gone)},
        )


async def counts(connection: AsyncConnection, team: str, terms: Sequence[str]) -> dict[str, int]:
    """In how many heads and contents each of the words stands; those that stand in none are left out."""
    if not terms:
        return {}
    rows = await connection.execute(
        select(TERMS.c.term, TERMS.c.documents).where(TERMS.c.team == team, TERMS.c.term.in_(terms))
    )
    return {str(term): int(documents) for term, documents in rows}


async def beginning_with(
    connection: AsyncConnection, team: str, prefixes: Sequence[str], limit: int
) -> dict[str, dict[str, int]]:
    """For each prefix the most common words that begin so, with their counts, in one round trip."""
    if not prefixes:
        return {}
    parts, parameters = [], {"team": team}
    for number, prefix in enumerate(prefixes):
        looked_at = (
            f"SELECT term, documents FROM search_terms WHERE team = :team "  # noqa: S608 - numbers of ours
            f"AND term >= :from_{number} AND term < :to_{number} LIMIT {_MAX_LOOKED_AT}"
        )
        most = (
            f"SELECT term, documents FROM ({looked_at}) AS a_{number} "  # noqa: S608
            f"ORDER BY documents DESC, term LIMIT {limit}"
        )
        parts.append(f"SELECT {number} AS prefix, term, documents FROM ({most}) AS b_{number}")  # noqa: S608
        parameters |= {f"from_{number}": prefix, f"to_{number}": prefix + _LAST}
    found: dict[str, dict[str, int]] = {prefix: {} for prefix in prefixes}
    for number, term, documents in await connection.execute(text(" UNION ALL ".join(parts)), parameters):
        found[prefixes[number]][str(term)] = int(documents)
    return found


async def like(
    connection: AsyncConnection, team: str, word: str, limit: int = 3
) -> dict[str, tuple[int, int]]:
    """The words that were probably meant: each with its distance in typing errors and its count, best first.

    One error leaves the first or the last half of a word whole, so only words that share one of them are looked
    at. Words of up to three letters, and those with digits, are never corrected.
    """
    allowed = 0 if len(word) < 4 or not word.isalpha() else 1 if len(word) < 8 else 2
    if not allowed or len(word) > MAX_TERM_CHARS:
        return {}
    half = max(2, (len(word) - 1) // 2)
    candidates: dict[str, int] = {}
    for column, part in ((TERMS.c.term, word[:half]), (TERMS.c.reversed, word[::-1][:half])):
        rows = await connection.execute(
            select(TERMS.c.term, TERMS.c.documents)
            .where(TERMS.c.team == team, column >= part, column < part + _LAST)
            .where(text("length(term) BETWEEN :least AND :most"))
            .limit(_MAX_LOOKED_AT),
            {"least": len(word) - allowed, "most": len(word) + allowed},
        )
        candidates.update((str(term), int(documents)) for term, documents in rows)
    near = [
        (errors, -documents, term)
        for term, documents in candidates.items()
        if (errors := distance(word, term, allowed)) <= allowed
    ]
    return {term: (errors, -documents) for errors, documents, term in sorted(near)[:limit]}


def distance(first: str, second: str, most: int) -> int:
    """Typing errors between two words: letters left out, added, changed or swapped. Above `most` it is `most` + 1."""
    if abs(len(first) - len(second)) > most:
        return most + 1
    # Each error changes at most two entries of the letters' balance; this settles most pairs without the table.
    if sum((Counter(first) - Counter(second)).values()) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, left in enumerate(first, 1):
        last, before = before, row
        row = [i]
        for j, right in enumerate(second, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (left != right))
            if last and j > 1 and left == second[j - 2] and first[i - 2] == right:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return min(row[-1], most + 1)
