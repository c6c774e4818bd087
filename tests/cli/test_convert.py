from __future__ import annotations

import contextlib
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pymupdf
import pytest

from tests.api.jobs.test_document_formats import pictured_pdf
from tests.support.waiting import DEADLINE_S, wait_until

from .conftest import Cli, make_pdf


def test_markdown_goes_to_stdout_when_one_document_is_given(cli: Cli) -> None:
    make_pdf(cli.folder / "one.pdf", "The first page", "The second page")
    done = cli.run("convert", "one.pdf")
    assert done.code == 0
    assert done.out == "The first page\n\n---\n\nThe second page\n"
    assert done.said.startswith("one.pdf: 2 pages (2 local), ")
    assert len(done.said.splitlines()) == 1
    assert cli.left_behind() == []
    assert [path.name for path in cli.folder.iterdir()] == ["one.pdf"]


def test_pages_of_low_confidence_are_named_at_the_end_when_there_are_any(cli: Cli) -> None:
    garbage = "\n".join(["xqzvk wjqxz kvbqx zzgkv qxjwv bvkqz xwqjk vzxqk"] * 12)
    plain = "The harbour office paid for the repairs because the old bridge was no longer safe."
    # Too small for OCR: where that reads the same letters, the page really has them.
    make_pdf(cli.folder / "one.pdf", plain, garbage, plain, garbage, size=2)
    done = cli.run("convert", "one.pdf", OCR_MODE="quick")
    assert done.code == 0
    last = done.said.splitlines()[-1]
    assert last.startswith("one.pdf: pages 2, 4 may be read wrongly (low confidence)")


def test_nothing_is_said_when_quiet(cli: Cli) -> None:
    make_pdf(cli.folder / "one.pdf", "Words")
    done = cli.run("convert", "-q", "one.pdf", "-o", "out.md")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert (cli.folder / "out.md").read_text() == "Words\n"


def test_results_are_named_apart_when_documents_share_a_stem(cli: Cli) -> None:
    for name in ("a", "b"):
        (cli.folder / name).mkdir()
        make_pdf(cli.folder / name / "report.pdf", f"From {name}")
    (cli.folder / "out").mkdir()
    (cli.folder / "out" / "notes.md").write_text("# Notes\n")
    done = cli.run("convert", "a/report.pdf", "b/report.pdf", "out/notes.md", "-o", "out")
    assert done.code == 0, done.err
    results = {path.name: path.read_text() for path in (cli.folder / "out").iterdir()}
    assert results["report.md"] == "From a\n"
    assert results["report-2.md"] == "From b\n"
    assert results["notes.md"] == "# Notes\n"  # the document itself is never overwritten
    assert "Notes" in results["notes-2.md"]
    assert len(results) == 4
    assert cli.left_behind() == []


def test_the_others_are_converted_when_one_document_is_missing(cli: Cli) -> None:
    make_pdf(cli.folder / "good.pdf", "Fine")
    done = cli.run("convert", "good.pdf", "missing.pdf", "-o", "out")
    assert done.code == 1
    assert (cli.folder / "out" / "good.md").read_text() == "Fine\n"
    assert "quire: missing.pdf: No such file or directory." in done.err.splitlines()


def test_usage_error_when_several_documents_have_no_folder(cli: Cli) -> None:
    make_pdf(cli.folder / "a.pdf", "a")
    done = cli.run("convert", "a.pdf", "a.pdf")
    assert done.code == 2
    assert done.err == "quire: Several documents need a folder for their results: add -o FOLDER.\n"
    assert cli.left_behind() == []


def test_usage_error_when_a_folder_is_to_be_converted(cli: Cli) -> None:
    (cli.folder / "letters").mkdir()
    done = cli.run("convert", "letters")
    assert done.code == 2
    assert "letters is a folder" in done.err


def test_usage_error_when_the_result_would_overwrite_its_document(cli: Cli) -> None:
    (cli.folder / "notes.md").write_text("# Notes\n")
    done = cli.run("convert", "notes.md", "-o", "notes.md")
    assert done.code == 2
    assert (cli.folder / "notes.md").read_text() == "# Notes\n"


def test_usage_error_when_a_setting_is_malformed(cli: Cli) -> None:
    make_pdf(cli.folder / "a.pdf", "a")
    done = cli.run("convert", "a.pdf", OCR_DPI="many")
    assert done.code == 2
    assert done.err.startswith("quire: OCR_DPI has 'many' in the environment")
    assert cli.left_behind() == []


@pytest.mark.parametrize("pages", ["0", "5-2", "x"])
def test_usage_error_when_page_ranges_are_malformed(cli: Cli, pages: str) -> None:
    make_pdf(cli.folder / "a.pdf", "a")
    done = cli.run("convert", "a.pdf", "--pages", pages)
    assert done.code == 2
    assert done.err.startswith("quire: pages: ")


def test_usage_error_when_ai_is_asked_for_without_a_provider(cli: Cli) -> None:
    make_pdf(cli.folder / "a.pdf", "a")
    done = cli.run("convert", "a.pdf", "--mode", "ai")
    assert done.code == 2
    assert "needs an AI provider" in done.err


def test_only_the_asked_pages_come_when_ranges_are_given(cli: Cli) -> None:
    make_pdf(cli.folder / "a.pdf", *(f"This is page {n}" for n in range(1, 7)))
    done = cli.run("convert", "a.pdf", "--pages", "2,5-")
    assert done.code == 0
    assert done.out == "This is page 2\n\n---\n\nThis is page 5\n\n---\n\nThis is page 6\n"


def test_failure_when_none_of_the_asked_pages_exists(cli: Cli) -> None:
    make_pdf(cli.folder / "a.pdf", "a")
    done = cli.run("convert", "a.pdf", "--pages", "7")
    assert done.code == 1
    assert "quire: a.pdf: pages: none of those asked for is there; the document has 1." in done.err


def test_json_has_markdown_metadata_and_pages_when_asked_for(cli: Cli) -> None:
    make_pdf(cli.folder / "a.pdf", "One", "Two")
    done = cli.run("convert", "a.pdf", "--format", "json", "--include", "words,links")
    assert done.code == 0
    found = json.loads(done.out)
    assert found["type"] == "main"
    assert found["details"] == {"links": []}
    assert [len(page["elements"][0]["words"]) for page in found["pages"]] == [1, 1]
    assert found["result"]["markdown"] == "One\n\n---\n\nTwo"
    assert found["result"]["metadata"]["sources"] == {"local": 2}
    assert [(page["page_number"], page["status"], page["source"]) for page in found["pages"]] == [
        (1, "completed", "local"),
        (2, "completed", "local"),
    ]
    assert found["pages"][1]["job_id"] == f"{found['job_id']}-p2"
    assert found["schema_version"] == 1
    assert [[one["text"] for one in page["elements"]] for page in found["pages"]] == [["One"], ["Two"]]
    assert len(found["pages"][0]["elements"][0]["box"]) == 4


def test_html_has_a_section_for_each_page_when_asked_for(cli: Cli) -> None:
    make_pdf(cli.folder / "a.pdf", "One & only", "Two")
    done = cli.run("convert", "a.pdf", "--format", "html", "-o", "out/")
    assert done.code == 0, done.err
    written = (cli.folder / "out" / "a.html").read_text()
    assert written.startswith("<!DOCTYPE html>")
    assert "<title>a</title>" in written
    assert '<p id="p1-e1">One &amp; only</p>' in written
    assert written.count("<section ") == 2
    assert cli.run("convert", "a.pdf", "--format", "rtf").code == 2
    assert cli.run("convert", "a.pdf", "--format", "docling", "-o", "out/").code == 0
    assert cli.run("convert", "a.pdf", "--page-break", "=== {page} ===", "-o", "out/").code == 0
    assert (cli.folder / "out" / "a.md").read_text() == "One & only\n\n=== 2 ===\n\nTwo\n"
    assert cli.run("convert", "a.pdf", "--format", "html", "--tables", "html").code == 2
    assert cli.run("convert", "a.pdf", "--format", "html", "--join-tables").code == 2
    assert cli.run("convert", "a.pdf", "--join-tables", "-o", "out/").code == 0
    assert (cli.folder / "out" / "a.md").read_text() == "One & only\n\n---\n\nTwo\n"
    assert cli.run("convert", "a.pdf", "--format", "pdf", "-o", "out/").code == 0
    assert (cli.folder / "out" / "a.searchable.pdf").read_bytes().startswith(b"%PDF-")
    assert len(json.loads((cli.folder / "out" / "a.docling.json").read_text())["texts"]) == 2


def test_figures_are_written_beside_the_markdown_and_into_the_zip(cli: Cli) -> None:
    (cli.folder / "a {1}.pdf").write_bytes(pictured_pdf("A page with a picture"))
    done = cli.run("convert", "a {1}.pdf", "--figures", "files", "-o", "out/")
    assert done.code == 0, done.err
    (drawn,) = (cli.folder / "out" / "a {1}.figures").iterdir()
    assert drawn.read_bytes().startswith(b"\x89PNG")
    assert f"](a%20%7B1%7D.figures/{drawn.name})" in (cli.folder / "out" / "a {1}.md").read_text()
    done = cli.run("convert", "a {1}.pdf", "--format", "zip", "--front-matter", "-o", "all.zip")
    assert done.code == 0, done.err
    with zipfile.ZipFile(cli.folder / "all.zip") as archive:
        assert {"document.html", "chunks.jsonl", f"figures/{drawn.name}"} < set(archive.namelist())
        assert archive.read(f"figures/{drawn.name}") == drawn.read_bytes()
        assert archive.read("document.md").startswith(b"---\n")
        assert json.loads(archive.read("metadata.json"))["pages"] == 1
    done = cli.run("convert", "a {1}.pdf", "--figures", "files")
    assert (done.code, "add -o FILE" in done.err) == (2, True)


def test_chunks_are_written_by_line_when_asked_for(cli: Cli) -> None:
    (cli.folder / "a.md").write_text("# Title\n\nSome words.\n\n## Part\n\nOther words.\n")
    done = cli.run("convert", "a.md", "--format", "chunks", "--max-tokens", "64", "-o", "out/")
    assert done.code == 0, done.err
    found = [json.loads(line) for line in (cli.folder / "out" / "a.jsonl").read_text().splitlines()]
    assert [one["headings"] for one in found] == [["Title"], ["Title", "Part"]]
    done = cli.run("convert", "a.md", "--format", "parquet", "-o", "out/")
    assert done.code == 0, done.err
    assert (cli.folder / "out" / "a.chunks.parquet").read_bytes().startswith(b"PAR1")
    for wrong in (["--format", "chunks", "--max-tokens", "3"], ["--overlap", "8"]):
        refused = cli.run("convert", "a.md", *wrong)
        assert refused.code == 2
        assert "max" in refused.err


def test_text_has_no_markup_when_asked_for(cli: Cli) -> None:
    (cli.folder / "a.md").write_text("# Title\n\nSome **bold** words.\n")
    done = cli.run("convert", "a.md", "--format", "text", "-o", "out/")
    assert done.code == 0
    assert (cli.folder / "out" / "a.txt").read_text() == "Title\n\nSome bold words.\n"


def test_protected_document_is_read_when_its_password_is_right(cli: Cli) -> None:
    make_pdf(cli.folder / "a.pdf", "Behind a lock", password="open sesame")
    (cli.folder / "right").write_text("open sesame\n")
    (cli.folder / "wrong").write_text("guess\n")
    assert cli.run("convert", "a.pdf", "--password-file", "right").out == "Behind a lock\n"
    wrong = cli.run("convert", "a.pdf", "--password-file", "wrong")
    assert wrong.code == 1
    assert "quire: a.pdf: The password does not open this PDF." in wrong.err
    assert "guess" not in wrong.err
    none = cli.run("convert", "a.pdf")
    assert none.code == 1
    assert "--password-file" in none.err
    missing = cli.run("convert", "a.pdf", "--password-file", "nowhere")
    assert missing.code == 2
    assert "nowhere" in missing.err


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"%PDF-1.7\nthis is not one really", "The PDF "),
        (b"", "The file is empty"),
        (b"\x7fELF\x02\x01\x01" + bytes(200), "which Quire can't read"),
    ],
)
def test_failure_in_words_when_a_document_cannot_be_read(cli: Cli, content: bytes, reason: str) -> None:
    (cli.folder / "odd.pdf").write_bytes(content)
    done = cli.run("convert", "odd.pdf", "-o", "out.md")
    assert done.code == 1
    assert done.err.startswith("quire: odd.pdf: ")
    assert reason in done.err
    assert "Traceback" not in done.err
    assert not (cli.folder / "out.md").exists()
    assert cli.left_behind() == []


def test_exit_code_is_3_when_a_page_could_not_be_read(cli: Cli) -> None:
    document = pymupdf.open()
    document.new_page().insert_text((72, 72), "Words that can be read without any effort")
    scan = pymupdf.Pixmap(pymupdf.csRGB, pymupdf.IRect(0, 0, 300, 400))
    scan.clear_with(120)
    page = document.new_page()
    page.insert_image(page.rect, pixmap=scan)
    document.save(cli.folder / "mixed.pdf")
    done = cli.run("convert", "mixed.pdf", OCR_ENABLED="false")
    assert done.code == 3
    assert "2 pages (1 local), " in done.err
    assert "; could not read page 2 (The page is a picture without a text layer" in done.err
    assert done.out.startswith("Words that can be read")
    assert "Page 2 has no text" in done.out


def test_document_is_read_from_stdin_when_named_by_a_dash(cli: Cli) -> None:
    content = make_pdf(cli.folder / "a.pdf", "By pipe").read_bytes()
    done = cli.run("convert", "-", stdin=content)
    assert (done.code, done.out) == (0, "By pipe\n")
    assert done.err.startswith("stdin: 1 page ")
    assert cli.left_behind() == []


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "site"
    folder.mkdir()
    make_pdf(folder / "linked.pdf", "From far away")
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_link_is_fetched_when_private_links_are_allowed(cli: Cli, site: str) -> None:
    done = cli.run("convert", f"{site}/linked.pdf", "-o", "out/", ALLOW_PRIVATE_URLS="true")
    assert done.code == 0, done.err
    assert (cli.folder / "out" / "linked.md").read_text() == "From far away\n"


def test_failure_when_a_link_leads_into_a_private_network(cli: Cli, site: str) -> None:
    done = cli.run("convert", f"{site}/linked.pdf?token=hidden")
    assert done.code == 1
    assert done.out == ""
    assert done.err.startswith(f"quire: {site}/linked.pdf: ")
    assert "hidden" not in done.err


def test_planes_of_the_user_are_left_alone_when_they_are_set(cli: Cli) -> None:
    make_pdf(cli.folder / "a.pdf", "Words")
    done = cli.run(
        "convert", "a.pdf", REDIS_URL="redis://127.0.0.1:1/0", DATA_DIR="mine", OBJECT_STORE="s3://nobody"
    )
    assert (done.code, done.out) == (0, "Words\n")
    assert not (cli.folder / "mine").exists()


def test_output_ends_quietly_when_its_reader_leaves(cli: Cli) -> None:
    (cli.folder / "big.txt").write_text("words and more words\n" * 40_000)
    process = cli.start("convert", "-q", "big.txt")
    assert process.stdout is not None
    assert process.stdin is not None
    process.stdin.close()
    process.stdin = None
    process.stdout.read(10)
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 141
    assert err == b""
    assert cli.left_behind() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_behind_when_interrupted(
    cli: Cli, number: signal.Signals, request: pytest.FixtureRequest
) -> None:
    pages = [f"Page {n} of many" for n in range(4000)]
    (cli.folder / "long.pdf").write_bytes(request.getfixturevalue("make_pdf")(*pages))
    process = cli.start("convert", "long.pdf", "-o", "out.md")
    wait_until(lambda: _descendants(process).keys() >= {"valkey-server"}, "the embedded server runs")
    wait_until(lambda: len(_descendants(process).get("python", [])) >= 2, "the readers run")
    family = {(pid, _started(pid)) for pids in _descendants(process).values() for pid in pids}
    process.send_signal(number)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert cli.left_behind() == []
    assert not (cli.folder / "out.md").exists()
    wait_until(lambda: all(_started(pid) != born for pid, born in family), "every child process is gone")


def test_nothing_is_left_behind_when_interrupted_while_it_waits_for_stdin(cli: Cli) -> None:
    process = cli.start("convert", "-")
    # Not just any file: Python tries its temporary folder by writing one.
    wait_until(lambda: any(map(Path.is_dir, cli.temporary.iterdir())), "the private folder is there")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, err) == (130, b"")
    assert cli.left_behind() == []


def test_bars_are_shown_when_stderr_is_a_terminal(cli: Cli) -> None:
    for name in ("a.pdf", "b.pdf"):
        make_pdf(cli.folder / name, "Words")
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "quire", "convert", "a.pdf", "b.pdf", "missing.pdf", "-o", "out"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        cwd=cli.folder,
        env=cli.env | {"TERM": "xterm", "COLUMNS": "100"},
    )
    cli.running.append(process)
    os.close(theirs)
    seen = b""
    with contextlib.suppress(OSError):  # Linux ends a terminal without writers by an error
        while piece := os.read(ours, 4096):
            seen += piece
    os.close(ours)
    assert process.wait(DEADLINE_S) == 1
    text = seen.decode()
    assert "all documents" in text
    assert "a.pdf: 1 page (1 local), " in text
    assert "quire: missing.pdf: No such file or directory." in text


def _descendants(process: subprocess.Popen[bytes]) -> dict[str, list[int]]:
    """The process ids of all children, theirs included, by the name of their program."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                name, _, rest = Path(entry.path, "stat").read_text().partition("(")[2].rpartition(")")
            except OSError:
                continue
            parents[int(entry.name)] = int(rest.split()[1])
            names[int(entry.name)] = "python" if name.startswith("python") else name
    found: dict[str, list[int]] = {}
    todo = [process.pid]
    while todo:
        parent = todo.pop()
        for pid in [pid for pid, of in parents.items() if of == parent]:
            found.setdefault(names[pid], []).append(pid)
            todo.append(pid)
    return found


def _started(pid: int) -> str:
    """When the process started, which tells it from a later one with the same id; nothing if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def test_extraction_without_ai_writes_what_was_found_and_fails(cli: Cli) -> None:
    make_pdf(cli.folder / "a.pdf", "Berth: 17")
    (cli.folder / "s.json").write_text('{"type": "object", "properties": {"berth": {"type": "integer"}}}')
    done = cli.run("extract", "a.pdf", "--schema", "s.json", "-o", "found.json")
    assert done.code == 1
    assert "OPENAI_API_KEY" in done.err
    assert json.loads((cli.folder / "found.json").read_text())["pairs"][0]["value"] == "17"
    assert cli.run("extract", "a.pdf", "--schema", "none.json").code == 2
