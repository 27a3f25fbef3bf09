"""Linking people by pseudonyms: an owner's whole batch, from identifiers to pseudonyms.

    python benchmarks/federation/linking.py [--people 5000000]

One owner blinds its identifiers, another raises them by its key, and the first finishes: three
powers a person, as in a round of two owners, on every core that the process may use. Beside the
clock it says what the cores were busy with it, since other programs may run at the same time; the
limit is for the busy time of all cores together over their number, which on a machine of its own
is the time by the clock.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from sherd.federation.protocol.linkage import POINT, Secret

if TYPE_CHECKING:
    from collections.abc import Callable

PEOPLE = 5_000_000
LIMIT_SECONDS_A_PERSON = 8 * 60 / 5_000_000
PLAN = "ab" * 32


def timed(name: str, work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What a step made, with its seconds by the clock and of the processor."""
    clock, busy = time.monotonic(), time.process_time()
    made = work()
    seconds, spent = time.monotonic() - clock, time.process_time() - busy
    print(f"  {name:<10} {seconds:7.1f} s, {spent:7.1f} s of processor", flush=True)
    return made, seconds, spent


def main() -> int:
    """Link so many people; 1 where it took longer than it may."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--people", type=int, default=PEOPLE)
    people = options.parse_args().people
    cores = len(os.sched_getaffinity(0))
    print(f"{people} identifiers, {cores} cores (load of the machine {os.getloadavg()[0]:.1f})")
    identifiers = [b"%012d" % number for number in range(people)]
    north, south = Secret(b"n" * 32, PLAN), Secret(b"s" * 32, PLAN)
    batch, *blinding = timed("blinding", lambda: north.blind(identifiers))
    batch, *raising = timed("raising", lambda: south.raise_batch(batch))
    names, *finishing = timed("finishing", lambda: north.finish(batch))
    assert len(set(names)) == people
    assert all(len(name) == POINT for name in names[:1000])
    clock, busy = (sum(each) for each in zip(blinding, raising, finishing, strict=True))
    print(f"  together   {clock:7.1f} s, {busy:7.1f} s of processor")
    taken, most = busy / cores / 60, LIMIT_SECONDS_A_PERSON * people / 60
    good = taken <= most
    verdict = "met" if good else "MISSED"
    print(f"  minutes of {cores} busy cores: {taken:.2f} (limit {most:.3g}: {verdict})")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
