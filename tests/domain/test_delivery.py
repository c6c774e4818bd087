"""Deliveries as they are stored with a job, by this version and the previous one."""

from __future__ import annotations

from quire.domain.delivery import Delivery, DeliveryOutcome, Destination
from quire.pipeline.ghost_service import GhostRequest

STORED = {
    "file_id": "4711",
    "file_path": "s3://inbox/4711.pdf",
    "destination": "bucket",
    "user": "ann",
    "source": "api",
    "ai_engine": "ClaudeEngine",
    "ai_provider": "anthropic",
    "processing_mode": "bart_1",
    "fast_upload": True,
    "ahead": 3,
    "result_to": "",
}
"""What version 0.1 stored for a GhostServer request."""


def test_request_is_read_back_when_the_previous_version_stored_it() -> None:
    delivery = Delivery.from_dict(STORED)
    assert delivery.identity == ("bucket", "s3://inbox/4711.pdf", "ann")
    request = GhostRequest.of(delivery)
    assert (request.file_id, request.ai_provider, request.fast_upload, request.ahead) == (
        *("4711", "anthropic", True),
        3,
    )
    assert request.as_delivery().as_dict() == STORED


def test_plain_delivery_is_read_back_when_the_previous_version_stored_it() -> None:
    stored = {
        **STORED,
        "destination": "prefix",
        "result_to": "s3://out/",
        "file_path": "",
        "source": "convert",
    }
    delivery = Delivery.from_dict(stored)
    assert (delivery.destination, delivery.identity) == (Destination.PREFIX, ("prefix", "s3://out/"))
    ours = Delivery(Destination.PREFIX, result_to="s3://out/")
    assert ours.as_dict().keys() == {"destination", "file_path", "result_to", "user"}
    assert GhostRequest.of(ours).source == "convert"


def test_outcome_is_the_same_when_stored_and_read_back() -> None:
    for outcome in (
        DeliveryOutcome(url="s3://out/a.md", size_bytes=0),
        DeliveryOutcome(path="/data/results/x.txt", size_bytes=12),
        DeliveryOutcome(error={"code": "objects", "error": "The bucket is away."}),
    ):
        assert DeliveryOutcome.from_dict({**outcome.as_dict(), "epoch": 2}) == outcome
