"""A worker process is killed with its calls out: they are made again at once, only once, and no others."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import IO

from quire.coordination.ai_admission import START_CAP
from quire.domain.job import JobStatus, Mode, UnitKind
from quire.simulator.simulator_thread import RunningSimulator
from tests.support.environment import clean_environment
from tests.support.marked_documents import marked_pdf, marker, markers_in
from tests.support.quire_processes import start_quire
from tests.support.running import at_rest, markdown, over, pages, quire, upload
from tests.support.waiting import UNHURRIED, scaled, until

IN_HAND = 16
OUT = 12
PAGES = 60


async def test_only_the_calls_that_were_out_are_made_again_when_a_worker_is_killed(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    sim.play({"models": [{"model": "*", "latency": 1.5}]})
    env = {
        "OPENAI_BASE_URL": sim.openai_url,
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_PRIMARY_MODEL": "a1",
        "OPENAI_SECONDARY_MODEL": "a1",
        "SECONDARY_ENGINE": "none",
        "MAX_INFLIGHT_PER_MODEL": str(OUT),
        "WORKER_CONCURRENCY": str(IN_HAND),
        "REQUEST_TIMEOUT": scaled(6),
        "READER_PROCESSES": "2",
        "RETRY_BASE_DELAY": "20ms",
    }
    others = [kind for kind in UnitKind if kind is not UnitKind.PAGE]
    async with quire(tmp_path, kinds=others, **env) as one:
        accepted = await upload(one, marked_pdf(tmp_path / "a.pdf", PAGES), mode=Mode.AI)
        alive = clean_environment(**env, DATA_DIR=str(tmp_path / "data"))

        def start(log: IO[bytes]) -> subprocess.Popen[bytes]:
            return start_quire("worker", "--queues", "slow", env=alive, stdout=log, stderr=log)

        with (tmp_path / "worker.log").open("wb") as log:
            worker = start(log)
            try:

                async def many_out() -> bool:
                    assert worker.poll() is None, (tmp_path / "worker.log").read_text()
                    return sim.stats()["total"]["in_flight"] >= OUT

                await until(many_out, "as many calls as are allowed are out")
            finally:
                worker.send_signal(signal.SIGKILL)
                worker.wait()

            async def none_out() -> bool:
                return sim.stats()["total"]["in_flight"] == 0

            await until(none_out, "the provider has noticed")  # the leases are released before
            second = start(log)
            try:
                job = await over(one, accepted.job_id)
            finally:
                second.terminate()
                second.wait()
        assert job.status is JobStatus.COMPLETED
        assert {str(record.source) for record in (await pages(one, job)).values()} <= {"ai", "cache"}
        assert markers_in(await markdown(one, job)) == [marker(1, n) for n in range(1, PAGES + 1)]
        model = sim.stats()["models"]["a1"]
        attempts = sum(record.attempts for record in (await pages(one, job)).values())
        assert attempts >= model["calls"], "paid at most once for each attempt"
        # Out are also calls that were answered, but whose page was not yet recorded: all that was in hand.
        assert PAGES <= model["calls"] <= PAGES + IN_HAND
        assert model["in_flight_max"] <= OUT
        await at_rest(one)
        [state] = await one.parts.ai.dispatcher.admission.states(one.parts.ai.dispatcher.candidates.all()[:1])
        assert state.calls_ok <= model["calls"]


async def test_the_calls_of_a_dead_worker_block_no_model_when_their_timeout_is_long(
    tmp_path: Path, sim: RunningSimulator
) -> None:
    """Their leases are released when the housekeeper finds the worker dead: REQUEST_TIMEOUT is 20 minutes here, and
    the model allows two calls at first."""
    sim.play({"models": [{"model": "*", "latency": 3600}]})
    env = {
        "OPENAI_BASE_URL": sim.openai_url,
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_PRIMARY_MODEL": "a1",
        "OPENAI_SECONDARY_MODEL": "a1",
        "SECONDARY_ENGINE": "none",
        **UNHURRIED,
    }
    others = [kind for kind in UnitKind if kind is not UnitKind.PAGE]
    async with quire(tmp_path, kinds=others, **env) as one:
        accepted = await upload(one, marked_pdf(tmp_path / "a.pdf", 4), mode=Mode.AI)
        alive = clean_environment(**env, DATA_DIR=str(tmp_path / "data"))
        ai = one.parts.ai
        assert ai is not None

        async def in_flight() -> int:
            [state] = await ai.dispatcher.admission.states(ai.dispatcher.candidates.all()[:1])
            return state.in_flight

        with (tmp_path / "worker.log").open("wb") as log:
            worker = start_quire("worker", "--queues", "slow", env=alive, stdout=log, stderr=log)
            try:

                async def two_out() -> bool:
                    assert worker.poll() is None, (tmp_path / "worker.log").read_text()
                    return sim.stats()["total"]["in_flight"] == START_CAP

                await until(two_out, "as many calls as are allowed at first are out")
            finally:
                worker.send_signal(signal.SIGKILL)
                worker.wait()

            async def none_held() -> bool:
                return await in_flight() == 0

            await until(none_held, "the leases of the dead worker are released")
            sim.play({})
            second = start_quire("worker", "--queues", "slow", env=alive, stdout=log, stderr=log)
            try:
                job = await over(one, accepted.job_id)
            finally:
                second.terminate()
                second.wait()
        assert job.status is JobStatus.COMPLETED
        records = await pages(one, job)
        assert [str(record.source) for record in records.values()] == ["ai"] * 4
        calls = sim.stats()["total"]["calls"]
        assert calls == 4 + START_CAP
        assert sum(record.attempts for record in records.values()) >= calls, "paid once for each attempt"
