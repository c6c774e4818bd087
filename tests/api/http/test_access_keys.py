"""API keys of the catalog: made by `quire keys`, checked by the service, revoked at once, never stored in the clear."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from quire.domain.access_key import KeyScope, id_of, new_key
from tests.operations.test_backup import command
from tests.support.serving import Answer, Server, client_of
from tests.support.waiting import until


@pytest.fixture(scope="module")
def guarded(start_server: Callable[..., Server]) -> Server:
    return start_server(API_KEYS="alpha:key-of-alpha", READER_PROCESSES="1", RUN_DISPATCHER="0").wait_ready()


def made(server: Server, *args: str) -> dict[str, str]:
    done = command("keys", "create", "--team", "alpha", "--json", *args, DATA_DIR=str(server.data_dir))
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


async def asked(server: Server, key: str, method: str = "GET", path: str = "/jobs") -> Answer:
    async with client_of(server, key) as client:
        return await client.ask(method, path)


async def test_scope_says_what_a_key_may_do(guarded: Server) -> None:
    keys = {scope: made(guarded, "--scope", scope.value)["key"] for scope in KeyScope}
    jobs, cancel, queues = {}, {}, {}
    for scope, key in keys.items():
        jobs[scope] = (await asked(guarded, key)).status
        cancel[scope] = (await asked(guarded, key, "POST", "/jobs/none/cancel")).status
        queues[scope] = (await asked(guarded, key, path="/queues")).status
    assert set(jobs.values()) == {200}
    assert cancel == {KeyScope.READ: 403, KeyScope.WRITE: 404, KeyScope.ADMIN: 404}
    assert queues == {KeyScope.READ: 403, KeyScope.WRITE: 403, KeyScope.ADMIN: 200}
    refused = await asked(guarded, keys[KeyScope.READ], "POST", "/jobs/none/cancel")
    assert refused.json["error"] == "The API key permits read; this request needs write."


async def test_key_sees_only_its_team_and_those_of_the_settings_go_on(guarded: Server) -> None:
    own = made(guarded)
    async with client_of(guarded, own["key"]) as client:
        accepted = await client.upload(b"%PDF-1.4 of alpha")
    assert accepted.status == 202
    path = f"/jobs/{accepted.json['job_id']}"
    assert (await asked(guarded, "key-of-alpha", path=path)).status == 200
    other = json.loads(
        command("keys", "create", "--team", "beta", "--json", DATA_DIR=str(guarded.data_dir)).stdout
    )
    assert (await asked(guarded, other["key"], path=path)).status == 404


async def test_key_is_refused_when_unknown_expired_or_revoked(guarded: Server) -> None:
    assert (await asked(guarded, new_key()[0])).status == 401
    assert (await asked(guarded, made(guarded)["key"][:-1] + "-")).status == 401
    assert (await asked(guarded, made(guarded, "--expires", "1ms")["key"])).status == 401
    key = made(guarded, "--name", "leaked")
    assert (await asked(guarded, key["key"])).status == 200
    done = command("keys", "revoke", key["id"], DATA_DIR=str(guarded.data_dir))
    assert done.returncode == 0

    async def is_refused() -> bool:
        return (await asked(guarded, key["key"])).status == 401

    await until(is_refused, "the revoked key is refused")
    assert command("keys", "revoke", key["id"], DATA_DIR=str(guarded.data_dir)).returncode == 1


async def test_key_is_throttled_when_it_has_a_limit(guarded: Server) -> None:
    key = made(guarded, "--rpm", "2")["key"]
    statuses = [(await asked(guarded, key)).status for _ in range(3)]
    assert statuses == [200, 200, 429]


def test_lists_show_use_and_audit_and_never_the_key(guarded: Server) -> None:
    key = made(guarded, "--name", "of the billing job", "--rpm", "7")
    listed = command("keys", "list", DATA_DIR=str(guarded.data_dir)).stdout
    assert "of the billing job" in listed
    audit = json.loads(command("keys", "audit", "--json", DATA_DIR=str(guarded.data_dir)).stdout)
    mine = [one for one in audit if one["subject"] == key["id"]]
    assert [one["action"] for one in mine] == ["key.created"]
    assert "quire keys" in mine[0]["actor"]
    secret = key["key"].rpartition(key["id"])[2].encode()
    stored = b"".join(path.read_bytes() for path in guarded.data_dir.glob("catalog.db*") if path.is_file())
    assert secret not in stored
    assert secret.decode() not in listed


def test_key_has_a_form_by_which_it_is_found() -> None:
    key, key_id = new_key()
    assert id_of(key) == key_id
    assert id_of("key-of-alpha") is None


def test_wrong_arguments_are_refused_with_a_sentence(guarded: Server) -> None:
    wrong = command("keys", "create", "--team", "no team", DATA_DIR=str(guarded.data_dir))
    assert (wrong.returncode, "is no team" in wrong.stderr) == (2, True)
    wrong = command("keys", "create", "--team", "a", "--expires", "soon", DATA_DIR=str(guarded.data_dir))
    assert "is no duration" in wrong.stderr
