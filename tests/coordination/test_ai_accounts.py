"""The accounts of AI calls: what is booked at once, and what is booked together."""

from __future__ import annotations

from quire.coordination.ai_accounts import Account, AiAccounts, Charge
from quire.coordination.connection import RedisConnection


async def test_every_call_is_booked_when_the_accounts_are_flushed(connection: RedisConnection) -> None:
    accounts, others = AiAccounts(connection), AiAccounts(connection)
    team, job = Account.of_team("team", "2026-11"), Account.of_job("job")
    charge = Charge(micro=5, reserved_micro=9, tokens_in=1, tokens_out=2)
    for _ in range(3):
        await accounts.charge(charge, booked=[team], reserved=[])
    await accounts.flush()
    assert await others.usage(team) == (3, 3, 6, 15)

    await accounts.charge(charge, booked=[team], reserved=[])
    assert await accounts.usage(team) == (4, 4, 8, 20), "a process sees its own calls"

    await accounts.reserve(job, 9, 100)
    await accounts.charge(charge, booked=[job], reserved=[job])
    assert await others.usage(job) == (1, 1, 2, 5), "the price that was reserved is replaced at once"
