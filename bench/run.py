"""`make bench`: every bench of the engine, one after the other. The tables go to docs/performance.md by hand."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BENCHES = ("startup.py", "overhead.py", "throughput.py", "memory.py", "quality.py")


def main() -> int:
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.machine()}", flush=True)
    wanted = sys.argv[1:] or BENCHES
    return max(subprocess.run([sys.executable, HERE / name], check=False).returncode for name in wanted)


if __name__ == "__main__":
    raise SystemExit(main())
