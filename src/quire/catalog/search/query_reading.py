"""Parsing a query: which words of the index match each of its words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.database.schema import DOCUMENTS, TEAMS
from quire.catalog.search import team_terms
from quire.catalog.search.ranking import TermGroup, rarity
from quire.catalog.search.word_rules import words

MAX_WORDS = 10
_COMPLETIONS, _COMPLETED = 8, 0.7
_VARIANTS, _VARIED = 6, 0.8
_MISSPELT = {1: 0.75, 2: 0.55}
_UNKNOWN = 1
_SMALL_WORD = 0.1

# Stopwords, also where a small vault has few of them: English, German, French,
# Spanish, Italian, Portuguese and Dutch, folded as all words are.
_SMALL = """
a about all an and any are as at be been by can did do does for from had has have how i if in into is it its me my no
not of on or our out should so some than that the their them there these they this those to up was we were what when
where which who whom whose why will with would you your
aber als am an auch auf aus bei bin bis das dass dem den der des die ein eine einem einen einer eines er es fur hat
ich im ist mein mit nach nicht oder sich sie sind so und uns unser von vom wann war was wer wie wir wo zu zum zur uber
au aux avec ce ces cette dans de des du elle en est et il je la le les leur ma mais mes mon ne nos notre nous ou par
pas pour qu que qui sa se ses son sont sur un une vos votre vous
al como con del el ella es esta este la las lo los mas mi no nos para pero por que se sin su sus un una y ya
che chi ci da dal dalla dei del della di gli ha ho il io la le lo ma mi nel nella non per piu quando questo se si sono
su tra un una uno
ao as com da das de do dos e em eu foi mas meu na nas no nos num o os ou para pela pelo por que se seu sua um uma
aan dat de die een en er het hij ik in is je maar met mijn naar niet of om onze op te van voor was wat we ze zijn
"""
SMALL_WORDS = frozenset(_SMALL.split())


@dataclass(frozen=True, slots=True)
class TeamStatistics:
    """How much a team has among all."""

    made: int
    """Documents that the team made."""
    usual_length: float
    """How many words a piece of the team usually has."""
    pieces_each: float
    """How many pieces a document of the team usually has."""
    last_pk: int
    """The newest document of all teams."""

    @property
    def crowded(self) -> bool:
        """Whether most documents of the catalog are other teams'."""
        return self.made * 2 < self.last_pk


@dataclass(frozen=True, slots=True)
class ReadQuery:
    """The query's words that the index knows, how common each is, and which were corrected."""

    groups: tuple[TermGroup, ...]
    counts: tuple[int, ...]
    corrections: dict[str, str]
    statistics: TeamStatistics
    usual_length: float
    """How many words a piece usually has, now or on the page before."""

    @property
    def scale(self) -> list[float]:
        """What documents are measured by, apart from themselves."""
        return [round(self.usual_length, 3), *(round(group.rarity, 4) for group in self.groups)]

    def measured_by(self, scale: Sequence[object]) -> ReadQuery:
        """The same query on an earlier scale, unless that is of another one."""
        numbers = [one for one in scale if isinstance(one, float) and 0 <= one < 1e9]
        if len(numbers) != len(scale) or len(numbers) != len(self.groups) + 1:
            numbers = self.scale
        groups = (
            replace(group, rarity=rarity) for group, rarity in zip(self.groups, numbers[1:], strict=True)
        )
        return replace(self, groups=tuple(groups), usual_length=numbers[0])


async def read(connection: AsyncConnection, team: str, query: str, *, postgres: bool) -> ReadQuery:
    """Words that no document has stay in, without forms: what is missing must count against a document."""
    now = await team_statistics(connection, team)
    found_words = list(dict.fromkeys(words(query)))
    # Single letters are what is left of "pupil's" and the like; alone they may be meant.
    asked = ([word for word in found_words if len(word) > 1 or not word.isascii()] or found_words)[:MAX_WORDS]
    prefixes = {word: _stem(word) for word in asked if word.isalpha() and len(word) >= 4}
    unfinished = asked[-1] if asked and len(asked[-1]) >= 3 else None
    wanted = list(dict.fromkeys([*prefixes.values(), *([unfinished] if unfinished else [])]))
    known, begun = await team_terms.look_up(connection, team, asked, wanted, _VARIANTS * 8, postgres=postgres)
    groups: list[TermGroup] = []
    counts: list[int] = []
    corrections: dict[str, str] = {}
    for word in asked:
        completions = begun[word] if word == unfinished else {}
        forms, found = _forms(word, known.get(word, 0), begun.get(prefixes.get(word, ""), {}), completions)
        if not found and not forms:
            near = await team_terms.like(connection, team, word)
            forms = {term: _MISSPELT[errors] for term, (errors, _) in near.items()}
            found = {term: documents for term, (_, documents) in near.items()}
            if near:
                corrections[word] = next(iter(near))
        documents = sum(found.values()) or _UNKNOWN
        worth = rarity(documents, now.made) * (_SMALL_WORD if word in SMALL_WORDS else 1.0)
        groups.append(TermGroup(word, forms, worth))
        counts.append(documents)
    return ReadQuery(tuple(groups), tuple(counts), corrections, now, now.usual_length)


async def team_statistics(connection: AsyncConnection, team: str) -> TeamStatistics:
    of_all_teams = select(func.max(DOCUMENTS.c.pk)).scalar_subquery()
    found = await connection.execute(
        select(TEAMS.c.documents_made, TEAMS.c.words, TEAMS.c.pieces, of_all_teams).where(
            TEAMS.c.team == team
        )
    )
    made, words_in_all, pieces, last = found.one_or_none() or (0, 0, 0, 1)
    return TeamStatistics(int(made), words_in_all / max(1, pieces), pieces / max(1, made), int(last or 1))


def _stem(word: str) -> str:
    return word[: max(4, -(-len(word) * 6 // 10))]


def _forms(
    word: str, documents: int, near: Mapping[str, int], completions: Mapping[str, int]
) -> tuple[dict[str, float], dict[str, int]]:
    """The word itself, its other endings and what it may be the beginning of; each with its weight and count."""
    forms: dict[str, float] = {word: 1.0} if documents or not team_terms.listed(word) else {}
    found: dict[str, int] = {word: documents} if documents else {}
    variants = [term for term in near if term != word and term.isalpha() and same_stem(word, term)]
    for term in variants[:_VARIANTS]:
        forms[term], found[term] = _VARIED, near[term]
    for term in [term for term in completions if term not in forms][:_COMPLETIONS]:
        forms[term], found[term] = _COMPLETED, completions[term]
    return forms, found


def same_stem(first: str, second: str) -> bool:
    """Whether two words differ only in their endings: `invoice` and `invoicing`, but not `contract` and `contrast`.

    All but one letter of the shorter one begin both, and the longer one goes on for at most four letters.
    """
    shorter, longer = sorted((first, second), key=len)
    common = 0
    for left, right in zip(shorter, longer, strict=False):
        if left != right:
            break
        common += 1
    return (
        common >= 4
        and len(shorter) - common <= 1
        and len(longer) - common <= 4
        and common * 10 >= len(longer) * 6
    )
