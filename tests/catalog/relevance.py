"""A labelled set for search: 200 made documents of 40 kinds, 60 questions, and the scores of an answer.

The documents of a kind differ in names, places, numbers and amounts, and share office phrases with all the others. The
questions were written from the point of view of a user who searches for a paper: in other words than it uses, with
its names or numbers, with typing errors, or with a bit of everything. A question about a kind is answered by
all five of its documents, one about names or numbers by one document.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

SEED = 20_261_116
EACH = 5

_DATA = Path(__file__).parent / "data"
# kinds.txt, a line for each kind:  name: title | tags | summary | body
# questions.txt, a line for each:   category | question | kind, or kind and number when it is about one document
# Slots in braces are filled with the names and numbers of the document.

_PHRASES = (
    "Please keep this document for your records.",
    "If you have questions, call us on weekdays between nine and five.",
    "This letter was made by machine and is valid without a signature.",
    "All prices include the statutory tax.",
    "Please quote your customer number in every message.",
    "Our general terms apply; we send them on request.",
    "Data are kept as long as the law asks for.",
    "We thank you for your trust and remain with kind regards.",
    "Payment is to be made to the account named below.",
    "Enclosures: two pages.",
)
_FIRST = ("Anna", "Bilal", "Chiara", "Dmitri", "Elif", "Fiona", "Goran", "Hanna", "Ivo", "Jana", "Kofi", "Lena",
          "Mateo", "Nora", "Olek", "Petra", "Quentin", "Rosa", "Samir", "Tove")  # fmt: skip
_LAST = ("Abendroth", "Brightman", "Castellano", "Dvorak", "Eriksen", "Fontaine", "Grabowski", "Halvorsen", "Ibrahim",
         "Jovanovic", "Kowalczyk", "Lindqvist", "Moreau", "Nakamura", "Okafor", "Petrov", "Quispe", "Rasmussen",
         "Schönfeld", "Tremblay")  # fmt: skip
_CITIES = ("Aachen", "Bergen", "Coimbra", "Dresden", "Esbjerg", "Ferrara", "Graz", "Haarlem", "Innsbruck", "Jena",
           "Kraków", "Lübeck", "Málaga", "Nantes", "Odense")  # fmt: skip
_ORGS = ("Adlerwerk", "Brightwater", "Clearfield", "Dunmore", "Eastgate", "Falkenberg", "Greystone", "Hollander",
         "Inverness", "Juniper", "Kestrel", "Larkspur", "Meridian", "Northwind", "Oakridge", "Pinnacle", "Quarrystone",
         "Ravensdale", "Silverline", "Thornbury")  # fmt: skip
_FORMS = ("Ltd", "GmbH", "& Sons", "Group", "Services")
_STREETS = ("Acorn", "Beech", "Cedar", "Dahlia", "Elm", "Foxglove", "Garden", "Harbour", "Ivy", "Juniper")
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
           "December")  # fmt: skip


@dataclass(frozen=True)
class MadeDocument:
    id: str
    filename: str
    title: str | None
    summary: str | None
    tags: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Question:
    category: str
    text: str
    answers: frozenset[str]


@dataclass(frozen=True)
class Scores:
    """`mrr`: one divided by the place of the first right answer, on average. `recall`: right ones among five."""

    mrr: float
    recall_at_5: float


def make() -> tuple[list[MadeDocument], list[Question]]:
    """Always the same documents and questions."""
    chance = random.Random(SEED)
    documents: list[MadeDocument] = []
    slots: dict[tuple[str, int], dict[str, str]] = {}
    for line in (_DATA / "kinds.txt").read_text("utf-8").splitlines():
        kind, _, rest = line.partition(": ")
        title, tags, summary, body = (part.strip() for part in rest.split(" | "))
        for number in range(EACH):
            filled = slots[kind, number] = _slots(chance)
            sentences = [title.format(**filled), *body.format(**filled).split(". ")]
            for phrase in chance.sample(_PHRASES, 3):
                sentences.insert(chance.randrange(1, len(sentences) + 1), phrase.rstrip("."))
            # One in five was never classified, as happens when AI is away.
            classified = chance.random() > 0.2
            documents.append(
                MadeDocument(
                    id=f"{kind}-{number}",
                    filename=f"scan_{chance.randrange(10**6):06}.pdf",
                    title=title.format(**filled) if classified else None,
                    summary=summary.format(**filled) if classified else None,
                    tags=tuple(tags.split(", ")) if classified else (),
                    text=". ".join(sentences),
                )
            )
    chance.shuffle(documents)
    questions = (_DATA / "questions.txt").read_text("utf-8").splitlines()
    return documents, [_question(line, slots) for line in questions]


@dataclass(frozen=True)
class Binder:
    """A long document: some of the documents, one on each page."""

    id: str
    pages: tuple[MadeDocument, ...]


def make_binders(pages: int = 10) -> tuple[list[Binder], list[Question], list[dict[str, set[int]]]]:
    """The same documents bound together, the questions about the binders, and the right pages for each question."""
    documents, questions = make()
    binders = [
        Binder(f"binder-{at // pages}", tuple(documents[at : at + pages]))
        for at in range(0, len(documents), pages)
    ]
    places = {one.id: (binder.id, page) for binder in binders for page, one in enumerate(binder.pages, 1)}
    asked, right = [], []
    for question in questions:
        there: dict[str, set[int]] = {}
        for binder_id, page in (places[one] for one in question.answers):
            there.setdefault(binder_id, set()).add(page)
        right.append(there)
        asked.append(Question(question.category, question.text, frozenset(there)))
    return binders, asked, right


def score(questions: list[Question], answers: list[list[str]]) -> Scores:
    """What the answers (ids, best first) are worth."""
    reciprocal, recall = 0.0, 0.0
    for question, found in zip(questions, answers, strict=True):
        places = [place for place, one in enumerate(found, 1) if one in question.answers]
        reciprocal += 1 / places[0] if places else 0.0
        recall += sum(place <= 5 for place in places) / min(5, len(question.answers))
    return Scores(reciprocal / len(questions), recall / len(questions))


def _question(line: str, slots: dict[tuple[str, int], dict[str, str]]) -> Question:
    category, text, target = (part.strip() for part in line.split(" | "))
    kind, _, number = target.partition(" ")
    if not number:
        return Question(category, text, frozenset(f"{kind}-{one}" for one in range(EACH)))
    return Question(category, text.format(**slots[kind, int(number)]), frozenset({f"{kind}-{number}"}))


def _slots(chance: random.Random) -> dict[str, str]:
    city = chance.choice(_CITIES)
    return {
        "person": f"{chance.choice(_FIRST)} {chance.choice(_LAST)}",
        "org": f"{chance.choice(_ORGS)} {chance.choice(_FORMS)}",
        "city": city,
        "street": f"{chance.choice(_STREETS)} Street {chance.randrange(1, 99)}",
        "month": chance.choice(_MONTHS),
        "year": str(chance.randrange(2015, 2026)),
        "date": f"{chance.randrange(1, 29)} {chance.choice(_MONTHS)} {chance.randrange(2015, 2026)}",
        "amount": f"{chance.randrange(20, 9000)}.{chance.randrange(100):02} EUR",
        "small": str(chance.randrange(5, 60)),
        "number": f"{chance.choice('ABCDEFGHK')}-{chance.randrange(10_000, 99_999)}",
        "code": "".join(chance.choice("ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(6)),
        "plate": f"{city[:2].upper()} {chance.choice('XYZ')}{chance.choice('KLM')} {chance.randrange(100, 9999)}",
    }
