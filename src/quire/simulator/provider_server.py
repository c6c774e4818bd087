"""The simulator's HTTP server, and its record of every call by model.

Built for load: no routing, no logs, pictures are never decoded. One process serves a few thousand calls a second.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from quire.clock import Clock
from quire.errors import RequestError
from quire.simulator import anthropic_wire, openai_wire, simulated_answers
from quire.simulator.anthropic_wire import AnthropicWire
from quire.simulator.batch_desk import BatchDesk
from quire.simulator.openai_wire import EmbeddingsWire, OpenAIWire
from quire.simulator.rate_budgets import Budgets
from quire.simulator.scenario import Fault, FaultRule, ModelProfile, Scenario, parse
from quire.simulator.simulated_answers import ModelRequest
from quire.simulator.wire import Moment, Outgoing, Wire, packed

_MOST_CALLS = 200_000
_LATEST = 8  # bodies that are kept of each model


@dataclass(slots=True)
class RecordedCall:
    """One call. `at` and `ended_at` are seconds since the epoch; `ended_at` is None while it is in flight.

    `in_window`: a fault with a time window was active for its model when it arrived.
    """

    at: float
    in_window: bool
    outcome: str = ""
    ended_at: float | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "at": self.at,
            "ended_at": self.ended_at,
            "outcome": self.outcome,
            "in_window": self.in_window,
        }


@dataclass(slots=True)
class ModelRecord:
    calls: int = 0
    in_flight: int = 0
    in_flight_max: int = 0
    limited: int = 0
    """429s because a limit was exceeded, not because of a rule."""
    calls_in_window: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    kept: list[RecordedCall] = field(default_factory=list)

    def begin(self, at: float, *, in_window: bool) -> RecordedCall:
        self.calls += 1
        self.calls_in_window += in_window
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        call = RecordedCall(at, in_window)
        if len(self.kept) < _MOST_CALLS:
            self.kept.append(call)
        return call

    def end(self, call: RecordedCall, at: float) -> None:
        self.in_flight -= 1
        call.ended_at = at
        self.outcomes[call.outcome] += 1

    def as_dict(self, *, with_calls: bool) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "calls": self.calls,
            "in_flight": self.in_flight,
            "in_flight_max": self.in_flight_max,
            "limited": self.limited,
            "calls_in_window": self.calls_in_window,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "outcomes": dict(self.outcomes),
            "first_at": self.kept[0].at if self.kept else None,
            "last_at": self.kept[-1].at if self.kept else None,
        }
        if with_calls:
            shown["log"] = [call.as_dict() for call in self.kept]
        return shown


def summed(records: Iterable[ModelRecord]) -> dict[str, int]:
    rows = list(records)
    return {
        "calls": sum(row.calls for row in rows),
        "in_flight": sum(row.in_flight for row in rows),
        "limited": sum(row.limited for row in rows),
    }


_MAX_BODY_BYTES = 128 << 20
_JSON = "application/json"

_ERRORS = frozenset(
    {Fault.RATE_LIMIT, Fault.QUOTA, Fault.SERVER_ERROR, Fault.OVERLOADED}
    | {Fault.AUTH, Fault.REJECTED, Fault.CONTENT_FILTER_ERROR}
)
_BROKEN = {Fault.BAD_JSON: b'{"choices": [{"mess', Fault.WRONG_SHAPE: b'{"status": "ok", "content": null}'}


class Simulator:
    """Runs one scenario at a time. With the same seed and the same calls it does the same."""

    def __init__(self, scenario: Scenario, clock: Clock, *, seed: int = 0) -> None:
        self._clock = clock
        self._seed = seed
        self._wires: Mapping[str, Wire] = {
            "/chat/completions": OpenAIWire(),
            "/messages": AnthropicWire(),
            "/embeddings": EmbeddingsWire(),
        }
        self._stopped = asyncio.Event()
        self._desk = BatchDesk(self._answer_in_batch, clock)
        self.forget()
        self.play(scenario)

    def play(self, scenario: Scenario) -> None:
        """Starts the scenario and its clock. Records are kept; budgets are full again."""
        self._scenario = scenario
        self._desk.seconds = scenario.batch_s
        self._started_s = self._clock.monotonic()
        self._chance = random.Random(self._seed)  # noqa: S311 - repeatable on purpose
        self._profiles: dict[str, ModelProfile] = {}
        self._budgets: dict[str, Budgets] = {}
        self._played_calls: dict[str, int] = {}

    def forget(self) -> None:
        """Empties the records. Calls in flight are counted in the old, discarded ones."""
        self._records: dict[str, ModelRecord] = {}
        self._latest: dict[str, deque[dict[str, Any]]] = {}
        self._number = 0

    def stats(self, *, with_calls: bool = False) -> dict[str, Any]:
        return {
            "models": {name: one.as_dict(with_calls=with_calls) for name, one in self._records.items()},
            "total": summed(self._records.values()),
            "batches": self._desk.stats(),
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        for ending, wire in self._wires.items():
            if path.endswith(ending):
                return await self._call(request, wire)
        if path.startswith("/_sim/"):
            return await self._control(request, path)
        if (batched := await self._batched(request, path)) is not None:
            return batched
        if path.endswith("/models"):
            page = anthropic_wire if "anthropic-version" in request.headers else openai_wire
            names = [*dict.fromkeys([*self._records, *(one.model for one in self._scenario.models)])]
            return _response(200, page.models_page(names))
        return _response(*OpenAIWire().error(Fault.REJECTED, "", 404))

    async def _batched(self, request: web.BaseRequest, path: str) -> web.StreamResponse | None:
        """The answer of a batch interface; None for another path. Rules for the model `batches` apply to handing in."""
        is_new = path.endswith("/batches") and request.method == "POST"
        rule = None
        if is_new:
            count = self._played_calls["batches"] = self._played_calls.get("batches", 0) + 1
            rule, _ = self._rule("batches", count, self._now_s())
        if rule is not None and rule.fault in _ERRORS:
            return _response(*OpenAIWire().error(rule.fault, "batches", rule.status))
        found = await self._desk.handle(request, path)
        if found is not None and not self._accepts_key(request):
            return _response(*OpenAIWire().error(Fault.AUTH, "", None))
        if rule is not None and rule.fault is Fault.RESET:  # handed in, but the answer is lost
            _abort(request)
        return None if found is None else _response(*found)

    def _answer_in_batch(self, wire: Wire, data: Mapping[str, Any]) -> tuple[int, bytes]:
        """The answer to one request of a batch. Batches have limits of their own, and no latency."""
        parsed = wire.parse_request(dict(data))
        if parsed is None:
            return wire.error(Fault.REJECTED, "", 400)
        count = self._played_calls[parsed.model] = self._played_calls.get(parsed.model, 0) + 1
        rule, in_window = self._rule(parsed.model, count, self._now_s())
        record = self._record(parsed.model)
        call = record.begin(self._clock.now(), in_window=in_window)
        call.outcome = str(rule.fault) if rule else "ok"
        record.end(call, self._clock.now())
        if rule is not None and rule.fault in _ERRORS:
            return wire.error(rule.fault, parsed.model, rule.status)
        written = simulated_answers.write(
            parsed, rule.fault if rule else None, wire.image_tokens, self._scenario.truth
        )
        record.tokens_in += written.tokens_in
        record.tokens_out += written.tokens_out
        self._number += 1
        return 200, wire.answer(parsed, written, self._number)

    async def _call(self, request: web.BaseRequest, wire: Wire) -> web.StreamResponse:
        data = await _object(request)
        model_request = None if data is None else wire.parse_request(data)
        if model_request is None:
            return _response(*wire.error(Fault.REJECTED, "", 400))
        if not self._accepts_key(request):
            return _response(*wire.error(Fault.AUTH, model_request.model, None))
        self._latest.setdefault(model_request.model, deque(maxlen=_LATEST)).appendleft(data or {})
        at_s = self._clock.monotonic() - self._started_s
        count = self._played_calls[model_request.model] = self._played_calls.get(model_request.model, 0) + 1
        rule, in_window = self._rule(model_request.model, count, at_s)
        record = self._record(model_request.model)
        call = record.begin(self._clock.now(), in_window=in_window)
        call.outcome = "left"  # replaced when the outcome is known
        try:
            return await self._answer(request, wire, model_request, rule=rule, record=record, call=call)
        finally:
            record.end(call, self._clock.now())

    async def _answer(
        self,
        request: web.BaseRequest,
        wire: Wire,
        model_request: ModelRequest,
        *,
        rule: FaultRule | None,
        record: ModelRecord,
        call: RecordedCall,
    ) -> web.StreamResponse:
        fault = rule.fault if rule else None
        written = simulated_answers.write(model_request, fault, wire.image_tokens, self._scenario.truth)
        budgets = self._budgets_of(model_request.model)
        self._number += 1
        number = self._number
        if fault is not Fault.RATE_LIMIT:
            # Failed calls use the request limit, but no tokens.
            tokens = 0 if fault in _ERRORS else written.tokens_in + written.tokens_out
            wait_s = budgets.take(tokens, self._now_s())
            if wait_s > 0:
                record.limited += 1
                call.outcome = "limited"
                return self._limited(wire, model_request.model, budgets, number, wait_s)
        delay_s = self._profile(model_request.model).latency.draw(self._chance)
        if fault is Fault.HANG:
            await self._stopped.wait()
        elif delay_s > 0:
            await asyncio.sleep(delay_s)
        headers = wire.headers(budgets, self._moment(), number)
        if rule is not None and fault in _ERRORS:
            call.outcome = str(fault)
            status, body = wire.error(rule.fault, model_request.model, rule.status)
            if rule.retry_after_s is not None:
                headers["retry-after"] = f"{rule.retry_after_s:g}"
            return _response(status, body, headers)
        record.tokens_in += written.tokens_in
        record.tokens_out += written.tokens_out
        broken = _BROKEN.get(fault) if fault else None
        outgoing = Outgoing(200, broken or wire.answer(model_request, written, number), headers)
        if rule is not None and fault in {Fault.DRIP, Fault.CUT, Fault.RESET}:
            call.outcome = str(fault)
            return await _send_broken(request, outgoing, rule)
        call.outcome = str(fault) if fault else "ok"
        return _response(200, outgoing.body, headers)

    def _limited(
        self, wire: Wire, model: str, budgets: Budgets, number: int, wait_s: float
    ) -> web.StreamResponse:
        status, body = wire.error(Fault.RATE_LIMIT, model, None)
        headers = wire.headers(budgets, self._moment(), number)
        headers["retry-after"] = str(math.ceil(wait_s))
        if isinstance(wire, OpenAIWire):
            headers["retry-after-ms"] = str(math.ceil(wait_s * 1000))
        return _response(status, body, headers)

    async def _control(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        if path == "/_sim/stats" and request.method == "GET":
            return _response(200, packed(self.stats(with_calls="calls" in request.query)))
        if path == "/_sim/request" and request.method == "GET":
            latest = self._latest_call(request.query.get("model", ""), request.query.get("containing", ""))
            return _response(
                200 if latest else 404, packed(latest or {"error": "The model has no such call."})
            )
        if path == "/_sim/reset" and request.method == "POST":
            self.forget()
            self.play(self._scenario)
            return _response(200, b"{}")
        if path == "/_sim/scenario" and request.method == "POST":
            try:
                self.play(parse(await _object(request)))
            except RequestError as error:
                return _response(400, packed(error.as_dict()))
            return _response(200, b"{}")
        paths = "/_sim/stats, /_sim/request, /_sim/scenario and /_sim/reset"
        return _response(404, packed({"error": f"Unknown path. There are {paths}."}))

    def _latest_call(self, model: str, containing: str) -> dict[str, Any] | None:
        """The newest of the bodies that are kept whose JSON contains the text."""
        kept = self._latest.get(model, ())
        return next((one for one in kept if containing in json.dumps(one, ensure_ascii=False)), None)

    def stop(self) -> None:
        """Releases hanging calls, so that the server can shut down."""
        self._stopped.set()

    def _accepts_key(self, request: web.BaseRequest) -> bool:
        headers = request.headers
        key = headers.get("x-api-key") or headers.get("Authorization", "").removeprefix("Bearer ")
        return key in self._scenario.api_keys if self._scenario.api_keys else bool(key)

    def _rule(self, model: str, count: int, at_s: float) -> tuple[FaultRule | None, bool]:
        """Returns the rule that applies to this call, and whether an outage is active for the model."""
        found, in_window = None, False
        for rule in self._scenario.rules:
            if rule.covers(model, count, at_s):
                in_window = in_window or rule.is_window
                if found is None and (rule.probability >= 1 or self._chance.random() < rule.probability):
                    found = rule
        return found, in_window

    def _profile(self, model: str) -> ModelProfile:
        found = self._profiles.get(model)
        if found is None:
            found = self._profiles[model] = self._scenario.profile(model)
        return found

    def _budgets_of(self, model: str) -> Budgets:
        found = self._budgets.get(model)
        if found is None:
            found = self._budgets[model] = Budgets.of(self._profile(model))
        return found

    def _record(self, model: str) -> ModelRecord:
        found = self._records.get(model)
        if found is None:
            found = self._records[model] = ModelRecord()
        return found

    def _now_s(self) -> float:
        return self._clock.monotonic() - self._started_s

    def _moment(self) -> Moment:
        return Moment(self._now_s(), self._clock.now())


async def start(
    simulator: Simulator, *, host: str = "127.0.0.1", port: int = 0
) -> tuple[web.ServerRunner, str]:
    """Starts listening; returns the runner (the caller cleans it up) and the address. Raises OSError."""
    loop = asyncio.get_running_loop()

    def make_request(
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: RequestHandler,
        writer: AbstractStreamWriter,
        task: asyncio.Task[None],
    ) -> web.BaseRequest:
        return web.BaseRequest(
            message, payload, protocol, writer, task, loop, client_max_size=_MAX_BODY_BYTES
        )

    server = web.Server(
        simulator.handle,
        request_factory=make_request,
        handler_cancellation=True,  # a disconnected caller is no longer in flight
        access_log=None,
    )
    runner = web.ServerRunner(server, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, host, port, backlog=4096)
    await site.start()
    bound = runner.addresses[0]
    shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
    return runner, f"http://{shown}:{bound[1]}"


async def _object(request: web.BaseRequest) -> dict[str, Any] | None:
    try:
        data = json.loads(await request.read())
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


async def _send_broken(request: web.BaseRequest, outgoing: Outgoing, rule: FaultRule) -> web.StreamResponse:
    """Sends an answer byte by byte, or only a part of it."""
    if rule.fault is Fault.RESET:
        _abort(request)
        return web.Response()
    response = web.StreamResponse(status=outgoing.status, headers=outgoing.headers)
    response.content_type = _JSON
    response.content_length = len(outgoing.body)
    await response.prepare(request)
    if rule.fault is Fault.CUT:
        await response.write(outgoing.body[: len(outgoing.body) // 2])
        _abort(request)
        return response
    for place in range(len(outgoing.body)):
        await response.write(outgoing.body[place : place + 1])
        await asyncio.sleep(rule.interval_s)
    return response


def _abort(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


def _response(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(status=status, body=body, headers=headers, content_type=_JSON)
