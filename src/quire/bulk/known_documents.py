"""What earlier plans hold, in sorted arrays of digests: 24 bytes a document, so that ten million fit in memory.

Keys and contents are told apart by 128 bits, versions of the same key by 64.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

_DELETED = np.uint64(0)


def digests(texts: Sequence[str]) -> Words:
    """Returns 128 bits for each text, as rows of two words."""
    joined = b"".join(
        hashlib.blake2b(one.encode("utf-8", "surrogateescape"), digest_size=16).digest() for one in texts
    )
    return np.frombuffer(joined, dtype=np.uint64).reshape(-1, 2)


def versions(etags: Sequence[str]) -> Words:
    """Returns 64 bits for each version; never the mark of a deleted document."""
    return digests(etags)[:, 0] | np.uint64(1) if etags else np.empty(0, np.uint64)


class KnownDocuments:
    """The newest version of each key in earlier plans, and which keys a listing has shown."""

    def __init__(self) -> None:
        self._parts: list[tuple[Words, Words]] = []
        self._keys: Words = np.empty((0, 2), np.uint64)
        self._versions: Words = np.empty(0, np.uint64)
        self._seen: Flags = np.empty(0, np.bool_)

    def add(self, keys: Sequence[str], etags: Sequence[str], deleted: Sequence[bool]) -> None:
        """Adds entries of a plan, in the order of plans: the last entry of a key holds."""
        found = np.where(np.asarray(deleted, np.bool_), _DELETED, versions(etags))
        self._parts.append((digests(keys), found))

    def freeze(self) -> None:
        """Sorts what was added; required before any question."""
        if not self._parts:
            return
        keys = np.concatenate([one for one, _ in self._parts])
        found = np.concatenate([one for _, one in self._parts])
        self._parts.clear()
        # The sort is stable, so the last entry of a key is the newest one.
        order = np.lexsort((np.arange(len(keys)), keys[:, 1], keys[:, 0]))
        keys, found = keys[order], found[order]
        last = np.ones(len(keys), np.bool_)
        last[:-1] = (keys[1:] != keys[:-1]).any(axis=1)
        self._keys, self._versions = np.ascontiguousarray(keys[last]), found[last]
        self._seen = np.zeros(len(self._keys), np.bool_)

    def __len__(self) -> int:
        return len(self._keys)

    def is_new(self, keys: Sequence[str], etags: Sequence[str]) -> Flags:
        """Returns which documents are new, changed or back after a deletion, and marks all of them as listed."""
        wanted = digests(keys)
        places = _places(self._keys, wanted)
        known = places >= 0
        new = np.ones(len(wanted), np.bool_)
        new[known] = self._versions[places[known]] != versions(etags)[known]
        self._seen[places[known]] = True
        return new

    def is_current(self, keys: Sequence[str], etags: Sequence[str]) -> Flags:
        """Returns which documents are the newest version of their key, and not deleted."""
        places = _places(self._keys, digests(keys))
        found: Flags = places >= 0
        found[found] = self._versions[places[found]] == versions(etags)[found]
        return found

    @property
    def any_gone(self) -> bool:
        """Whether a known document was not listed."""
        return bool((~self._seen & (self._versions != _DELETED)).any())

    def is_gone(self, keys: Sequence[str]) -> Flags:
        """Returns which keys are known, not deleted, and were not listed. Each is returned once."""
        places = _places(self._keys, digests(keys))
        gone = places >= 0
        gone[gone] = ~self._seen[places[gone]] & (self._versions[places[gone]] != _DELETED)
        self._seen[places[gone]] = True
        return gone


class DigestSet:
    """A set of texts by 128 bits each: a few sorted arrays, merged as they grow."""

    def __init__(self) -> None:
        self._runs: list[Words] = []

    def contains(self, texts: Sequence[str]) -> Flags:
        """Returns which texts are in the set."""
        wanted = digests(texts)
        known = np.zeros(len(wanted), np.bool_)
        for run in self._runs:
            known |= _places(run, wanted) >= 0
        return known

    def add_new(self, texts: Sequence[str]) -> Flags:
        """Adds the texts and returns which were not in the set before; of equal texts the first counts as new."""
        wanted, known = digests(texts), self.contains(texts)
        _, first = np.unique(wanted, axis=0, return_index=True)
        is_first = np.zeros(len(wanted), np.bool_)
        is_first[first] = True
        new: Flags = is_first & ~known
        if new.any():
            self._insert(wanted[new])
        return new

    def _insert(self, added: Words) -> None:
        added = _sorted(added)
        while self._runs and len(self._runs[-1]) <= 2 * len(added):
            added = _sorted(np.concatenate([self._runs.pop(), added]))
        self._runs.append(added)


def _sorted(rows: Words) -> Words:
    return np.ascontiguousarray(rows[np.lexsort((rows[:, 1], rows[:, 0]))])


def _places(rows: Words, wanted: Words) -> npt.NDArray[np.int64]:
    """Returns the place of each wanted row among sorted rows, or -1."""
    found = np.full(len(wanted), -1, np.int64)
    if not len(rows):
        return found
    firsts = rows[:, 0]
    place = np.searchsorted(firsts, wanted[:, 0])
    open_ones = np.flatnonzero(place < len(rows))
    while len(open_ones):  # more than once only where the first 64 bits of two texts agree
        at = place[open_ones]
        same_first = firsts[at] == wanted[open_ones, 0]
        open_ones, at = open_ones[same_first], at[same_first]
        same = rows[at, 1] == wanted[open_ones, 1]
        found[open_ones[same]] = at[same]
        open_ones = open_ones[~same]
        place[open_ones] += 1
        open_ones = open_ones[place[open_ones] < len(rows)]
    return found
