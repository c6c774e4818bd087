"""`Quire`: the same service for code that doesn't await.

A thin driver: each method here is the asynchronous one, run to its end on a loop in a thread of its own. So it also
works in a notebook, where a loop is running already, and there is only one client to keep right.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from quire.client.async_client import DEFAULT_URL, AsyncQuire
from quire.client.async_documents import AsyncDocuments
from quire.client.exceptions import UsageError
from quire.client.transport import Retrying

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")

_ENDING_S = 5.0
_CALLBACKS = ("on_page", "on_progress")
"""No method has more than one of them."""


class _Thread:
    """A loop in a thread. Callbacks of a call run in the thread that made the call, where they may call again."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="quire-client", daemon=True)
        self._thread.start()

    def run(
        self, work: Coroutine[Any, Any, T], mail: queue.SimpleQueue[Callable[[], None] | None] | None = None
    ) -> T:
        """The result of the work. An interrupt cancels it."""
        if not self._thread.is_alive() or self._loop.is_closed():
            work.close()
            raise UsageError("This client is closed.")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            if mail is not None:
                future.add_done_callback(lambda _: mail.put(None))
                while (errand := mail.get()) is not None:
                    errand()
            return future.result()
        except CancelledError:
            raise UsageError("This client was closed while the call was under way.") from None
        except BaseException:
            future.cancel()
            raise

    def iterate(self, stream: AsyncIterator[T]) -> Iterator[T]:
        try:
            while True:
                item = self.run(_next(stream))
                if item is None:
                    return
                yield item[0]
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None and self._thread.is_alive():
                self.run(close())

    def handed_over(
        self, callback: Callable[[Any], Any], mail: queue.SimpleQueue[Callable[[], None] | None]
    ) -> Callable[[Any], Coroutine[Any, Any, None]]:
        """A callback for the loop's thread that runs the given one in the caller's, and waits for it."""

        async def told(news: Any) -> None:
            done: asyncio.Future[None] = self._loop.create_future()

            def settle(error: BaseException | None) -> None:
                if not done.done():
                    done.set_exception(error) if error is not None else done.set_result(None)

            def errand() -> None:
                error: BaseException | None = None
                try:
                    callback(news)
                except Exception as raised:
                    error = raised
                self._loop.call_soon_threadsafe(settle, error)

            mail.put(errand)
            await done

        return told

    def close(self, goodbye: Coroutine[Any, Any, None]) -> None:
        if not self._thread.is_alive():
            goodbye.close()
            return
        asyncio.run_coroutine_threadsafe(_ended(goodbye), self._loop).result(_ENDING_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_ENDING_S)
        if not self._thread.is_alive():
            self._loop.close()


class _Driven(Generic[A]):
    """Something asynchronous and the thread that runs it."""

    _inner: A
    _thread: _Thread


def _blocking(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[_Driven[A], P], T]:
    @wraps(method)
    def call(self: _Driven[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        named = next((name for name in _CALLBACKS if callable(kwargs.get(name))), None)
        if named is None:
            return self._thread.run(method(self._inner, *args, **kwargs))
        mail: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        callback: Any = kwargs[named]
        kwargs[named] = self._thread.handed_over(callback, mail)
        return self._thread.run(method(self._inner, *args, **kwargs), mail)

    return call


def _iterating(
    method: Callable[Concatenate[A, P], AsyncIterator[T]],
) -> Callable[Concatenate[_Driven[A], P], Iterator[T]]:
    @wraps(method)
    def call(self: _Driven[A], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._thread.iterate(method(self._inner, *args, **kwargs))

    return call


class Documents(_Driven[AsyncDocuments]):
    """The vault of a service."""

    def __init__(self, inner: AsyncDocuments, thread: _Thread) -> None:
        self._inner = inner
        self._thread = thread

    upload = _blocking(AsyncDocuments.upload)
    upload_many = _blocking(AsyncDocuments.upload_many)
    wait = _blocking(AsyncDocuments.wait)
    list = _iterating(AsyncDocuments.list)
    get = _blocking(AsyncDocuments.get)
    exists = _blocking(AsyncDocuments.exists)
    content = _blocking(AsyncDocuments.content)
    text = _iterating(AsyncDocuments.text)
    chunks = _iterating(AsyncDocuments.chunks)
    download = _blocking(AsyncDocuments.download)
    reprocess = _blocking(AsyncDocuments.reprocess)
    delete = _blocking(AsyncDocuments.delete)
    search = _iterating(AsyncDocuments.search)
    search_page = _blocking(AsyncDocuments.search_page)
    tags = _blocking(AsyncDocuments.tags)
    export = _blocking(AsyncDocuments.export)
    schemas = _blocking(AsyncDocuments.schemas)
    save_schema = _blocking(AsyncDocuments.save_schema)
    delete_schema = _blocking(AsyncDocuments.delete_schema)
    apply_schema = _blocking(AsyncDocuments.apply_schema)


class Quire(_Driven[AsyncQuire]):
    """A running service. Use it as a context manager, or call `close`. May be used by several threads.

    Everything is as in `AsyncQuire`; what is an asynchronous iterator there is an iterator here. `on_page` and
    `on_progress` run in the thread that called, and may themselves use the client.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        api_key: str = "",
        *,
        timeout_s: float = 60.0,
        retrying: Retrying | None = None,
    ) -> None:
        self._inner = AsyncQuire(url, api_key, timeout_s=timeout_s, retrying=retrying)
        self._thread = _Thread()
        self.documents = Documents(self._inner.documents, self._thread)
        # Also for those who never close: at the end of the program, or when the object goes.
        self._end = weakref.finalize(self, _close, self._thread, self._inner)

    @classmethod
    def from_environment(cls, api_key: str | None = None) -> Self:
        """With QUIRE_URL and QUIRE_API_KEY, as the command line; `api_key` overrules the latter.

        Raises SettingsError if a setting is malformed.
        """
        from quire.settings import load

        client = load(os.environ).client
        return cls(client.url, client.api_key if api_key is None else api_key)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._end()

    convert = _blocking(AsyncQuire.convert)
    wait = _blocking(AsyncQuire.wait)
    job = _blocking(AsyncQuire.job)
    jobs = _iterating(AsyncQuire.jobs)
    page = _blocking(AsyncQuire.page)
    pages = _iterating(AsyncQuire.pages)
    page_image = _blocking(AsyncQuire.page_image)
    result = _blocking(AsyncQuire.result)
    details = _blocking(AsyncQuire.details)
    text = _iterating(AsyncQuire.text)
    html = _iterating(AsyncQuire.html)
    docling = _blocking(AsyncQuire.docling)
    figure = _blocking(AsyncQuire.figure)
    save_zip = _blocking(AsyncQuire.save_zip)
    save_pdf = _blocking(AsyncQuire.save_pdf)
    extract = _blocking(AsyncQuire.extract)
    diff = _blocking(AsyncQuire.diff)
    batch = _blocking(AsyncQuire.batch)
    batch_state = _blocking(AsyncQuire.batch_state)
    wait_batch = _blocking(AsyncQuire.wait_batch)
    cancel_batch = _blocking(AsyncQuire.cancel_batch)
    export_batch = _blocking(AsyncQuire.export_batch)
    elements = _iterating(AsyncQuire.elements)
    chunks = _iterating(AsyncQuire.chunks)
    original = _blocking(AsyncQuire.original)
    events = _iterating(AsyncQuire.events)
    cancel = _blocking(AsyncQuire.cancel)
    retry = _blocking(AsyncQuire.retry)
    delete = _blocking(AsyncQuire.delete)
    parse = _blocking(AsyncQuire.parse)
    health = _blocking(AsyncQuire.health)


def _close(thread: _Thread, inner: AsyncQuire) -> None:
    thread.close(inner.close())


async def _ended(goodbye: Coroutine[Any, Any, None]) -> None:
    """Stops the calls of other threads, which would wait for a loop that has gone, and says goodbye."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await goodbye


async def _next(stream: AsyncIterator[T]) -> tuple[T] | None:
    try:
        return (await anext(stream),)
    except StopAsyncIteration:
        return None
