"""Runs the examples of docs/bulk.md for other data engines on a small folder, and checks that every page is a row.

    python bench/bulk_engines.py ray|daft|spark

The engine must be installed beside Quire. Servers of the engines must be kept from other hosts, so the example runs in
a network namespace of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent)]

from tests.bulk.rows import check_complete, make_lake, rows_in  # noqa: E402

_TITLES = {"ray": "Ray Data", "daft": "Daft", "spark": "Spark"}
_WITHOUT_EMPTY = ("spark",)
"""Engines that leave out files of no bytes when they list a folder."""
_ALONE = {
    "PYSPARK_PYTHON": sys.executable,
    "BENCH_IN_NAMESPACE": "1",
    "RAY_ADDRESS": "local",
    "SPARK_LOCAL_IP": "127.0.0.1",
}
_DOCS = Path(__file__).parent.parent / "docs" / "bulk.md"


def example(engine: str, lake: Path, target: Path) -> str:
    """Returns the code of the docs with the two places replaced."""
    found = re.search(rf"```python\n(# {_TITLES[engine]}\n.*?)```", _DOCS.read_text(), re.DOTALL)
    if found is None:
        raise SystemExit(f"docs/bulk.md has no example for {_TITLES[engine]}.")
    return found[1].replace('"s3://lake/in', f'"{lake}').replace('"out"', f'"{target}"')


def main() -> None:
    engine = sys.argv[1] if len(sys.argv) == 2 else ""
    if engine not in _TITLES:
        raise SystemExit(__doc__)
    if os.environ.get("BENCH_IN_NAMESPACE") != "1":
        again = [*("unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"), sys.executable]
        done = subprocess.run([*again, *sys.argv], env={**os.environ, **_ALONE}, check=False)
        raise SystemExit(done.returncode)
    with tempfile.TemporaryDirectory(prefix="quire-bench-engines-") as name:
        lake, target = Path(name) / "lake", Path(name) / "rows"
        expected = make_lake(lake, 12)
        exec(compile(example(engine, lake, target), f"docs/bulk.md ({engine})", "exec"), {})
        rows = [row for part in sorted(target.rglob("*.parquet")) for row in rows_in(part.read_bytes())]
        for row in rows:
            row["key"] = Path(row["key"]).name
        check_complete(rows, expected, has_empty=engine not in _WITHOUT_EMPTY)
        print(f"{engine}: {len(rows)} rows, as expected")


if __name__ == "__main__":
    main()
