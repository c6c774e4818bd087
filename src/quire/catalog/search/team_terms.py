"""The words of a team's documents: how common each is, and corrections of misspelt words."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.database.database import statement

MAX_TERM_CHARS = 32
_MAX_NUMBER_CHARS = 12
_MAX_LOOKED_AT = 4_000
_LAST = "\U0010ffff"


def listed(word: str) -> bool:
    """Whether the word is kept in the list. Long numbers and the like are searched for, but never suggested."""
    return len(word) <= _MAX_NUMBER_CHARS or (len(word) <= MAX_TERM_CHARS and word.isalpha())


def change(removed: Iterable[str], added: Iterable[str]) -> dict[str, int]:
    """What replacing one set of words by another does to the counts, in the order of the words."""
    deltas = Counter(word for word in set(added) if listed(word))
    deltas.subtract(word for word in set(removed) if listed(word))
    return {word: deltas[word] for word in sorted(deltas) if deltas[word]}


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


async def look_up(
    connection: AsyncConnection,
    team: str,
    words: Sequence[str],
    prefixes: Sequence[str],
    limit: int,
    *,
    postgres: bool,
) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """Returns how many heads and bodies contain each word, and for each prefix its most common words.

    Words that no document contains are left out.
    """
    found: dict[str, int] = {}
    begun: dict[str, dict[str, int]] = {prefix: {} for prefix in prefixes}
    if not words:
        return found, begun
    parameters: dict[str, object] = {"team": team}
    if postgres:
        # The same text for any number of words: the server has it ready.
        asked = _LOOK_UP
        ends = [prefix + _LAST for prefix in prefixes]
        parameters |= {"words": list(words), "starts": list(prefixes), "ends": ends, "most": limit}
    else:
        parts = [
            "SELECT -1 AS place, term, documents FROM search_terms "
            "WHERE team = :team AND term IN (SELECT value FROM json_each(:words))"
        ]
        parameters["words"] = json.dumps(list(words))
        for place, prefix in enumerate(prefixes):
            looked_at = (
                f"SELECT term, documents FROM search_terms WHERE team = :team "  # noqa: S608 - numbers of ours
                f"AND term >= :start_{place} AND term < :end_{place} LIMIT {_MAX_LOOKED_AT}"
            )
            parts.append(
                f"SELECT {place}, term, documents FROM (SELECT term, documents FROM ({looked_at}) "  # noqa: S608
                f"ORDER BY documents DESC, term LIMIT {limit})"
            )
            parameters |= {f"start_{place}": prefix, f"end_{place}": prefix + _LAST}
        asked = statement(" UNION ALL ".join(parts))
    for place, term, documents in await connection.execute(asked, parameters):
        (found if place < 0 else begun[prefixes[place]])[str(term)] = int(documents)
    return found, begun


_LOOK_UP = text(
    "SELECT -1 AS place, term, documents FROM search_terms "  # noqa: S608 - a number of ours
    "WHERE team = :team AND term = ANY(CAST(:words AS text[])) "
    "UNION ALL SELECT asked.place - 1, best.term, best.documents "
    "FROM unnest(CAST(:starts AS text[]), CAST(:ends AS text[])) WITH ORDINALITY AS asked(first, past, place), "
    "LATERAL (SELECT term, documents FROM ("
    "SELECT term, documents FROM search_terms "
    f"WHERE team = :team AND term >= asked.first AND term < asked.past LIMIT {_MAX_LOOKED_AT}"
    ") AS looked_at ORDER BY documents DESC, term LIMIT :most) AS best"
)


async def like(
    connection: AsyncConnection, team: str, word: str, limit: int = 3
) -> dict[str, tuple[int, int]]:
    """The words that were probably meant: each with its distance in typing errors and its count, best first.

    One error leaves the first or the last half of a word whole, so only words that share one of them are
    compared. Words of up to three letters, and those with digits, are never corrected.
    """
    allowed = 0 if len(word) < 4 or not word.isalpha() else 1 if len(word) < 8 else 2
    if not allowed or len(word) > MAX_TERM_CHARS:
        return {}
    half = max(2, (len(word) - 1) // 2)
    first, last = word[:half], word[::-1][:half]
    rows = await connection.execute(
        _LIKE,
        {
            "team": team,
            "least": len(word) - allowed,
            "most": len(word) + allowed,
            "first": first,
            "past_first": first + _LAST,
            "last": last,
            "past_last": last + _LAST,
        },
    )
    candidates = {str(term): int(documents) for term, documents in rows}
    near = [
        (errors, -documents, term)
        for term, documents in candidates.items()
        if (errors := distance(word, term, allowed)) <= allowed
    ]
    return {term: (errors, -documents) for errors, documents, term in sorted(near)[:limit]}


_LIKE = text(
    " UNION ".join(
        f"SELECT * FROM (SELECT term, documents FROM search_terms WHERE team = :team AND {column} >= :{part} "  # noqa: S608
        f"AND {column} < :past_{part} AND length(term) BETWEEN :least AND :most LIMIT {_MAX_LOOKED_AT}) AS {part}_half"
        for column, part in (("term", "first"), ("reversed", "last"))
    )
)


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
