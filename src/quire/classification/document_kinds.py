"""The kind of a document (invoice, contract, …), by typical words in each language; and the stopwords."""

from __future__ import annotations

import re
from dataclasses import dataclass

from quire.classification.markdown_lines import MarkdownLine

_STOP = {
    "en": (
        "a about above after again all also am an and any are as at be because been before being below "
        "between both but by can could did do does doing down during each few for from further had has have "
        "having he her here hers him his how i if in into is it its itself just me more most my no nor not "
        "now of off on once only or other our ours out over own same she should so some such than that the "
        "their theirs them then there these they this those through to too under until up very was we were "
        "what when where which while who whom why will with would you your yours shall may must per via "
        "please dear sincerely regards yours within upon however therefore new one two three us mr mrs ms dr "
        "ltd inc llc page total amount number date no yes order every first second third next last step steps "
        "day days week weeks month months year years many much several another without since still even ever "
        "never always often whenever whether although though either neither else make makes made take takes "
        "taken give gives given come comes keep keeps turn turns show shows see need needs use uses used"
    ),
    "de": (
        "aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes auch "
        "auf aus bei bin bis bist da damit dann das dass dem den denn der des dessen die dies diese diesem "
        "diesen dieser dieses doch dort du durch ein eine einem einen einer eines er es etwas euer eure für "
        "gegen gewesen hab habe haben hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren "
        "ihrer ihres im in indem ins ist jede jedem jeden jeder jedes jetzt kann kein keine keinem keinen "
        "keiner können könnte machen man manche mehr mein meine mich mir mit muss nach nicht nichts noch nun "
        "nur ob oder ohne sehr sein seine seinem seinen seiner selbst sich sie sind so solche sollte sondern "
        "sonst über um und uns unser unsere unserem unseren unserer unter vom von vor während war waren was "
        "weg weil weiter welche welchem wenn werde werden wie wieder will wir wird wirst wo wollen würde "
        "würden zu zum zur zwar zwischen bitte herr frau geehrte geehrter damen herren freundlichen grüßen "
        "sowie bzw gmbh seite nr datum betrag gesamt summe erste ersten erster zweite zweiten letzte letzten "
        "nächste nächsten tag tage tagen woche wochen monat monate jahr jahre viele mehrere immer oft nie wurde "
        "wurden worden hätte geht gibt macht schon ganz seit ohne obwohl sobald bereits jedoch daher dabei"
    ),
    "fr": (
        "au aux avec ce ces cette dans de des du elle en et est être il ils je la le les leur lui ma mais me "
        "même mes moi mon ne nos notre nous on ou par pas pour qu que qui sa se ses son sur ta te tes toi ton "
        "tu un une vos votre vous sont plus sans sous entre comme page date"
    ),
    "es": (
        "a al algo como con de del desde donde el ella ellos en entre era es esta este esto estos fue ha han "
        "hasta la las le les lo los más me mi no nos o para pero por que se ser si sin sobre su sus también "
        "tu un una uno y ya página fecha"
    ),
    "it": (
        "a ad al alla alle anche che chi ci come con da dal dalla de dei del della delle di e ed è era gli ha "
        "hanno i il in io la le lo loro ma mi nel nella non o per più questa questo se si sono su sul tra un "
        "una uno vi pagina data"
    ),
    "nl": (
        "aan als bij dat de den der des deze die dit door een en er geen had heb hebben heeft het hij hun ik "
        "in is je kan maar me met mijn na naar niet of om onder ons onze ook op over te tot u uit uw van voor "
        "was wat we wel werd wij worden zal ze zich zij zijn zo pagina datum"
    ),
    "pt": (
        "a ao aos as à às com como da das de do dos e é ela ele em entre era eu foi há isso já mais mas me "
        "meu na não nas no nos o os ou para pela pelo por quando que se sem ser seu sua são também te um uma "
        "você página data"
    ),
}
STOPWORDS = frozenset(word for words in _STOP.values() for word in words.split())

_TYPES: tuple[tuple[str, dict[str, str], str], ...] = (
    (
        "invoice",
        {
            "en": "invoice",
            "de": "rechnung",
            "fr": "facture",
            "es": "factura",
            "it": "fattura",
            "nl": "factuur",
        },
        r"invoices?|rechnung(?:en|snummer|sdatum|sbetrag)?|facture|factura|fattura|factuur|amount\s+due|tax\s+invoice",
    ),
    (
        "reminder",
        {"en": "reminder", "de": "mahnung"},
        r"payment\s+reminder|overdue|mahnung|zahlungserinnerung",
    ),
    (
        "contract",
        {"en": "contract", "de": "vertrag", "fr": "contrat", "es": "contrato", "it": "contratto"},
        r"contract|agreement|hereinafter|vertrags?|(?:miet|arbeits|kauf|dienst|werk|rahmen)vertrag\w*|vereinbarung|"
        r"contrat|contrato|contratto",
    ),
    ("lease", {"en": "lease", "de": "mietvertrag"}, r"lease|tenant|landlord|mietvertrag|mieter|vermieter"),
    (
        "offer",
        {
            "en": "offer",
            "de": "angebot",
            "fr": "devis",
            "es": "presupuesto",
            "it": "preventivo",
            "nl": "offerte",
        },
        r"quotation|quote|offer|proposal|angebots?|kostenvoranschlag|devis|presupuesto|preventivo|offerte",
    ),
    ("receipt", {"en": "receipt", "de": "quittung"}, r"receipt|quittung|kassenbon|bon|reçu|recibo|ricevuta"),
    (
        "report",
        {
            "en": "report",
            "de": "bericht",
            "fr": "rapport",
            "es": "informe",
            "it": "relazione",
            "nl": "rapport",
        },
        r"report|findings|annual\s+report|bericht|(?:jahres|geschäfts|quartals|prüf)bericht\w*|rapport|informe|relazione",
    ),
    (
        "minutes",
        {"en": "minutes", "de": "protokoll"},
        r"minutes\s+of|meeting\s+minutes|attendees|(?:sitzungs)?protokoll|teilnehmer|tagesordnung",
    ),
    (
        "letter",
        {"en": "letter", "de": "brief"},
        r"dear\s+(?:sir|madam|mr|ms|mrs|dr)|yours\s+(?:sincerely|faithfully)|kind\s+regards|sehr\s+geehrte\w*|"
        r"mit\s+freundlichen\s+grüßen|hochachtungsvoll|madame,?\s+monsieur",
    ),
    (
        "cancellation",
        {"en": "cancellation", "de": "kündigung"},
        r"notice\s+of\s+termination|kündigung|cancellation",
    ),
    (
        "application",
        {"en": "application", "de": "bewerbung"},
        r"cover\s+letter|bewerbung\w*|curriculum\s+vitae|lebenslauf",
    ),
    (
        "certificate",
        {"en": "certificate", "de": "bescheinigung"},
        r"certificate|certifies|bescheinigung|zertifikat|urkunde",
    ),
    ("statement", {"en": "bank statement", "de": "kontoauszug"}, r"(?:bank|account)\s+statement|kontoauszug"),
    (
        "order",
        {"en": "purchase order", "de": "bestellung"},
        r"purchase\s+order|order\s+confirmation|bestellung|auftragsbestätigung",
    ),
    (
        "delivery",
        {"en": "delivery note", "de": "lieferschein"},
        r"delivery\s+note|packing\s+slip|lieferschein",
    ),
    (
        "manual",
        {"en": "manual", "de": "anleitung"},
        r"(?:user|owner'?s)?\s*manual|user\s+guide|bedienungsanleitung|anleitung|handbuch",
    ),
    (
        "insurance",
        {"en": "insurance", "de": "versicherung"},
        r"insurance|policy\s+number|versicherung\w*|police\b",
    ),
    (
        "tax",
        {"en": "tax", "de": "steuer"},
        r"tax\s+(?:return|assessment)|steuerbescheid|einkommensteuer\w*|finanzamt",
    ),
    (
        "payslip",
        {"en": "payslip", "de": "gehaltsabrechnung"},
        r"payslip|salary\s+statement|gehaltsabrechnung|lohnabrechnung",
    ),
    (
        "research",
        {"en": "research", "de": "forschung"},
        r"abstract|references|doi|methodology|we\s+present|hypothesis",
    ),
)
TYPES = tuple(
    (name, labels, re.compile(rf"(?<!\w)(?:{pattern})(?!\w)", re.IGNORECASE))
    for name, labels, pattern in _TYPES
)


_HEAD_LINES = 25
_LEAST = 2.0
_MOST_KINDS = 2
_PART_OF_FIRST = 0.5


@dataclass(frozen=True, slots=True)
class KindFound:
    """`label` is the word for it in the document's language, English where that has none here."""

    name: str
    label: str
    score: float


def kinds_of(lines: list[MarkdownLine], language: str | None) -> list[KindFound]:
    """Returns at most two kinds, the likeliest first; none if no typical word was found."""
    scores: dict[str, KindFound] = {}
    for name, labels, pattern in TYPES:
        score = 0.0
        for place, line in enumerate(lines):
            hits = len(pattern.findall(line.text[:400]))
            if not hits:
                continue
            if line.level or (place < _HEAD_LINES and len(line.text) < 60):
                score += 3.0 if line.level == 1 or place < 5 else 1.5
            else:
                score += min(hits, 2) * 0.5
        label = labels.get(language or "", labels["en"])
        scores[name] = KindFound(name, label, min(score, 12.0))
    ranked = sorted(scores.values(), key=lambda one: one.score, reverse=True)
    best = ranked[0].score
    return [one for one in ranked[:_MOST_KINDS] if one.score >= max(_LEAST, best * _PART_OF_FIRST)]
