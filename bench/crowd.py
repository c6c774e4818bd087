"""Thousands of callers at one moment, from bare sockets: each connects, sends one request and waits for its answer.

Everything that is sent is made beforehand and handed to the kernel without copies, because whatever the callers cost
on a small machine is missing to whoever is measured.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

from tests.batching.callers import Reply

_CONNECTED_A_TURN = 8


class _Caller:
    __slots__ = ("began", "buffers", "received", "sock", "writing")

    def __init__(self, address: tuple[str, int], request: Sequence[bytes]) -> None:
        self.buffers: list[memoryview] = [memoryview(one) for one in request]
        self.received = bytearray()
        self.writing = False
        self.began = time.perf_counter()
        self.sock = socket.socket()
        self.sock.setblocking(False)
        self.sock.connect_ex(address)

    def send(self) -> bool:
        """Whether everything is sent."""
        while self.buffers:
            try:
                count = self.sock.sendmsg(self.buffers)
            except (BlockingIOError, InterruptedError):
                return False
            while self.buffers and count >= len(self.buffers[0]):
                count -= len(self.buffers.pop(0))
            if count:
                self.buffers[0] = self.buffers[0][count:]
        return True

    def reply(self) -> Reply | None:
        """The answer once it is whole. Raises OSError where the server goes away."""
        try:
            data = self.sock.recv(64 << 10)
        except (BlockingIOError, InterruptedError):
            return None
        if not data:
            raise ConnectionResetError("the server closed the connection")
        self.received += data
        end = self.received.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = bytes(self.received[:end]).lower()
        length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if len(self.received) - end - 4 < length:
            return None
        return Reply(int(head[9:12]), bytes(self.received[end + 4 :]), time.perf_counter() - self.began)


def crowd(url: str, requests: Sequence[Sequence[bytes]]) -> tuple[float, list[Reply]]:
    """How long until the last has its answer, and the answers in the requests' order; status 0 where there is none."""
    parts = urlsplit(url)
    address = (parts.hostname or "", parts.port or 80)
    replies: list[Reply | None] = [None] * len(requests)
    callers: dict[int, tuple[int, _Caller]] = {}
    began = time.perf_counter()
    with select.epoll() as poll:
        at = 0
        while at < len(requests) or callers:
            for _ in range(_CONNECTED_A_TURN):
                if at == len(requests):
                    break
                caller = _Caller(address, requests[at])
                try:
                    caller.writing = not caller.send()
                except OSError:
                    replies[at] = Reply(0, b"", 0.0)
                    caller.sock.close()
                else:
                    callers[caller.sock.fileno()] = (at, caller)
                    poll.register(caller.sock, select.EPOLLOUT if caller.writing else select.EPOLLIN)
                at += 1
            for fd, _ in poll.poll(0 if at < len(requests) or not callers else 60, 256):
                place, caller = callers[fd]
                try:
                    if caller.writing:
                        if caller.send():
                            caller.writing = False
                            poll.modify(fd, select.EPOLLIN)
                        continue
                    reply = caller.reply()
                except OSError:
                    reply = Reply(0, b"", time.perf_counter() - caller.began)
                if reply is not None:
                    replies[place] = reply
                    poll.unregister(fd)
                    del callers[fd]
                    caller.sock.close()
    return time.perf_counter() - began, [one for one in replies if one is not None]
