"""The batch parser as one of the dispatcher's providers: `dolphin`. Pages go to it in whatever batch comes next."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from quire.batching.failures import BackendAwayError, WaitedTooLongError
from quire.batching.pages import read_page
from quire.errors import BusyError, CoordinationError, ObjectsError, PageError, RequestError
from quire.providers import known
from quire.providers.protocol import (
    ProviderError,
    ProviderServerError,
    ProviderTimeoutError,
    RateLimitedError,
    RejectedError,
    Stop,
    Usage,
    VisionAnswer,
    VisionRequest,
)

if TYPE_CHECKING:
    from quire.batching.batcher import Batcher

_DPI = 150


class DolphinProvider:
    """Costs no tokens. Its own queue, slots and breaker stand behind those of the dispatcher."""

    def __init__(self, batcher: Batcher) -> None:
        self._batcher = batcher

    @property
    def name(self) -> str:
        return known.DOLPHIN

    async def open(self) -> None:
        """Nothing to load: the batcher runs already."""

    async def read(self, request: VisionRequest) -> VisionAnswer:
        failure: ProviderError
        try:
            async with asyncio.timeout(request.timeout_s):
                image = await request.redraw(_DPI) if request.redraw is not None else request.image
                page = await read_page(
                    self._batcher, image, team=request.team, filename="page.jpg", key=request.attempt
                )
            return VisionAnswer(page.markdown, Stop.DONE, Usage())
        except (TimeoutError, WaitedTooLongError):
            failure = ProviderTimeoutError(
                f"The batch backend gave no answer within {request.timeout_s:g} s."
            )
        except BackendAwayError as error:
            failure = ProviderServerError(error.public, retry_after_s=error.retry_after_s)
        except BusyError as error:
            failure = RateLimitedError(error.public, retry_after_s=error.retry_after_s)
        except (CoordinationError, ObjectsError) as error:
            failure = ProviderServerError(error.public)
        except PageError as error:
            if not error.retryable:
                # This one image can't be read there; that says nothing about the backend.
                return VisionAnswer("", Stop.DONE, Usage())
            failure = ProviderServerError(error.public)
        except RequestError as error:
            failure = RejectedError(error.public)
        raise failure

    async def check(self, model: str) -> None:
        """Raises ProviderServerError where the backend does not answer."""
        if not (await self._batcher.condition()).backend_reachable:
            raise ProviderServerError(f"The batch backend ({model}) can't be reached.")

    async def close(self) -> None:
        """The batcher is closed by whoever opened it."""
