"""Signing in to the dashboard, against the real server: what a cookie may do, and what it may not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from http.cookies import SimpleCookie
from pathlib import Path

import aiohttp
import pytest

from tests.support.serving import Answer, Client, Server, client_of

PASSWORD = "correct horse battery staple"
GOOD = {"user": "admin", "password": PASSWORD}
HERE = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    running: list[Server] = []

    def begin(folder: Path | None = None, **settings: str) -> Server:
        server = Server(
            folder or tmp_path_factory.mktemp("server"),
            RUN_DISPATCHER="0",
            READER_PROCESSES="1",
            WEB_PASSWORD=PASSWORD,
            **settings,
        )
        running.append(server)
        return server.wait_ready()

    yield begin
    for server in running:
        server.stop()


@pytest.fixture(scope="module")
def server(start: Callable[..., Server]) -> Server:
    return start(API_KEYS="alpha:key-of-alpha,beta:key-of-beta")


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    """With a jar of its own that also takes the cookies of an address without a name."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        yield Client(server.url, session)


async def sign_in(client: Client, given: dict[str, str] | None = None, **headers: str) -> Answer:
    """Waits out the throttle, which all tests from this address share."""
    for _ in range(60):
        answer = await client.post("/session", json=given or GOOD, headers=HERE | headers)
        if answer.status != 429:
            return answer
        await asyncio.sleep(float(answer.headers["Retry-After"]) / 4)
    raise AssertionError("the throttle never let go")


def cookie_of(answer: Answer) -> SimpleCookie:
    return SimpleCookie(answer.headers["Set-Cookie"])


async def test_cookie_opens_the_api_and_is_out_of_reach_of_scripts_when_the_password_is_right(
    client: Client,
) -> None:
    assert (await client.get("/jobs")).status == 401
    answer = await sign_in(client)
    assert answer.status == 200
    assert answer.json["signed_in"] is True
    assert answer.json["team"] == "alpha"
    morsel = cookie_of(answer)["quire_session"]
    assert morsel["httponly"]
    assert morsel["samesite"].lower() == "strict"
    assert 0 < int(morsel["max-age"]) <= 12 * 3600
    assert not morsel["secure"]
    assert PASSWORD not in answer.headers["Set-Cookie"]
    assert (await client.get("/jobs")).status == 200
    assert (await client.get("/session")).json["user"] == "admin"
    by_tls = await sign_in(client, Origin="https://quire.example")
    assert cookie_of(by_tls)["quire_session"]["secure"]


@pytest.mark.parametrize(
    "given", [{"user": "admin", "password": "wrong"}, {"user": "root", "password": PASSWORD}]
)
async def test_nothing_is_opened_when_name_or_password_is_wrong(
    client: Client, given: dict[str, str]
) -> None:
    answer = await sign_in(client, given)
    assert answer.status == 401
    assert answer.json["error"] == "The user name or the password is not right."
    assert "Set-Cookie" not in answer.headers
    assert (await client.get("/jobs")).status == 401


async def test_cookie_is_refused_when_any_part_of_it_was_changed(client: Client) -> None:
    token = cookie_of(await sign_in(client))["quire_session"].value
    client.session.cookie_jar.clear()
    name, expires, mac = token.split(".")
    assert (await client.get("/jobs", cookies={"quire_session": token})).status == 200
    for forged in (
        f"{name}.{int(expires) + 1}.{mac}",
        f"{'A' * len(name)}.{expires}.{mac}",
        f"{name}.{expires}.{'0' * 64}",
        f"{name}s.{expires}.{mac}",
        f"{name}.{expires}",
        f"{name}.{expires}.{mac}.more",
        "",
    ):
        assert (await client.get("/jobs", cookies={"quire_session": forged})).status == 401, forged


async def test_writes_with_the_cookie_are_refused_when_another_site_sends_them(
    client: Client, server: Server
) -> None:
    await sign_in(client)
    form = {"source": "https://example.org/a.pdf"}
    host = server.url.removeprefix("http://")
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": server.url},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://{host}.evil.example"},
        {},
    ):
        answer = await client.post("/convert", json=form, headers=headers)
        assert (answer.status, answer.json["code"]) == (403, "forbidden"), headers
    for headers in (HERE, {"Origin": server.url}):
        assert (await client.post("/convert", json=form, headers=headers)).status == 202, headers
    assert (
        await client.post("/session", json=GOOD, headers={"Origin": "https://evil.example"})
    ).status == 403


async def test_key_works_as_ever_and_goes_before_the_cookie(client: Client) -> None:
    key = {"Authorization": "Bearer key-of-beta"}
    accepted = await client.post("/convert", json={"source": "https://example.org/beta.pdf"}, headers=key)
    assert accepted.status == 202
    await sign_in(client)
    assert (await client.get(f"/jobs/{accepted.json['job_id']}")).status == 404
    assert (await client.get(f"/jobs/{accepted.json['job_id']}", headers=key)).status == 200
    assert (await client.get("/jobs", headers={"X-API-Key": "unknown"})).status == 401


async def test_copied_cookie_is_dead_when_its_owner_has_signed_out(client: Client) -> None:
    token = cookie_of(await sign_in(client))["quire_session"].value
    answer = await client.ask("DELETE", "/session", headers=HERE)
    assert answer.status == 204
    assert cookie_of(answer)["quire_session"]["max-age"] == "0"
    assert (await client.get("/session")).json["signed_in"] is False
    assert (await client.get("/jobs", cookies={"quire_session": token})).status == 401


async def test_attempts_are_throttled_whatever_the_password_when_there_are_too_many(server: Server) -> None:
    async with client_of(server) as guesser:
        wrong = {"user": "admin", "password": "guess"}
        answers = [await guesser.post("/session", json=wrong, headers=HERE) for _ in range(12)]
        assert answers[-1].status == 429
        assert answers[-1].json["code"] == "too_many_attempts"
        assert answers[-1].json["retryable"] is True
        assert int(answers[-1].headers["Retry-After"]) >= 1
        assert {answer.status for answer in answers} <= {401, 429}


async def test_session_outlives_a_restart_but_not_a_new_password_or_its_expiry(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    first = start(tmp_path, WEB_SESSION_TTL="1h", WEB_TEAM="press")
    async with client_of(first) as client:
        made = await client.post("/session", json=GOOD, headers=HERE)
        assert made.json["team"] == "press"
        token = {"quire_session": cookie_of(made)["quire_session"].value}
    first.stop()
    # A longer life for new ones makes this one due to be prolonged.
    second = start(tmp_path, WEB_SESSION_TTL="3h")
    async with client_of(second) as client:
        # Without keys, callers without the password are still refused.
        assert (await client.get("/jobs")).status == 401
        assert (await client.get("/jobs", cookies=token)).status == 200
        longer = await client.get("/session", cookies=token)
        assert int(cookie_of(longer)["quire_session"]["max-age"]) > 3600
    second.stop()
    changed = Server(tmp_path, RUN_DISPATCHER="0", READER_PROCESSES="1", WEB_PASSWORD="another").wait_ready()
    try:
        async with client_of(changed) as client:
            assert (await client.get("/jobs", cookies=token)).status == 401
    finally:
        changed.stop()


async def test_there_is_nothing_to_sign_in_to_when_no_password_is_set(tmp_path: Path) -> None:
    server = Server(tmp_path, RUN_DISPATCHER="0", READER_PROCESSES="1").wait_ready()
    try:
        async with client_of(server) as client:
            found = (await client.get("/session")).json
            assert (found["sign_in"], found["signed_in"], found["keys"]) == (False, False, False)
            assert (await client.post("/session", json=GOOD, headers=HERE)).status == 404
            assert (await client.get("/jobs")).status == 200
    finally:
        server.stop()
