from __future__ import annotations

from tests.cli.conftest import Cli
from tests.support.office_files import cells, docx, mail, p, xlsx


def test_attachments_stand_beside_the_mail_when_it_is_converted(cli: Cli) -> None:
    inner = mail("Inner words.", files={"deep.docx": docx(p("Deep words."))}, Subject="Inner")
    outer = mail(
        "Outer words.", files={"../sums.xlsx": xlsx({"S": cells("a", 1) + cells("b", 2)}), "x.exe": b"MZ\0\0"}
    )
    outer.add_attachment(inner)
    (cli.folder / "letter.eml").write_bytes(outer.as_bytes())
    done = cli.run("convert", "letter.eml", "-o", "out/")
    assert done.code == 0, done.err
    out = cli.folder / "out"
    assert sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()) == [
        "letter.attachments/message.eml.attachments/deep.docx.md",
        "letter.attachments/message.eml.md",
        "letter.attachments/sums.xlsx.md",
        "letter.md",
    ]
    text = (out / "letter.md").read_text()
    assert "Outer words." in text
    assert "[sums.xlsx](letter.attachments/sums.xlsx.md)" in text
    assert (out / "letter.attachments/message.eml.attachments/deep.docx.md").read_text() == "Deep words.\n"
    assert cli.left_behind() == []


def test_exit_tells_when_an_attachment_can_not_be_read(cli: Cli) -> None:
    (cli.folder / "letter.eml").write_bytes(mail("Words.", files={"bad.pdf": b"%PDF-1.7"}).as_bytes())
    done = cli.run("convert", "letter.eml", "-o", "out.md")
    assert done.code != 0
    assert "attachment bad.pdf: " in done.err
    assert "Words." in (cli.folder / "out.md").read_text()


def test_type_is_named_when_it_can_not_be_read(cli: Cli) -> None:
    (cli.folder / "notes.djvu").write_bytes(b"AT&TFORM" + bytes(50))
    done = cli.run("convert", "notes.djvu")
    assert done.code == 1
    assert "image/vnd.djvu" in done.err
