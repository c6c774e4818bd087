"""`quire keys`: API keys of the catalog, made, listed and revoked on the host that has the catalog."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from quire.cli import exit_codes
from quire.cli.exit_codes import CommandUsageError
from quire.cli.startup import settings_from
from quire.cli.terminal_text import print_table
from quire.clock import SystemClock
from quire.coordination.ai_accounts import AiAccounts
from quire.coordination.connection import RedisConnection
from quire.coordination.embedded_server import EmbeddedServer
from quire.coordination.server_address import ServerAccess
from quire.dispatch.ledger import Ledger, MonthUsage
from quire.domain.access_key import AccessKey, KeyLimits, KeyScope, made_key
from quire.errors import CoordinationError
from quire.providers.price_list import PriceList
from quire.settings import Settings
from quire.settings.setting_kinds import read_duration

T = TypeVar("T")
_TEAM = re.compile(r"[\w.-]{1,64}")


def run_create(args: argparse.Namespace) -> int:
    """Prints the key, which is shown this once. Raises CommandUsageError for a wrong team or time, CatalogError."""
    if not _TEAM.fullmatch(args.team):
        raise CommandUsageError(f"{args.team!r} is no team: letters, digits, dots and dashes only.")
    limits = KeyLimits(
        requests_per_minute=args.rpm,
        budget_usd=args.budget,
        expires_in_s=None if args.expires is None else _seconds(args.expires),
    )
    text, key = made_key(args.team, args.name, KeyScope(args.scope), SystemClock().now(), limits)
    _with_keys(settings_from(args), lambda keys: keys.add(key, _actor()))
    if args.json:
        print(json.dumps({"key": text, **_shown(key)}))
    else:
        print(text)
        exit_codes.say(f"Key {key.id} of the team {key.team} ({key.scope.value}). It is not shown again.")
    return exit_codes.OK


def run_list(args: argparse.Namespace) -> int:
    """Prints the keys with their use in this month (UTC), which is known while the coordination server answers."""
    settings = settings_from(args)
    found: list[AccessKey] = _with_keys(settings, lambda keys: keys.all())
    used = asyncio.run(_used_this_month(settings, [one.id for one in found]))
    if args.json:
        listed = [{**_shown(one), "used_this_month": _usage(used.get(one.id))} for one in found]
        print(json.dumps(listed, indent=2))
        return exit_codes.OK
    now = SystemClock().now()
    head = [
        "id",
        "team",
        "name",
        "scope",
        "requests/min",
        "USD/month",
        "USD used",
        "created",
        "expires",
        "last used",
        "state",
    ]
    rows = [
        [
            one.id,
            one.team,
            one.name,
            one.scope.value,
            str(one.requests_per_minute or "-"),
            f"{one.budget_usd:g}" if one.budget_micro else "-",
            f"{used[one.id].cost_usd:.2f}" if one.id in used else "?",
            _day(one.created_at),
            _day(one.expires_at),
            _day(one.last_used_at),
            one.state_at(now),
        ]
        for one in found
    ]
    print_table(head, rows)
    if found and not used:
        exit_codes.say(
            "USD used: unknown, because no coordination server answers. Start the service, or set REDIS_URL."
        )
    return exit_codes.OK


def run_revoke(args: argparse.Namespace) -> int:
    if not _with_keys(settings_from(args), lambda keys: keys.revoke(args.key_id, _actor())):
        exit_codes.say(f"quire: there is no valid key {args.key_id}.")
        return exit_codes.FAILED
    print(f"Revoked {args.key_id}; every process refuses it within five seconds.")
    return exit_codes.OK


def run_audit(args: argparse.Namespace) -> int:
    found = _with_keys(settings_from(args), lambda keys: keys.audit(args.limit))
    if args.json:
        print(json.dumps([asdict(one) for one in found], indent=2))
        return exit_codes.OK
    rows = [[_day(one.at), one.actor, one.action, one.subject, one.details] for one in found]
    print_table(["at", "actor", "action", "subject", "details"], rows)
    return exit_codes.OK


def _with_keys(settings: Settings, work: Callable[[Any], Awaitable[T]]) -> T:
    """Runs `work` on the keys of the catalog. Raises CatalogError when it can't be opened."""
    from quire.pipeline.vault.shared_catalog import SharedCatalog

    async def run() -> T:
        shared = SharedCatalog(settings, SystemClock())
        try:
            return await work((await shared.open_once()).keys)
        finally:
            await shared.close()

    return asyncio.run(run())


async def _used_this_month(settings: Settings, key_ids: Sequence[str]) -> dict[str, MonthUsage]:
    """Returns the AI usage of each key, and nothing where no coordination server answers."""
    url: str | None = settings.coordination.redis_url
    if not url:
        url = await asyncio.to_thread(EmbeddedServer.attach_url, settings.general.data_dir)
    if not url:
        return {}
    connection = RedisConnection.open(url, ServerAccess.of(settings.coordination))
    ledger = Ledger(AiAccounts(connection), PriceList(), SystemClock())
    try:
        return dict(zip(key_ids, await asyncio.gather(*map(ledger.key, key_ids)), strict=True))
    except CoordinationError:
        return {}
    finally:
        await connection.close()


def _usage(used: MonthUsage | None) -> dict[str, Any] | None:
    return None if used is None else asdict(used)


def _shown(key: AccessKey) -> dict[str, Any]:
    return {name: value for name, value in asdict(key).items() if name != "digest"}


def _seconds(text: str) -> float:
    try:
        return read_duration(text)
    except ValueError as error:
        raise CommandUsageError(f"--expires {text!r} is no duration such as 90d or 12h.") from error


def _actor() -> str:
    return f"{getpass.getuser()} (quire keys)"


def _day(at: float | None) -> str:
    return "-" if at is None else time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(at))
