"""The dashboard's files: as the real server gives them, and what may not be in them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

import quire.web
from tests.support.serving import Client, Server, client_of

STATIC = Path(quire.web.__file__).parent / "static"
FILES = sorted(path.name for path in STATIC.iterdir() if path.is_file())
SCRIPTS = [name for name in FILES if name.endswith(".js")]
TYPES = {
    ".js": ("text/javascript", "application/javascript"),
    ".css": ("text/css",),
    ".svg": ("image/svg+xml",),
    ".html": ("text/html",),
}
CALLS = {
    "get": "get",
    "text": "get",
    "blob": "get",
    "events": "get",
    "download": "get",
    "post": "post",
    "send": "post",
    "upload": "post",
    "uploads": "post",
    "remove": "delete",
}
"""The functions that take an address of the service, and the method each of them uses."""

ADDRESS = re.compile(r"""(?P<call>\w*)(?P<open>\(?)(?P<quote>["'`])(?P<path>/[a-z][^"'`]*)(?P=quote)""")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Without workers: nothing here is converted."""
    started = Server(tmp_path_factory.mktemp("server"), RUN_DISPATCHER="0", READER_PROCESSES="1")
    try:
        yield started.wait_ready()
    finally:
        started.stop()


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    async with client_of(server) as one:
        yield one


class Page(HTMLParser):
    """The tags of a page with their attributes, and the texts of its scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inline: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style") and data.strip():
            self.inline.append(data)


def addresses(script: str) -> list[tuple[str, str]]:
    """Every address in a script with the function it is given to; `${…}` becomes `{}`, the query is cut."""
    return [
        (
            found["call"] if found["open"] else "",
            re.sub(r"\$\{[^}]*\}", "{}", found["path"]).partition("?")[0],
        )
        for found in ADDRESS.finditer(script)
    ]


async def test_page_and_its_files_are_served_with_type_and_policy_when_asked_for(client: Client) -> None:
    for path in ("/", *(f"/static/{name}" for name in FILES)):
        answer = await client.get(path)
        suffix = Path(path).suffix or ".html"
        assert answer.status == 200, path
        assert answer.headers["Content-Type"].partition(";")[0] in TYPES[suffix], path
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'self';"), path
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert (await client.get("/")).body == (STATIC / "index.html").read_bytes()


async def test_every_file_that_is_referred_to_is_there(client: Client) -> None:
    page = Page((STATIC / "index.html").read_text())
    wanted = {
        found
        for tag, attributes in page.tags
        for name in ("src", "href")
        if tag != "a" and (found := attributes.get(name))
    }
    assert {"/static/app.js", "/static/style.css", "/static/icon.svg"} <= wanted
    for script in SCRIPTS:
        wanted |= {
            f"/static/{name}" for name in re.findall(r'from "\./([^"]+)"', (STATIC / script).read_text())
        }
    for path in wanted:
        assert (await client.get(path)).status == 200, path
    unused = {f"/static/{name}" for name in FILES} - wanted - {"/static/index.html"}
    assert unused == set()


def test_page_has_no_inline_script_style_or_handler() -> None:
    page = Page((STATIC / "index.html").read_text())
    assert page.inline == []
    for tag, attributes in page.tags:
        assert tag != "style"
        assert tag != "script" or attributes.get("src")
        for name in attributes:
            assert name != "style", tag
            assert not name.startswith("on"), tag


def test_page_can_be_used_by_keyboard_and_screen_reader() -> None:
    tags = Page((STATIC / "index.html").read_text()).tags
    assert ("html", {"lang": "en"}) in tags
    assert any(tag == "a" and found.get("class") == "skip" for tag, found in tags)
    assert any(found.get("aria-live") == "polite" for _, found in tags)
    assert any(found.get("role") == "alert" for _, found in tags)
    style = (STATIC / "style.css").read_text()
    for wanted in (":focus-visible", "prefers-color-scheme: dark", "prefers-reduced-motion: reduce"):
        assert wanted in style


@pytest.mark.parametrize("name", FILES)
def test_file_names_no_other_host(name: str) -> None:
    text = (STATIC / name).read_text()
    # The namespace of SVG is a name, not an address; a bare scheme is what links are checked against.
    text = text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert re.findall(r"https?:\\?/\\?/[\w\[]", text) == []
    assert re.findall(r"""["'(`]//\w""", text) == []
    assert re.findall(r"@import|url\(", text) == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_can_not_turn_text_into_markup_or_code(name: str) -> None:
    text = (STATIC / name).read_text()
    forbidden = (
        r"\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|srcdoc|DOMParser|createContextualFragment)\b",
        r"\beval\(|new Function\b|\bsetTimeout\(\s*[\"'`]|\bimport\(",
        r"\blocalStorage\b",
    )
    for pattern in forbidden:
        assert re.findall(pattern, text) == [], pattern


async def test_every_address_in_the_scripts_is_an_endpoint(client: Client) -> None:
    described = (await client.get("/openapi.json")).json["paths"]
    known = {(re.sub(r"\{[^}]*\}", "{}", path), method) for path in described for method in described[path]}
    used: set[tuple[str, str]] = set()
    for name in SCRIPTS:
        for call, path in addresses((STATIC / name).read_text()):
            if path == "/vault":
                continue  # the address of a view, after the #
            assert call in CALLS, f"{name}: {path} is given to {call or 'nothing'}"
            # A page's job id is made from its document's: still one step of the path.
            used.add((re.sub(r"\{\}-p\{\}", "{}", path), CALLS[call]))
    assert used <= known, used - known
    assert used >= {
        ("/convert", "post"),
        ("/jobs", "get"),
        ("/jobs/{}", "get"),
        ("/jobs/{}/pages", "get"),
        ("/jobs/{}/pages/{}/image", "get"),
        ("/jobs/{}/result", "get"),
        ("/jobs/{}/original", "get"),
        ("/jobs/{}/events", "get"),
        ("/jobs/{}/retry", "post"),
        ("/jobs/{}/cancel", "post"),
        ("/queues", "get"),
        ("/dlq", "get"),
        ("/dlq/{}/{}/replay", "post"),
        ("/health", "get"),
        ("/dispatch", "get"),
        ("/queue/status", "get"),
        ("/session", "get"),
        ("/session", "post"),
        ("/session", "delete"),
        ("/documents", "get"),
        ("/documents", "post"),
        ("/documents/counts", "get"),
        ("/documents/events", "get"),
        ("/documents/export", "get"),
        ("/documents/reprocess", "post"),
        ("/documents/{}", "get"),
        ("/documents/{}", "delete"),
        ("/documents/{}/content", "get"),
        ("/documents/{}/download", "get"),
        ("/documents/{}/reprocess", "post"),
        ("/search", "get"),
        ("/tags", "get"),
    }
