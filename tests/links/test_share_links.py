"""Share links and the downloads behind them, told from each other without any network."""

from __future__ import annotations

import pytest

from quire.errors import LinkRefusedError
from quire.links import LinkPolicy, direct, starting_point
from quire.links.share_links import confirmed

ID = "1a2B3c4D5e6F7g8H9i0J_k-L"
DRIVE = f"https://drive.usercontent.google.com/download?id={ID}&export=download&confirm=t"
KEYED = f"{DRIVE}&resourcekey=0-abc"


@pytest.mark.parametrize(
    ("shared", "download"),
    [
        (f"https://drive.google.com/file/d/{ID}/view?usp=sharing", DRIVE),
        (f"https://drive.google.com/file/d/{ID}", DRIVE),
        (f"http://drive.google.com/file/d/{ID}/edit", DRIVE),
        (f"https://drive.google.com/file/u/1/d/{ID}/preview", DRIVE),
        (f"https://drive.google.com/a/example.org/file/d/{ID}/view", DRIVE),
        (f"https://DRIVE.google.com/open?id={ID}&usp=drive_copy", DRIVE),
        (f"https://drive.google.com/uc?export=view&id={ID}", DRIVE),
        (f"https://drive.google.com/u/0/uc?id={ID}&export=download", DRIVE),
        (f"https://docs.google.com/uc?id={ID}", DRIVE),
        (f"https://drive.usercontent.google.com/download?id={ID}", DRIVE),
        (f"https://drive.google.com/file/d/{ID}/view?resourcekey=0-abc", KEYED),
        (
            f"https://docs.google.com/document/d/{ID}/edit?tab=t.0#heading=h.1",
            f"https://docs.google.com/document/d/{ID}/export?format=docx",
        ),
        (
            f"https://docs.google.com/document/u/2/d/{ID}/mobilebasic",
            f"https://docs.google.com/document/d/{ID}/export?format=docx",
        ),
        (
            f"https://docs.google.com/spreadsheets/d/{ID}/edit?gid=5&resourcekey=0-x#gid=5",
            f"https://docs.google.com/spreadsheets/d/{ID}/export?format=xlsx&resourcekey=0-x",
        ),
        (
            f"https://docs.google.com/a/example.org/presentation/d/{ID}/edit#slide=id.p",
            f"https://docs.google.com/presentation/d/{ID}/export/pptx",
        ),
        (
            f"https://docs.google.com/drawings/d/{ID}/edit",
            f"https://docs.google.com/drawings/d/{ID}/export/pdf",
        ),
        (
            "https://www.dropbox.com/s/abc123/Annual%20report.pdf?dl=0",
            "https://www.dropbox.com/s/abc123/Annual%20report.pdf?dl=1",
        ),
        (
            "https://dropbox.com/scl/fi/k1/a.pdf?rlkey=secret&st=x&dl=0&raw=1",
            "https://www.dropbox.com/scl/fi/k1/a.pdf?rlkey=secret&st=x&dl=1",
        ),
        ("https://www.dropbox.com/s/abc123/a.pdf", "https://www.dropbox.com/s/abc123/a.pdf?dl=1"),
    ],
)
def test_the_download_is_found_when_the_link_is_a_share(shared: str, download: str) -> None:
    found = direct(shared)
    assert found is not None
    assert found.url == download
    again = direct(found.url)
    assert again is None or again.url == download, "a download is not turned into something else"
    assert starting_point(shared, LinkPolicy()).link.url == download


@pytest.mark.parametrize(
    "url",
    [
        f"https://drive.google.com.evil.example/file/d/{ID}/view",
        f"https://evil.example/drive.google.com/file/d/{ID}/view",
        f"https://drive.google.com@evil.example/file/d/{ID}/view",
        f"https://docs.google.com/document/d/{ID}/export?format=pdf",
        "https://docs.google.com/document/d/e/2PACX-1vQ/pub",
        f"https://docs.google.com/spreadsheets/d/{ID}/pub?output=csv",
        f"https://docs.google.com/spreadsheets/d/{ID}/gviz/tq?tqx=out:csv",
        "https://drive.google.com/open?id=short",
        "https://drive.google.com/open?id=../../../../etc/passwd",
        f"https://drive.google.com/file/d/{ID}%2F..%2Fx/view",
        "https://www.dropbox.com/home/a.pdf",
        "https://dl.dropboxusercontent.com/s/abc/a.pdf",
        "https://notdropbox.com/s/abc/a.pdf?dl=0",
        f"ftp://drive.google.com/file/d/{ID}/view",
        "https://[",
        "",
    ],
)
def test_the_link_is_left_alone_when_it_is_no_share(url: str) -> None:
    assert direct(url) is None


@pytest.mark.parametrize(
    "url",
    [
        f"https://drive.google.com/drive/folders/{ID}?usp=sharing",
        f"https://drive.google.com/drive/u/0/folders/{ID}",
        f"https://drive.google.com/folderview?id={ID}",
    ],
)
def test_the_reason_is_given_when_a_folder_is_shared(url: str) -> None:
    with pytest.raises(LinkRefusedError, match="folder"):
        starting_point(url, LinkPolicy())


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", f"https://drive.google.com:22/file/d/{ID}", "https://drive.google.com/a b"]
)
def test_the_checks_apply_when_a_share_link_is_no_proper_link(url: str) -> None:
    with pytest.raises(LinkRefusedError):
        starting_point(url, LinkPolicy())


PAGE = f"""<html><body><p>Google Drive can't scan this file for viruses.</p>
<form id="download-form" action="https://drive.usercontent.google.com/download" method="get">
<input type="submit" value="Download anyway"/><input type="hidden" name="id" value="{ID}">
<input type="hidden" name="export" value="download"><input type="hidden" name="confirm" value="t&amp;x">
<input type="hidden" name="uuid" value="4f-1"></form>
<form action="https://evil.example/"><input type="hidden" name="other" value="1"></form></body></html>"""


def test_the_way_on_is_found_when_drive_asks_about_a_large_file() -> None:
    asked_at = f"https://drive.google.com/uc?id={ID}"
    assert confirmed(asked_at, PAGE) == (
        f"https://drive.usercontent.google.com/download?id={ID}&export=download&confirm=t%26x&uuid=4f-1"
    )
    older = f'<a id="uc-download-link" href="/uc?export=download&amp;confirm=AbC&amp;id={ID}">Download</a>'
    assert confirmed(asked_at, older) == f"https://drive.google.com/uc?export=download&confirm=AbC&id={ID}"


@pytest.mark.parametrize(
    "page",
    [
        "<p>You need access</p>",
        PAGE.replace("https://drive.usercontent.google.com/download", "https://evil.example/x"),
        PAGE.replace("https://drive.usercontent.google.com/download", "https://evilgoogle.com/x"),
        PAGE.replace('method="get"', 'method="post"'),
        PAGE.replace("download-form", "sign-in"),
        "<form" * 10_000,
    ],
)
def test_no_way_on_is_made_up_when_the_page_is_another(page: str) -> None:
    assert confirmed(f"https://drive.google.com/uc?id={ID}", page) is None
