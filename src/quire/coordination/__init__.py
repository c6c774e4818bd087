"""Everything in Redis or Valkey: keys, scripts, records, queues, liveness, and the embedded server."""

import sys

_UNUSED = "opentelemetry.sdk.metrics"

# redis-py imports this package wherever it is installed, for metrics that Quire does not use: 50 ms of CPU a start.
if _UNUSED not in sys.modules:
    sys.modules[_UNUSED] = None  # type: ignore[assignment]  # what makes an import fail
    import redis

    assert redis  # noqa: S101 - imported for its effect
    del sys.modules[_UNUSED]
