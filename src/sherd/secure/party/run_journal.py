"""The journal of a joint run: what was opened and co-signed by all, on disk before it is used.

Every opened result is signed by every party before anybody goes on. What is signed is a chain: the
hash of the run and what was agreed on for it, then of each result together with the hash before it;
so a signature stands for all results up to that one. A line of the journal is a result with
everybody's signatures, synced to disk.

A run that breaks off is started again by all parties. They show each other their journals, and the
longest counts, but only as far as all parties' signatures hold: a party that edits its journal
changes nothing. A result that not all have signed is computed again, and comes out the same: each
party's part of the noise follows from its key, the run and the place of the result (``RunWords``).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sherd.errors import FormatError, StorageError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

TAG = b"sherd-opened-1\0"
"""What is signed begins with this, and with it nothing else that parties sign."""


@dataclass(frozen=True, kw_only=True)
class SignedResult:
    """What was opened, its numbers, and every party's signature, in the order of their places."""

    what: str
    values: tuple[int, ...]
    signatures: tuple[str, ...] = ()

    def as_data(self) -> list[Any]:
        """The entry as plain data."""
        return [self.what, list(self.values), list(self.signatures)]

    @classmethod
    def from_data(cls, data: Any) -> SignedResult:
        """An entry from plain data; raises ValueError or TypeError where it holds others.

        >>> SignedResult.from_data(["places of choices", [3], []]).values
        (3,)
        """
        what, values, signatures = data
        if not isinstance(what, str) or any(type(value) is not int for value in values):
            raise TypeError(what)
        if not isinstance(signatures, list) or not all(isinstance(s, str) for s in signatures):
            raise TypeError(what)
        if any(not -(2**63) <= value < 2**63 for value in values):
            raise ValueError(what)
        return cls(what=what, values=tuple(values), signatures=tuple(signatures))


@dataclass(kw_only=True)
class RunJournal:
    """The opened results of one run.

    ``run`` names it, and no other; ``statement`` is what the parties agreed on for it; ``cells``
    stands for the table this party began with, None where it only took over what others opened.
    """

    path: Path
    run: str
    statement: dict[str, Any]
    cells: str | None = None
    entries: list[SignedResult] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path) -> RunJournal | None:
        """The journal in a file, which is left as it is; None where there is none."""
        if not path.exists():
            return None
        try:
            head, *lines = path.read_text(encoding="utf-8").split("\n")
            told = json.loads(head)
            # What follows the last line's end was not written whole.
            return cls(
                path=path,
                run=str(told["run"]),
                statement=dict(told["statement"]),
                cells=told.get("cells"),
                entries=[SignedResult.from_data(json.loads(line)) for line in lines[:-1]],
            )
        except (ValueError, KeyError, TypeError):
            raise FormatError("the journal cannot be read", got=str(path)) from None

    def begin(self) -> None:
        """Write down all that is known of the run, before anything more is opened."""
        from sherd.tables.files import write_whole

        head = {"run": self.run, "statement": self.statement, "cells": self.cells}
        lines = [json.dumps(head), *(json.dumps(one.as_data()) for one in self.entries)]
        write_whole(self.path, ("\n".join(lines) + "\n").encode())

    def next_text(self, what: str, values: tuple[int, ...]) -> bytes:
        """What all parties sign for the next result."""
        return TAG + self._chain([*self.entries, SignedResult(what=what, values=values)])[-1]

    def _chain(self, entries: Sequence[SignedResult]) -> list[bytes]:
        """The hash up to each result."""
        last = hashlib.sha256(_text([self.run, self.statement])).digest()
        hashes = []
        for one in entries:
            last = hashlib.sha256(last + _text([one.what, one.values])).digest()
            hashes.append(last)
        return hashes

    def append(self, entry: SignedResult) -> None:
        """Write a result down; it is on disk when this returns."""
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry.as_data()) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StorageError(
                "the journal cannot be written", got=f"{self.path}: {error.strerror}"
            ) from None
        self.entries.append(entry)

    def signed_by_all(
        self, entries: Sequence[SignedResult], keys: Sequence[str]
    ) -> list[SignedResult]:
        """The results at the beginning that every party has signed, by their public keys."""
        from sherd.signing_keys import verify

        good: list[SignedResult] = []
        for one, digest in zip(entries, self._chain(entries), strict=True):
            if len(one.signatures) != len(keys) or not all(
                verify(key, TAG + digest, signature)
                for key, signature in zip(keys, one.signatures, strict=True)
            ):
                break
            good.append(one)
        return good

    def adopt(self, others: Sequence[Sequence[SignedResult]], keys: Sequence[str]) -> None:
        """Take over what all parties signed of the longest journal; leave out what they did not."""
        known = [self.signed_by_all(one, keys) for one in (self.entries, *others)]
        longest = max(known, key=len)
        if any([e.values for e in longest[: len(one)]] != [e.values for e in one] for one in known):
            raise VerificationError(
                "the parties' journals contradict each other",
                must="the same opened results at all parties",
                do="find out who signed two results for one step, before anything is released",
            )
        self.entries = longest

    def checked(self, keys: Sequence[str]) -> RunJournal:
        """The journal as far as all parties signed it."""
        return replace(self, entries=self.signed_by_all(self.entries, keys))

    def finish(self) -> None:
        """Set the journal aside: its run is over, and can still be told to others."""
        self.path.replace(finished(self.path))


def finished(path: Path) -> Path:
    """Where the journal of a finished run lies."""
    return path.with_suffix(".finished")


def _text(data: Any) -> bytes:
    return json.dumps(data, sort_keys=True).encode()


class RunWords:
    """A party's random words for a run, the same whenever a step is computed again.

    Nobody else knows the key, so to everybody else they are uniform. They depend on the party's
    cells, too: noise that was drawn for one table is never drawn for another.
    """

    def __init__(self, key: bytes, run: str, cells: str) -> None:
        self._seed = hmac.digest(key, f"sherd-party-words-1\0{run}\0{cells}".encode(), "sha512")
        self._step = self._drawn = 0

    def at(self, step: int) -> None:
        """Begin with the words of a step."""
        self._step, self._drawn = step, 0

    def words(self, n: int) -> NDArray[np.uint64]:
        """The next words of the step, uniform below 2^64."""
        import numpy as np

        self._drawn += 1
        seed = hmac.digest(self._seed, f"{self._step}.{self._drawn}".encode(), "sha512")
        return np.frombuffer(hashlib.shake_256(seed).digest(8 * n), "<u8").astype(np.uint64)


def cells_of_run(key: bytes, run: str, codes: Sequence[bytes]) -> str:
    """What stands for a party's table in its journal: nobody without the key can test a guess."""
    mac = hmac.new(key, f"sherd-party-cells-1\0{run}".encode(), "sha256")
    for one in codes:
        mac.update(hashlib.sha256(one).digest())
    return mac.hexdigest()
