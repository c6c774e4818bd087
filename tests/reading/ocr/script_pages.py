"""Pages of six scripts in several layouts, drawn with the fonts inside MuPDF, to be turned and spoilt.

The same seed gives the same page on every machine: nothing is taken from the system's fonts.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pymupdf
from PIL import Image, ImageFilter

from . import scans

WIDTH_PT, HEIGHT_PT = 595, 842

SENTENCES: dict[str, tuple[str, ...]] = {
    "latin": (
        "The harbour office paid for the repairs because the old bridge was no longer safe.",
        "A committee of seven members asked for forty copies of the plan.",
        "Die Gemeinde prüfte die Rechnungen des Jahres und fand größere Lücken.",
        "Le conseil a décidé de réparer la toiture de l'école avant l'hiver.",
        "El informe de la comisión se publicó en septiembre con todas las cuentas.",
        "Every household in the valley received a letter about the new water meters.",
        "The printing works moved into larger rooms before the quarter was over.",
    ),
    "cyrillic": (
        "Комитет решил отремонтировать старый мост до наступления зимы.",
        "Каждая семья в долине получила письмо о новых счётчиках воды.",
        "Директор типографии сообщил о переезде в более просторное помещение.",
        "Отчёт комиссии опубликован в сентябре вместе со всеми счетами.",
        "Правление железной дороги отказалось подписать соглашение.",
        "Учителя попросили сорок экземпляров нового учебного плана.",
        "Цена выросла на двенадцать процентов по сравнению с прошлым годом.",
    ),
    "chinese": (
        "委员会决定在冬季到来之前修复旧桥。",
        "山谷里的每一户人家都收到了关于新水表的信件。",
        "印刷厂的厂长说他们将搬到更大的房间里去。",
        "调查报告已于九月公布，并附有全部账目。",
        "铁路管理局拒绝签署这份协议，因为价格上涨了百分之十二。",
        "老师们要求得到四十份新的教学计划。",
        "港口办公室支付了修理费用，所有的工人都很满意。",
    ),
    "arabic": (
        "قررت اللجنة إصلاح الجسر القديم قبل حلول فصل الشتاء.",
        "تلقت كل أسرة في الوادي رسالة حول عدادات المياه الجديدة.",
        "أعلن مدير المطبعة أنهم سينتقلون إلى غرف أوسع.",
        "نشر تقرير اللجنة في شهر سبتمبر مع جميع الحسابات.",
        "رفض مجلس السكك الحديدية التوقيع على الاتفاقية.",
        "طلب المعلمون أربعين نسخة من الخطة الدراسية الجديدة.",
        "ارتفعت الأسعار بنسبة كبيرة مقارنة بالعام الماضي.",
    ),
    "devanagari": (
        "समिति ने सर्दियों से पहले पुराने पुल की मरम्मत करने का निर्णय लिया।",
        "घाटी के हर परिवार को पानी के नए मीटर के बारे में पत्र मिला।",
        "छापाखाने के निदेशक ने बताया कि वे बड़े कमरों में जा रहे हैं।",
        "आयोग की रिपोर्ट सितंबर में सभी खातों के साथ प्रकाशित हुई।",
        "रेलवे बोर्ड ने समझौते पर हस्ताक्षर करने से इनकार कर दिया।",
        "शिक्षकों ने नई शिक्षा योजना की चालीस प्रतियाँ माँगीं।",
        "पिछले वर्ष की तुलना में कीमतें बारह प्रतिशत बढ़ गईं।",
    ),
    "greek": (
        "Η επιτροπή αποφάσισε να επισκευάσει την παλιά γέφυρα πριν από τον χειμώνα.",
        "Κάθε οικογένεια στην κοιλάδα έλαβε επιστολή για τους νέους μετρητές νερού.",
        "Ο διευθυντής του τυπογραφείου είπε ότι μετακομίζουν σε μεγαλύτερο χώρο.",
        "Η έκθεση δημοσιεύθηκε τον Σεπτέμβριο μαζί με όλους τους λογαριασμούς.",
        "Το συμβούλιο των σιδηροδρόμων αρνήθηκε να υπογράψει τη συμφωνία.",
        "Οι δάσκαλοι ζήτησαν σαράντα αντίγραφα του νέου προγράμματος σπουδών.",
        "Οι τιμές αυξήθηκαν κατά δώδεκα τοις εκατό σε σχέση με πέρυσι.",
    ),
}

LAYOUTS = ("prose", "columns", "table", "sparse", "letter", "picture")


def script_page(script: str, layout: str, seed: int, *, dpi: int = 150) -> Image.Image:
    """One clean, upright page."""
    document = script_document(script, layout, seed)
    try:
        pixels = document[0].get_pixmap(dpi=dpi, colorspace=pymupdf.csGRAY)
        return Image.frombytes("L", (pixels.width, pixels.height), pixels.samples)
    finally:
        document.close()


def script_document(script: str, layout: str, seed: int) -> pymupdf.Document:
    """The same page as a PDF with text."""
    chance = random.Random(f"{script} {layout} {seed}")
    document = pymupdf.open()
    page = document.new_page(width=WIDTH_PT, height=HEIGHT_PT)
    _DRAWN[layout](page, script, chance)
    return document


def turned(picture: Image.Image, quarters: int) -> Image.Image:
    """The picture turned anticlockwise."""
    return Image.fromarray(np.rot90(np.asarray(picture), quarters)) if quarters else picture


def photographed(picture: Image.Image, seed: int) -> Image.Image:
    """On a dark table, seen from an angle, in light that falls off to one side."""
    chance = random.Random(seed)
    width, height = picture.size
    slack = 0.05
    corners = [
        (chance.uniform(0, slack) * width, chance.uniform(0, slack) * height),
        (chance.uniform(0, slack) * width, (1 - chance.uniform(0, slack)) * height),
        ((1 - chance.uniform(0, slack)) * width, (1 - chance.uniform(0, slack)) * height),
        ((1 - chance.uniform(0, slack)) * width, chance.uniform(0, slack) * height),
    ]
    matrix = _perspective(corners, [(0, 0), (0, height), (width, height), (width, 0)])
    table = chance.randint(30, 90)
    seen = picture.transform(
        picture.size, Image.Transform.PERSPECTIVE, matrix, Image.Resampling.BICUBIC, fillcolor=table
    )
    pixels = np.asarray(seen.filter(ImageFilter.GaussianBlur(0.7)), dtype=np.float32)
    light = np.linspace(chance.uniform(0.75, 1.0), chance.uniform(0.55, 0.8), width, dtype=np.float32)[
        None, :
    ]
    pixels = pixels * light + np.random.default_rng(seed).normal(0, 4, pixels.shape)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


CONDITIONS: dict[str, scans.Spoiler] = {
    "clean": scans.as_is,
    "noisy": scans.noisy,
    "skewed": scans.askew,
    "low contrast": scans.pale,
    "photographed": photographed,
}


def _perspective(inside: list[tuple[float, float]], outside: list[tuple[float, float]]) -> list[float]:
    """The eight numbers by which a place of the photograph becomes a place of the page."""
    rows, values = [], []
    for (x, y), (u, v) in zip(inside, outside, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        values += [u, v]
    return [float(number) for number in np.linalg.solve(np.array(rows), np.array(values))]


def _prose(page: pymupdf.Page, script: str, chance: random.Random) -> None:
    size = chance.choice((9, 11, 13))
    _write(page, (60, 50, 535, 95), f"<h1>{_short(script, chance, 4)}</h1>", size, script)
    box = (60, 100, 535, 785)
    _write(page, box, _filled(box, size, script, chance), size, script)


def _columns(page: pymupdf.Page, script: str, chance: random.Random) -> None:
    size = chance.choice((8, 9, 10))
    _write(page, (50, 45, 545, 95), f"<h1>{_short(script, chance, 4)}</h1>", size, script)
    for left, right in ((50, 285), (310, 545)):
        box = (left, 100, right, 790)
        _write(page, box, _filled(box, size, script, chance), size, script)


def _table(page: pymupdf.Page, script: str, chance: random.Random) -> None:
    columns, rows = chance.choice((3, 4, 5)), chance.randint(8, 18)
    _write(page, (60, 50, 535, 110), f"<h2>{_short(script, chance, 4)}</h2>", 11, script)
    ruled, width, height = chance.random() < 0.6, 475 / columns, 28
    for row in range(rows):
        for column in range(columns):
            left, top = 60 + column * width, 120 + row * height
            box = pymupdf.Rect(left, top, left + width, top + height)
            if ruled:
                page.draw_rect(box, width=0.6)
            text = _short(script, chance, 2) if not column or not row else f"{chance.uniform(1, 9999):,.1f}"
            _write(page, (left + 3, top + 3, left + width - 3, top + height - 1), f"<p>{text}</p>", 9, script)


def _sparse(page: pymupdf.Page, script: str, chance: random.Random) -> None:
    top = chance.randint(120, 420)
    _write(
        page,
        (90, top, 505, top + 140),
        f"<h1>{_short(script, chance, 5)}</h1>",
        chance.choice((12, 16)),
        script,
    )
    if chance.random() < 0.6:
        _write(page, (90, top + 160, 505, top + 250), f"<p>{_short(script, chance, 6)}, 2024</p>", 12, script)


def _letter(page: pymupdf.Page, script: str, chance: random.Random) -> None:
    for line in range(4):
        _write(
            page, (60, 60 + 18 * line, 260, 80 + 18 * line), f"<p>{_short(script, chance, 2)}</p>", 10, script
        )
    _write(
        page, (360, 150, 540, 172), f"<p>{chance.randint(1, 28)}.{chance.randint(1, 12)}.2024</p>", 10, script
    )
    box = (60, 220, 535, 220 + chance.choice((120, 300)))
    _write(page, box, _filled(box, 11, script, chance), 11, script)
    _write(page, (60, 560, 300, 600), f"<p>{_short(script, chance, 2)}</p>", 11, script)


def _picture(page: pymupdf.Page, script: str, chance: random.Random) -> None:
    dice = np.random.default_rng(chance.randint(0, 10_000))
    shades = Image.fromarray(dice.integers(20, 230, (12, 16), dtype=np.uint8)).resize(
        (640, 480), Image.Resampling.BICUBIC
    )
    top = chance.choice((60, 300))
    page.insert_image(pymupdf.Rect(60, top, 535, top + 360), stream=scans.png(shades))
    _write(page, (60, top + 370, 535, top + 400), f"<p>{_short(script, chance, 6)}</p>", 9, script)
    box = (60, 480, 535, 780) if top < 100 else (60, 60, 535, 280)
    _write(page, box, _filled(box, 11, script, chance), 11, script)


_DRAWN: dict[str, Callable[[pymupdf.Page, str, random.Random], None]] = {
    "prose": _prose,
    "columns": _columns,
    "table": _table,
    "sparse": _sparse,
    "letter": _letter,
    "picture": _picture,
}


def _filled(box: tuple[float, float, float, float], size: float, script: str, chance: random.Random) -> str:
    """Paragraphs that about fill the box."""
    advance = size if script == "chinese" else size * 0.52
    room = (box[2] - box[0]) / advance * (box[3] - box[1]) / (size * 1.5)
    found: list[str] = []
    while sum(map(len, found)) < 0.75 * room:
        found.append(" ".join(chance.choice(SENTENCES[script]) for _ in range(chance.randint(2, 5))))
    return "".join(f"<p>{one}</p>" for one in found)


def _short(script: str, chance: random.Random, words: int) -> str:
    """The first words of a sentence."""
    sentence = chance.choice(SENTENCES[script]).rstrip(".。।")
    return sentence[: words * 2] if script == "chinese" else " ".join(sentence.split()[:words])


def _write(page: pymupdf.Page, box: tuple[float, ...], html: str, size: float, script: str) -> None:
    direction = ' dir="rtl"' if script == "arabic" else ""
    css = f"* {{font-size: {size}px}} h1 {{font-size: {size * 1.7}px}} h2 {{font-size: {size * 1.3}px}}"
    marked = (
        html.replace("<p>", f"<p{direction}>")
        .replace("<h1>", f"<h1{direction}>")
        .replace("<h2>", f"<h2{direction}>")
    )
    page.insert_htmlbox(pymupdf.Rect(box), marked, css=css)
