"""Work that many threads bring is done together, and every one learns how it went."""

from __future__ import annotations

import threading
import time

import pytest

from sherd.federation.aggregator.batching import Together


def test_what_piles_up_is_done_at_once() -> None:
    """While one call runs, later jobs wait and are then done in one call, each once."""
    calls: list[list[int]] = []
    begun, go_on = threading.Event(), threading.Event()

    def work(_key: str, jobs: list[int]) -> None:
        calls.append(jobs)
        begun.set()
        assert go_on.wait(10)

    together = Together(work)
    threads = [threading.Thread(target=together.do, args=("r1", 0))]
    threads[0].start()
    assert begun.wait(10)
    threads += [threading.Thread(target=together.do, args=("r1", n)) for n in range(1, 9)]
    for thread in threads[1:]:
        thread.start()
    until = time.monotonic() + 10
    while len(together._waiting.get("r1", [])) < 8 and time.monotonic() < until:
        time.sleep(0.01)
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert [sorted(jobs) for jobs in calls] == [[0], list(range(1, 9))]


def test_an_error_is_everybodys_and_the_next_begins_afresh() -> None:
    """A call that fails fails for those whose jobs it had, and for nobody after them."""

    def work(_key: str, jobs: list[str]) -> None:
        if "bad" in jobs:
            raise OSError("disk full")

    together = Together(work)
    with pytest.raises(OSError, match="disk full"):
        together.do("r1", "bad")
    together.do("r1", "good")


def test_rounds_do_not_wait_for_each_other() -> None:
    """Jobs of another key are done while one is busy."""
    go_on = threading.Event()

    def work(key: str, _jobs: list[int]) -> None:
        if key == "slow":
            assert go_on.wait(10)

    together = Together(work)
    thread = threading.Thread(target=together.do, args=("slow", 1))
    thread.start()
    together.do("fast", 2)
    assert thread.is_alive()
    go_on.set()
    thread.join(10)
    assert not thread.is_alive()
