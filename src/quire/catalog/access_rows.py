"""The rows of API keys and of the audit log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from quire.catalog.database.database import Database, statement
from quire.clock import Clock
from quire.domain.access_key import AccessKey, AuditEntry, KeyScope

_COLUMNS = (
    "id, team, name, scopes, digest, created_at, requests_per_minute, expires_at, revoked_at, last_used_at, "
    "budget_micro"
)


class AccessRows:
    """Every change of a key is written with its line of the audit log, in one transaction."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def add(self, key: AccessKey, actor: str) -> None:
        async def write(connection: AsyncConnection) -> None:
            await connection.execute(
                statement(
                    f"INSERT INTO api_keys ({_COLUMNS}) VALUES (:id, :team, :name, :scopes, :digest, :created_at, "  # noqa: S608 - our own column names
                    ":requests_per_minute, :expires_at, NULL, NULL, :budget_micro)"
                ),
                {
                    "id": key.id,
                    "team": key.team,
                    "name": key.name,
                    "scopes": key.scope.value,
                    "digest": key.digest,
                    "created_at": key.created_at,
                    "requests_per_minute": key.requests_per_minute,
                    "expires_at": key.expires_at,
                    "budget_micro": key.budget_micro,
                },
            )
            details: dict[str, Any] = {"team": key.team, "name": key.name, "scope": key.scope.value}
            details |= {"requests_per_minute": key.requests_per_minute, "budget_usd": key.budget_usd}
            await self._record(connection, actor, "key.created", key.id, details)

        await self._database.write(write)

    async def get(self, key_id: str) -> AccessKey | None:
        async with self._database.reading() as connection:
            found = await connection.execute(
                statement(f"SELECT {_COLUMNS} FROM api_keys WHERE id = :id"),  # noqa: S608 - our own column names
                {"id": key_id},
            )
            row = found.first()
        return None if row is None else _key(row)

    async def all(self) -> list[AccessKey]:
        """Every key, revoked ones included, in the order in which they were made."""
        async with self._database.reading() as connection:
            found = await connection.execute(
                statement(f"SELECT {_COLUMNS} FROM api_keys ORDER BY created_at, id")  # noqa: S608 - our own column names
            )
            return [_key(row) for row in found.all()]

    async def revoke(self, key_id: str, actor: str) -> bool:
        """False if there is no such key, or it was revoked before."""

        async def write(connection: AsyncConnection) -> bool:
            done = await connection.execute(
                statement("UPDATE api_keys SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL"),
                {"now": self._clock.now(), "id": key_id},
            )
            if not done.rowcount:
                return False
            await self._record(connection, actor, "key.revoked", key_id, {})
            return True

        return await self._database.write(write)

    async def used(self, key_id: str, at: float) -> None:
        async def write(connection: AsyncConnection) -> None:
            await connection.execute(
                statement("UPDATE api_keys SET last_used_at = :at WHERE id = :id"), {"at": at, "id": key_id}
            )

        await self._database.write(write)

    async def audit(self, limit: int, team: str | None = None) -> list[AuditEntry]:
        """The newest first; with `team` only what concerns its keys."""
        of_team = "WHERE subject IN (SELECT id FROM api_keys WHERE team = :team)" if team else ""
        async with self._database.reading() as connection:
            found = await connection.execute(
                statement(
                    f"SELECT at, actor, action, subject, details FROM audit_log {of_team} "  # noqa: S608 - our own text
                    "ORDER BY pk DESC LIMIT :limit"
                ),
                {"limit": limit, "team": team} if team else {"limit": limit},
            )
            return [AuditEntry(*row) for row in found.all()]

    async def _record(
        self, connection: AsyncConnection, actor: str, action: str, subject: str, details: Mapping[str, Any]
    ) -> None:
        await connection.execute(
            statement(
                "INSERT INTO audit_log (at, actor, action, subject, details) "
                "VALUES (:at, :actor, :action, :subject, :details)"
            ),
            {
                "at": self._clock.now(),
                "actor": actor,
                "action": action,
                "subject": subject,
                "details": json.dumps(details),
            },
        )


def _key(row: Any) -> AccessKey:
    return AccessKey(
        id=row[0],
        team=row[1],
        name=row[2],
        scope=KeyScope(row[3]),
        digest=row[4],
        created_at=row[5],
        requests_per_minute=row[6],
        expires_at=row[7],
        revoked_at=row[8],
        last_used_at=row[9],
        budget_micro=row[10],
    )
