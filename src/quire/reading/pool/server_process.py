"""The process of a fork server, as its parent starts it: it imports the parsers at once, and is told its limits later.

Light: a command may start it before its own code is loaded, so that both load at the same time.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

PARSERS = ("quire.reading.pool.warm_imports",)
"""What a fork server imports once, before it forks children."""

LENGTH = struct.Struct("<Q")
"""Before every frame on a socket: how many bytes it has."""

_START = (
    "import json, sys; a = json.loads(sys.argv[1]); sys.path[:] = a['sys_path'];"
    "from quire.reading.pool.forkserver import serve; serve(a['control'], a['parent'], a['preload'])"
)


class ServerProcess:
    """A fork server that has no parent's end yet. `quire.reading.pool.child_process.ForkServer` takes it over."""

    def __init__(
        self,
        preload: Sequence[str] = PARSERS,
        environment: Mapping[str, str] | None = None,
        *,
        keep_stderr: bool = False,
    ) -> None:
        self.control, theirs = socket.socketpair()
        start = {
            "sys_path": sys.path,
            "control": theirs.fileno(),
            "parent": os.getpid(),
            "preload": list(preload),
        }
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own text
                [sys.executable, "-P", "-c", _START, json.dumps(start)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=None if keep_stderr else subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={
                    "TMPDIR": tempfile.gettempdir(),
                    "PYTHONUTF8": "1",
                    "ORT_DISABLE_TELEMETRY": "1",  # onnxruntime sends telemetry unless this is set
                    **(environment or {}),
                },
                start_new_session=True,  # Ctrl-C in a terminal is for the parent alone
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, limits: Mapping[str, Any]) -> None:
        """Sends the limits of its children, for which it waits before it forks any. Raises OSError if it has ended."""
        content = json.dumps(limits).encode()
        self.control.sendall(LENGTH.pack(len(content)) + content)

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def wait(self, timeout_s: float) -> None:
        """Returns when the process has ended, which it does when its control socket is closed.

        It is killed if that takes longer than `timeout_s`: it is stuck in an import.
        """
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Ends the process, and its children with it. One that has ended stays as it is."""
        self.control.close()
        if not self.has_ended():
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
