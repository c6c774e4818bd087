"""Spans of a document over two processes, as a local OTLP receiver gets them; and what tracing costs when it is off."""

from __future__ import annotations

import asyncio
import gzip
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from quire.batching.batch_traces import BatchTraces
from quire.bootstrap import runtime
from quire.coordination.parse_requests import ClaimedBatch, ClaimedRequest
from quire.domain.job import UnitKind
from quire.settings import TracingSettings, load
from quire.simulator.simulator_thread import RunningSimulator
from quire.telemetry.tracer import Tracer, remote_context
from quire.telemetry.tracing import open_tracer
from tests.support.environment import clean_environment
from tests.support.serving import Server, client_of
from tests.support.vault_fixtures import ai_settings
from tests.support.waiting import DEADLINE_S

_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
_CALLER = "00f067aa0ba902b7"
_OTHER = _TRACE[::-1]
_PARSE_HEADERS = {"Content-Type": "application/json", "traceparent": f"00-{_OTHER}-{_CALLER}-01"}


class Collector:
    """An OTLP/HTTP receiver on a loopback port."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        spans = self.spans

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    for scope in resource.scope_spans:
                        spans.extend(scope.spans)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def named(self, start: str) -> list[Any]:
        return [span for span in list(self.spans) if span.name.startswith(start)]


@contextmanager
def _collecting() -> Iterator[Collector]:
    found = Collector()
    thread = threading.Thread(target=found.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.server.shutdown()
        found.server.server_close()
        thread.join(DEADLINE_S)


async def test_spans_lead_from_the_callers_request_to_the_provider_call_when_two_processes_work(
    tmp_path: Path, sim: RunningSimulator, make_pdf: Callable[..., bytes]
) -> None:
    with _collecting() as collector:
        settings = {**ai_settings(sim), "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "READER_PROCESSES": "1"}
        server = Server(tmp_path, RUN_DISPATCHER="0", **settings).wait_ready()
        try:
            worker = load({"DATA_DIR": str(server.data_dir), "SHUTDOWN_TIMEOUT": "0", **settings})
            async with (
                client_of(server) as client,
                runtime(worker, owner="test", kinds=tuple(UnitKind), attach=True),
            ):
                sent = await client.upload(
                    make_pdf("A page for the model"),
                    mode="ai",
                    headers={"traceparent": f"00-{_TRACE}-{_CALLER}-01"},
                )
                job = await client.over(sent.json["job_id"])
                assert job["status"] == "completed"
                refused = await client.post("/parse", data=b"no JSON", headers=_PARSE_HEADERS)
                assert refused.status == 400
            # Each process sends its last spans when it ends.
            assert await asyncio.to_thread(server.stop) == 0
        finally:
            server.process.kill()

        (request,) = collector.named("POST /convert")
        (document,) = collector.named("job")
        calls = collector.named("provider call")
        assert request.parent_span_id.hex() == _CALLER
        assert document.parent_span_id == request.span_id
        units = {span.name: span for span in collector.named("unit ")}
        assert {"unit split", "unit merge"} <= set(units)
        assert all(span.parent_span_id == document.span_id for span in units.values())
        (page,) = collector.named("page")
        assert page.parent_span_id in {span.span_id for span in units.values()}
        assert [span.parent_span_id for span in calls] == [page.span_id]
        ours = [request, document, page, *units.values(), *calls]
        assert {span.trace_id.hex() for span in ours} == {_TRACE}
        shown = {one.key: one.value.string_value for one in calls[0].attributes}
        assert (shown["provider"], shown["model"]) == ("openai", "m")
        assert "A page for the model" not in str(collector.spans)

        (parse,) = collector.named("POST /parse")
        assert (parse.trace_id.hex(), parse.parent_span_id.hex()) == (_OTHER, _CALLER)


async def test_batch_and_its_call_are_in_the_trace_of_a_request_that_this_process_received() -> None:
    def claimed(name: str) -> ClaimedRequest:
        return ClaimedRequest(name, "team", "a.png", "key", 0, 1, "replica", False, 0, 0.0)

    with _collecting() as collector:
        tracer = Tracer(TracingSettings(endpoint=collector.url), "1")
        traces = BatchTraces(tracer)
        for name in ("mine", "too"):
            with tracer.request("POST", f"00-{_TRACE}-{_CALLER}-01"):
                traces.remember_request(name)
        first = ClaimedBatch("b1", (claimed("other"), claimed("mine"), claimed("too")), 0)
        with traces.batch(first), traces.backend_call(3):
            pass
        with traces.batch(ClaimedBatch("b2", (claimed("mine"),), 0)):
            pass
        await tracer.close()
    mine, too = collector.named("POST")
    (call,), (batch, later) = collector.named("backend call"), collector.named("batch")
    assert (batch.parent_span_id, call.parent_span_id) == (mine.span_id, batch.span_id)
    assert [link.span_id for link in batch.links] == [too.span_id]
    assert later.parent_span_id == b""
    assert later.trace_id != batch.trace_id


async def test_memory_is_bounded_and_nothing_waits_when_the_collector_is_dead() -> None:
    tracer = Tracer(TracingSettings(endpoint="http://127.0.0.1:9"), "1")
    for number in range(10_000):
        with tracer.span("page", {"page": number}):
            pass
    processor: Any = tracer._provider._active_span_processor._span_processors[0]  # type: ignore[attr-defined]
    assert len(processor._batch_processor._queue) <= 2_048
    async with asyncio.timeout(DEADLINE_S):
        await tracer.close()


def test_opentelemetry_is_not_imported_when_no_collector_is_set() -> None:
    assert open_tracer(TracingSettings(), "1", AsyncExitStack()) is None
    program = (
        "import sys, quire.bootstrap, quire.api.app, quire.cli.worker_command; "
        "sys.exit('opentelemetry.sdk' in sys.modules or 'quire.telemetry.tracer' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=clean_environment(), check=False, timeout=DEADLINE_S
    )
    assert done.returncode == 0


@pytest.mark.parametrize(
    "given", ["", "00-0-0-01", f"00-{'0' * 32}-{_CALLER}-01", f"00-{_TRACE}-{'0' * 16}-01", "x" * 5_000]
)
def test_malformed_context_of_a_caller_is_ignored(given: str) -> None:
    assert remote_context(given) is None


async def test_unsampled_caller_gets_no_spans() -> None:
    tracer = Tracer(TracingSettings(endpoint="http://127.0.0.1:9"), "1")
    try:
        with tracer.request("POST", f"00-{_TRACE}-{_CALLER}-00") as span:
            assert not span.is_recording()
            trace = tracer.begin_job()
        assert trace.startswith(f"00-{_TRACE}-")
        assert trace.partition(" ")[0].endswith("-00")
    finally:
        await tracer.close()
