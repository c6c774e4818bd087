"""Small documents that take a reader very long."""

from __future__ import annotations


def nested_forms(seed: int = 0, levels: int = 12, times: int = 20) -> bytes:
    """A PDF of 3 kB whose page draws a form that draws a form …: `times` to the power of `levels` in all."""
    resources = "<</XObject<</F {} 0 R>>>>"
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R/Resources{resources.format(5)}/Seed {seed}>>",
        "<</Length 5>>stream\n/F Do\nendstream",
    ]
    for level in range(levels):
        last = level == levels - 1
        body = "0 0 m 9 9 l S" if last else "/F Do " * times
        draws = "" if last else f"/Resources{resources.format(6 + level)}"
        objects.append(
            f"<</Type/XObject/Subtype/Form/BBox[0 0 99 99]/Length {len(body)}{draws}>>stream\n{body}\nendstream"
        )
    out, places = "%PDF-1.7\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{one}\nendobj\n"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    size = len(objects) + 1
    end = f"trailer<</Root 1 0 R/Size {size}>>\nstartxref\n{len(out)}\n%%EOF"
    return f"{out}xref\n0 {size}\n0000000000 65535 f \n{table}{end}".encode()
