"""Office files and mails by way of the API."""

from __future__ import annotations

from tests.support.office_files import cells, docx, mail, p, xlsx
from tests.support.serving import Client


async def test_office_file_is_converted_when_it_is_uploaded(client: Client) -> None:
    answer = await client.upload(docx(p("Tides", "Heading1") + p("Words.")), wait=240, name="liar.pdf")
    assert answer.status == 200
    assert answer.json["result"]["markdown"] == "# Tides\n\nWords."
    assert "wordprocessingml" in answer.json["result"]["metadata"]["mime"]


async def test_attachments_are_children_of_the_job_when_a_mail_is_uploaded(client: Client) -> None:
    files = {
        "sums.xlsx": xlsx({"S": cells("a", 1) + cells("b", 2)}),
        "box.tar.gz": b"\x1f\x8b\x08\x00junk",
        "bad.pdf": b"%PDF-1.7",
    }
    answer = await client.upload(mail("See below.", files=files).as_bytes(), wait=240, name="mail.eml")
    assert answer.status == 200
    job_id = answer.json["job_id"]
    job = await client.over(job_id)
    assert job["parent"] is None
    entries = {child["name"]: child for child in job["children"]}
    assert set(entries) == set(files)
    assert (entries["box.tar.gz"]["job_id"], entries["box.tar.gz"]["mime"]) == (None, "application/gzip")
    sums = await client.over(entries["sums.xlsx"]["job_id"])
    assert (sums["status"], sums["parent"], sums["children"]) == ("completed", job_id, [])
    await client.over(entries["bad.pdf"]["job_id"])
    again = {child["name"]: child for child in (await client.get(f"/jobs/{job_id}")).json["children"]}
    assert again["sums.xlsx"]["status"] == "completed"
    assert again["bad.pdf"]["status"] == "failed"
    assert again["bad.pdf"]["error"]


async def test_attachments_are_not_seen_by_another_team(client: Client, beta: Client) -> None:
    answer = await client.upload(mail("Ours.", files={"a.txt": b"words of ours"}).as_bytes(), wait=240)
    child = (await client.over(answer.json["job_id"]))["children"][0]["job_id"]
    assert (await beta.get(f"/jobs/{child}")).status == 404


async def test_page_of_an_office_file_has_no_picture(client: Client) -> None:
    answer = await client.upload(docx(p("Words of another document.")), wait=240)
    picture = await client.get(f"/jobs/{answer.json['job_id']}/pages/1/image")
    assert 400 <= picture.status < 500
    assert "no picture" in picture.json["error"]
