"""Documents made on the spot with everything they say: invoices, forms, statements and contracts, and planted errors.

Each document has a schema, the true answer of a model for it (see `quire.simulator.simulated_values`), and a list of
what was planted in that answer.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from reportlab.lib.pagesizes import A4
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

WIDTH, HEIGHT = A4
Box = tuple[float, float, float, float]
FONT, SIZE, LEFT, TOP, STEP = "Helvetica", 10, 60, 70, 16
LAST_LINE = HEIGHT - 80

COMPANIES = (
    "Norrland Shipping AB",
    "Ferrum Werkzeuge GmbH",
    "Aldine Press Ltd",
    "Costa Brava Foods SL",
    "Quarry & Sons",
)
PEOPLE = ("Ingrid Halvorsen", "Matthias Oberhofer", "Siobhan Kelleher", "Tomás Rivera", "Amara Okafor")
GOODS = (
    "Steel bolts M8",
    "Oak planks",
    "Copper wire",
    "Paper rolls",
    "Glass jars",
    "Sealing rings",
    "Olive oil",
)
STREETS = ("Harbour Road", "Mill Lane", "Kastanienallee", "Rue des Lilas", "Calle Mayor")
SHOPS = (
    "Baker street market",
    "City transport",
    "Green grocer",
    "Water works",
    "Book corner",
    "Coffee house",
)


@dataclass
class Leaf:
    """A true value: the text that says it, its page and its box."""

    value: Any
    quote: str
    page: int
    box: Box

    def answer(self) -> dict[str, Any]:
        return {"value": self.value, "quote": self.quote, "page": self.page}


@dataclass
class Plant:
    """An error in the model's answer: its kind and the path of the value."""

    kind: str
    path: tuple[Any, ...]


@dataclass
class Labelled:
    """A document. `truth` is a tree of leaves; `answer` the same as the model gives it, errors included."""

    name: str
    pdf: bytes
    schema: dict[str, Any]
    truth: dict[str, Any]
    pages: int
    answer: dict[str, Any] = field(default_factory=dict)
    plants: list[Plant] = field(default_factory=list)


class Sheet:
    """Writes lines and remembers where they are."""

    def __init__(self, header: str) -> None:
        self._out = BytesIO()
        self._canvas = Canvas(self._out, pagesize=A4, invariant=1)
        self._header = header
        self.page = 0
        self.y = 0.0
        self.next_page()

    def next_page(self) -> None:
        if self.page:
            self._canvas.showPage()
        self.page += 1
        self._canvas.setFont(FONT, SIZE)
        self.y = TOP
        self.text(LEFT, self._header)
        self.y += 2 * STEP

    def text(self, x: float, said: str) -> Box:
        self._canvas.drawString(x, HEIGHT - self.y, said)
        return (x, self.y - SIZE, x + stringWidth(said, FONT, SIZE), self.y + 2)

    def line(self, said: str, gap: float = 1.6) -> Box:
        """One line, on the next page where this one is full."""
        if self.y > LAST_LINE:
            self.next_page()
        box = self.text(LEFT, said)
        self.y += STEP * gap
        return box

    def leaf(self, said: str, value: Any, gap: float = 1.6) -> Leaf:
        box = self.line(said, gap)
        return Leaf(value, said, self.page, box)

    def row(self, columns: list[tuple[float, str]]) -> list[tuple[int, Box]]:
        """Cells of one row of a ruled table."""
        if self.y > LAST_LINE:
            self.next_page()
        boxes = [(self.page, self.text(x, said)) for x, said in columns]
        self._canvas.setLineWidth(0.5)
        for y in (self.y - 11.5, self.y + 4.5):
            self._canvas.line(LEFT - 5, HEIGHT - y, WIDTH - 60, HEIGHT - y)
        for x in (LEFT - 5, *(one - 5 for one, _ in columns[1:]), WIDTH - 60):
            self._canvas.line(x, HEIGHT - (self.y - 11.5), x, HEIGHT - (self.y + 4.5))
        self.y += STEP
        return boxes

    def close(self) -> bytes:
        self._canvas.showPage()
        self._canvas.save()
        return self._out.getvalue()


def money(value: float, style: str) -> str:
    plain = f"{value:,.2f}"
    return plain if style == "en" else plain.replace(",", " ").replace(".", ",").replace(" ", ".")


def day(date: datetime.date, style: int) -> str:
    shown = (f"{date.day}.{date.month:02}.{date.year}", f"{date.day} {date:%B} {date.year}", date.isoformat())
    return (*shown, f"{date:%B} {date.day}, {date.year}")[style]


def _text(description: str = "") -> dict[str, Any]:
    return {"type": "string", "description": description} if description else {"type": "string"}


DATE = {"type": "string", "format": "date"}
NUMBER = {"type": "number"}


def _object(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(fields), "properties": fields}


def _listed(**fields: Any) -> dict[str, Any]:
    return {"type": "array", "items": _object(**fields)}


def invoice(chance: random.Random, number: int) -> Labelled:
    style, dated = chance.choice(["en", "de"]), chance.randrange(4)
    sheet = Sheet(chance.choice(COMPANIES))
    issued = datetime.date(2024, 1, 1) + datetime.timedelta(chance.randrange(700))
    sheet.line("Invoice")
    truth: dict[str, Any] = {}
    code = f"INV-{number:04}-{chance.randrange(100, 999)}"
    truth["number"] = sheet.leaf(f"Invoice number: {code}", code)
    truth["issued"] = sheet.leaf(f"Date of issue: {day(issued, dated)}", issued.isoformat())
    customer = f"{chance.choice(PEOPLE)}, {chance.choice(STREETS)} {chance.randrange(1, 90)}"
    truth["customer"] = sheet.leaf(f"Bill to: {customer}", customer)
    head = [(60, "Item"), (260, "Quantity"), (340, "Unit price"), (440, "Amount")]
    sheet.row(head)
    items, total = [], 0.0
    for place in range(chance.randrange(4, 60)):
        good = f"{chance.choice(GOODS)} no. {100 + place}"
        count, price = chance.randrange(1, 40), round(chance.uniform(1, 4000), 2)
        amount = round(count * price, 2)
        total += amount
        cells = [good, str(count), money(price, style), money(amount, style)]
        boxes = sheet.row([(x, said) for (x, _), said in zip(head, cells, strict=True)])
        names, values = ("item", "quantity", "price", "amount"), (good, count, price, amount)
        items.append(
            {
                name: Leaf(value, cell, page, box)
                for name, value, cell, (page, box) in zip(names, values, cells, boxes, strict=True)
            }
        )
    truth["items"] = items
    sheet.y += STEP
    total = round(total, 2)
    truth["total"] = sheet.leaf(f"Total due: {money(total, style)} EUR", total)
    truth["currency"] = sheet.leaf("All prices are in Euro (EUR).", "EUR")
    schema = _object(
        number=_text("the number of the invoice"),
        issued=DATE,
        customer=_text(),
        items=_listed(item=_text(), quantity={"type": "integer"}, price=NUMBER, amount=NUMBER),
        total=NUMBER,
        currency={"type": "string", "enum": ["EUR", "USD", "GBP"]},
    )
    return Labelled(f"invoice-{number:03}.pdf", sheet.close(), schema, truth, sheet.page)


def form(chance: random.Random, number: int) -> Labelled:
    sheet = Sheet("Application for a mooring place")
    born = datetime.date(1950, 1, 1) + datetime.timedelta(chance.randrange(18_000))
    name, street = chance.choice(PEOPLE), f"{chance.choice(STREETS)} {chance.randrange(1, 200)}"
    iban = f"DE{chance.randrange(10, 99)} {chance.randrange(1000, 9999)} {chance.randrange(1000, 9999)} 0000"
    insured = chance.random() < 0.5
    truth = {
        "name": sheet.leaf(f"Name of applicant: {name}", name),
        "born": sheet.leaf(f"Date of birth: {day(born, chance.randrange(4))}", born.isoformat()),
        "street": sheet.leaf(f"Address: {street}", street),
        "iban": sheet.leaf(f"Bank account: {iban}", iban.replace(" ", "")),
        "length_m": sheet.leaf(f"Length of the boat: {9.5 + number % 7} m", 9.5 + number % 7),
        "insured": sheet.leaf(f"Insured: {'yes' if insured else 'no'}", insured),
        "reference": sheet.leaf(f"File reference: MR/{number:05}/{chance.randrange(10, 99)}", ""),
    }
    truth["reference"].value = truth["reference"].quote.removeprefix("File reference: ")
    fields = dict.fromkeys(("name", "street", "iban", "reference"), _text())
    schema = _object(**fields, born=DATE, length_m=NUMBER, insured={"type": "boolean"})
    return Labelled(f"form-{number:03}.pdf", sheet.close(), schema, truth, sheet.page)


def statement(chance: random.Random, number: int, pages: int) -> Labelled:
    sheet = Sheet("Account statement, Bank of the North")
    account = f"{chance.randrange(10_000_000, 99_999_999)}"
    truth: dict[str, Any] = {
        "account": sheet.leaf(f"Account {account}", account),
        "opening": sheet.leaf("Opening balance 12,480.55 EUR", 12480.55),
    }
    moves: list[dict[str, Leaf]] = []
    start = datetime.date(2025, 1, 2)
    while sheet.page < pages or sheet.y < LAST_LINE - 5 * STEP:
        when = start + datetime.timedelta(len(moves) // 5)
        amount = round(chance.uniform(2, 900), 2)
        what = chance.choice(SHOPS)
        # Now and then the same purchase twice on the same day: two rows that say the same.
        for _ in range(2 if len(moves) % 23 == 11 and sheet.y < LAST_LINE - 3 * STEP else 1):
            said = f"{when.isoformat()}  {what}  {amount:.2f}"
            box = sheet.line(said)
            moves.append({n: Leaf(v, said, sheet.page, box) for n, v in _move(when, what, amount)})
    truth["moves"] = moves
    truth["closing"] = sheet.leaf("Closing balance 9,318.07 EUR", 9318.07)
    schema = _object(
        account=_text(),
        opening=NUMBER,
        moves=_listed(date=DATE, text=_text(), amount=NUMBER),
        closing=NUMBER,
    )
    return Labelled(f"statement-{number:03}.pdf", sheet.close(), schema, truth, sheet.page)


def _move(when: datetime.date, what: str, amount: float) -> list[tuple[str, Any]]:
    return [("date", when.isoformat()), ("text", what), ("amount", amount)]


def contract(chance: random.Random, number: int, pages: int) -> Labelled:
    sheet = Sheet(f"Service agreement {number}")
    seller, buyer = chance.sample(COMPANIES, 2)
    signed = datetime.date(2023, 3, 1) + datetime.timedelta(chance.randrange(600))
    fee, months = 1000 + 250 * chance.randrange(1, 200), chance.randrange(6, 60)
    truth: dict[str, Any] = {
        "provider": sheet.leaf(f"This agreement is made by {seller} as the provider", seller),
        "client": sheet.leaf(f"and by {buyer} as the client", buyer),
        "signed": sheet.leaf(f"It was signed on {day(signed, chance.randrange(4))}.", signed.isoformat()),
    }
    late = {chance.randrange(2, pages + 1) if pages > 1 else 1: "fee", pages: "months"}
    clause = 0
    while sheet.page < pages or sheet.y < LAST_LINE - 4 * STEP:
        clause += 1
        wanted = late.get(sheet.page)
        if wanted == "fee" and "fee" not in truth:
            truth["fee"] = sheet.leaf(f"The yearly fee is EUR {fee:,}.00 without tax.", fee)
        if wanted == "months" and "months" not in truth:
            truth["months"] = sheet.leaf(f"It ends after a term of {months} months in total.", months)
        words = " ".join(
            chance.choice(("the", "party", "shall", "keep", "records", "of", "deliveries", "and", "goods"))
            for _ in range(12)
        )
        sheet.line(f"Clause {clause}. {words.capitalize()}.")
    if "fee" not in truth:
        truth["fee"] = sheet.leaf(f"The yearly fee is EUR {fee:,}.00 without tax.", fee)
    if "months" not in truth:
        truth["months"] = sheet.leaf(f"It ends after a term of {months} months in total.", months)
    schema = _object(provider=_text(), client=_text(), signed=DATE, fee=NUMBER, months={"type": "integer"})
    return Labelled(f"contract-{number:03}.pdf", sheet.close(), schema, truth, sheet.page)


def answered(tree: Any) -> Any:
    """The true answer of a model."""
    if isinstance(tree, Leaf):
        return tree.answer()
    if isinstance(tree, list):
        return [answered(one) for one in tree]
    return {name: answered(one) for name, one in tree.items()}


def plant(document: Labelled, chance: random.Random, kinds: tuple[str, ...]) -> None:
    """Puts one error of each kind into the answer, each at a value of its own."""
    document.answer = answered(document.truth)
    scalars = [name for name, one in document.truth.items() if isinstance(one, Leaf)]
    chance.shuffle(scalars)
    for kind in kinds:
        if kind in ("double", "made_up_item"):
            _plant_item(document, chance, kind)
            continue
        fitting = [name for name in scalars if _fits(document, name, kind)]
        if fitting:
            scalars.remove(fitting[0])
            document.answer[fitting[0]] = _PLANTS[kind](
                document.truth[fitting[0]], document.answer[fitting[0]]
            )
            document.plants.append(Plant(kind, (fitting[0],)))


def _fits(document: Labelled, name: str, kind: str) -> bool:
    leaf = document.truth[name]
    literal = isinstance(leaf.value, str) and leaf.value in leaf.quote
    if kind == "paraphrase":
        return literal and name != "currency"
    if kind == "wrong_page":
        return document.pages > 1
    if kind == "made_up_value":
        return not isinstance(leaf.value, bool) and name != "currency"
    return kind != "invalid_first" or not isinstance(leaf.value, str)


def _made_up(leaf: Leaf, answer: dict[str, Any]) -> dict[str, Any]:
    value: Any = "Zanzibar Holdings 77421" if isinstance(leaf.value, str) else 77421.13
    if isinstance(leaf.value, str) and len(leaf.value) == 10 and leaf.value[4] == "-":
        value = "1987-06-05"
    elif isinstance(leaf.value, int):
        value = 77421
    return {**answer, "value": value, "quote": f"as agreed: {value}", "on": leaf.page}


_PLANTS: dict[str, Callable[[Leaf, dict[str, Any]], dict[str, Any]]] = {
    "made_up": _made_up,
    "made_up_value": lambda leaf, answer: {**_made_up(leaf, answer), "quote": leaf.quote},
    "wrong_page": lambda leaf, answer: {**answer, "page": leaf.page % 3 + 1 + leaf.page, "on": leaf.page},
    "paraphrase": lambda leaf, answer: {
        **answer,
        "quote": f"The document gives {leaf.value} for this, roughly",
    },
    "missing": lambda leaf, answer: {"value": None, "quote": None, "page": None, "on": leaf.page},
    "invalid_first": lambda leaf, answer: {**answer, "invalid": "about as much as last year"},
}


def _plant_item(document: Labelled, chance: random.Random, kind: str) -> None:
    name = next((one for one, tree in document.truth.items() if isinstance(tree, list)), None)
    if name is None:
        return
    items = document.answer[name]
    at = chance.randrange(len(items))
    if kind == "double":
        # A row whose twin is not on the page: else the double would be the twin.
        same = [n for n, one in enumerate(document.truth[name]) if document.truth[name].count(one) == 1]
        at = chance.choice(same)
        items.insert(at, dict(items[at]))
    else:
        page = next(iter(items[at].values()))["page"]
        fake = {
            field_: {"value": value, "quote": f"{field_} {value}", "page": page}
            for field_, value in zip(
                items[at],
                ("1987-06-05", "Zanzibar Holdings", 77421.13)
                if "date" in items[at]
                else ("Zanzibar goods 77421", 98765, 77421.13, 55512.17),
                strict=True,
            )
        }
        items.insert(at, fake)
    document.plants.append(Plant(kind, (name, at)))


ERRORS = (
    "made_up",
    "made_up_value",
    "wrong_page",
    "paraphrase",
    "missing",
    "double",
    "made_up_item",
    "invalid_first",
)


def labelled_documents(count: int, seed: int = 7, *, longest: int = 100) -> list[Labelled]:
    """`count` documents of four kinds, a few of them `longest` pages long, with two or three errors each."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        pages = longest if number % 20 in (6, 11) else chance.randrange(1, 1 + min(8, longest))
        makers = (
            lambda n=number: invoice(chance, n),
            lambda n=number: form(chance, n),
            lambda n=number, p=pages: statement(chance, n, p),
            lambda n=number, p=pages: contract(chance, n, p),
        )
        document = makers[number % 4]()
        kinds = [ERRORS[(number + step) % len(ERRORS)] for step in (0, 3, 5)]
        plant(document, chance, tuple(kinds))
        found.append(document)
    return found
