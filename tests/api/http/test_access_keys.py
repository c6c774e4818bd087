"""API keys of the catalog: made by `quire keys`, checked by the service, revoked at once, never stored in the clear."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from quire.clock import SystemClock
from quire.coordination.ai_accounts import AiAccounts
from quire.coordination.connection import RedisConnection
from quire.coordination.embedded_server import EmbeddedServer
from quire.dispatch.ledger import Ledger
from quire.domain.access_key import KeyScope, id_of, new_key
from quire.domain.payer import Payer
from quire.providers.price_list import PriceList
from quire.providers.provider_protocol import TokenUsage
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


async def test_lists_show_use_and_audit_and_never_the_key(guarded: Server) -> None:
    key = made(guarded, "--name", "of the billing job", "--rpm", "7", "--budget", "40")
    url = EmbeddedServer.attach_url(guarded.data_dir)
    assert url is not None
    connection = RedisConnection.open(url)
    ledger = Ledger(AiAccounts(connection), PriceList(), SystemClock())
    await ledger.charge("", "alpha", 0.0, 12.345678, TokenUsage(900, 100), payer=Payer(key["id"], 0))
    await ledger.close()
    await connection.close()
    listed = command("keys", "list", DATA_DIR=str(guarded.data_dir)).stdout
    [line] = [line for line in listed.splitlines() if key["id"] in line]
    assert "of the billing job" in line
    assert re.split(r" {2,}", line)[5:7] == ["40", "12.35"]
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


async def test_keys_are_made_listed_and_revoked_over_http_by_an_admin_of_their_team(guarded: Server) -> None:
    async with client_of(guarded, "key-of-alpha") as client:
        limits = {"requests_per_minute": 50, "budget_usd": 2.5, "expires_in_seconds": 3600}
        created = await client.post("/keys", json={"name": "of the batch", "scope": "admin", **limits})
        assert created.status == 201
        key = created.json
        assert (key["team"], key["state"], key["budget_usd"]) == ("alpha", "valid", 2.5)
    async with client_of(guarded, key["key"]) as admin:
        accepted = await admin.upload(b"%PDF-1.4 that this key pays for")
        journal = guarded.data_dir / "objects" / "jobs" / accepted.json["job_id"] / "accepted.json"
        assert json.loads(journal.read_text())["payer"] == f"{key['id']}:2500000"
        other = (await admin.post("/keys", json={"scope": "write"})).json
        assert (await asked(guarded, other["key"], "GET", "/keys")).status == 403
        assert (await asked(guarded, other["key"])).status == 200
        assert (await admin.ask("DELETE", f"/keys/{other['id']}")).status == 204
        assert (await asked(guarded, other["key"])).status == 401, "at once in the process that revoked it"
        assert (await admin.ask("DELETE", f"/keys/{other['id']}")).status == 404
        listed = {one["id"]: one for one in (await admin.get("/keys")).json["keys"]}
        assert listed[key["id"]]["last_used_at"]
        assert listed[other["id"]]["state"] == "revoked"
        assert key["key"] not in str(listed)
        entries = (await admin.get("/keys/audit")).json["entries"]
    done = [(one["action"], one["actor"]) for one in entries if one["subject"] in (key["id"], other["id"])]
    by_key = f"key {key['id']}"
    assert done == [("key.revoked", by_key), ("key.created", by_key), ("key.created", "API_KEYS")]


async def test_keys_of_another_team_are_out_of_reach_over_http(guarded: Server) -> None:
    beta = json.loads(
        command(
            *("keys", "create", "--team", "beta", "--scope", "admin", "--budget", "3", "--json"),
            DATA_DIR=str(guarded.data_dir),
        ).stdout
    )
    async with client_of(guarded, beta["key"]) as client:
        found = (await client.get("/keys")).json["keys"]
        assert {one["team"] for one in found} == {"beta"}
        assert [one["budget_usd"] for one in found if one["id"] == beta["id"]] == [3]
        entries = (await client.get("/keys/audit?limit=1000")).json["entries"]
        assert {one["subject"] for one in entries} <= {one["id"] for one in found}
    assert (await asked(guarded, "key-of-alpha", "DELETE", f"/keys/{beta['id']}")).status == 404
    assert (await asked(guarded, beta["key"])).status == 200


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"scope": "root"}, "scope: expected read, write or admin."),
        ({"requests_per_minute": 1.5}, "requests_per_minute: expected a whole number."),
        ({"budget_usd": -1}, "budget_usd: expected a number from 0"),
        ({"budget_usd": True}, "budget_usd: expected a number."),
        ({"name": "a\nb"}, "name: expected a text"),
        ({"team": "beta"}, "'team' is not a field of a key."),
    ],
)
async def test_wrong_fields_of_a_new_key_are_refused_by_name(
    guarded: Server, given: dict[str, object], named: str
) -> None:
    async with client_of(guarded, "key-of-alpha") as client:
        refused = await client.post("/keys", json=given)
    assert refused.status == 400
    assert named in refused.json["error"]
