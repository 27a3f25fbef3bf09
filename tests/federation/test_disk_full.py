"""Full disks under owner and aggregator: the kernel says so, nothing is lost or spent twice."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from processes import Village, add_owners, wait_until
from room import fill, free, largest_file, may_mount, small_disk
from spawning import spawn

from sherd.errors import StorageError
from sherd.federation.protocol.joint_plan import Kind
from sherd.federation.protocol.states import RoundState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROWS = 60_000
"""So many that an artefact is larger than anything else an owner has."""


class Disk:
    """The disk under one of the parties, to be filled and emptied while it runs."""

    def __init__(self, village: Village, who: str, folder: Path, *, mounted: bool) -> None:
        self._village, self._who, self._folder, self._mounted = village, who, folder, mounted

    def fill(self, leave: int = 0) -> None:
        """Leave so much room."""
        if self._mounted:
            fill(self._folder, leave=leave)
            return
        # What the process says still has room in its log, less than a page of its journal; what
        # is there may be written again where there is room.
        said = max(log.stat().st_size for log in self._village.logs)
        home = self._village.homes.get(self._who)  # beside it lies the table, which is only read
        written = self._village.folder / self._who if home is None else home.folder
        most = said + 8192 if leave == 0 else largest_file(written) + leave
        self._village.running[self._who].limit_files(most)

    def free(self) -> None:
        """Give the room back."""
        process = self._village.running[self._who]
        if self._mounted:
            free(self._folder)
        elif process.poll() is None:
            process.limit_files(None)


MEANS = ["file system", "limit"] if may_mount() else ["limit"]


@contextlib.contextmanager
def disk_of(folder: Path, who: str, below: str, means: str) -> Iterator[tuple[Village, Disk]]:
    """A village, and the disk that one party's folder (or a part of it) is on."""
    mounted = means == "file system"
    place = folder / who / below
    with contextlib.ExitStack() as stack:
        if mounted:
            (folder / who).mkdir()
            # Larger than the write-ahead log of the aggregator becomes (1000 pages of 16 KiB).
            stack.enter_context(small_disk(place, 64))
        village = Village(folder)
        stack.callback(village.close)
        add_owners(village, Kind.HORIZONTAL, ROWS)
        village.start_all()
        for log in village.logs[1:]:
            wait_until(lambda log=log: "calls" in log.read_text(), "the agent runs")  # type: ignore[misc]
        yield village, Disk(village, who, place, mounted=mounted)


@pytest.mark.parametrize("means", MEANS)
def test_full_disk_under_an_owner(quick_path: Path, means: str) -> None:
    """The agent ends with exit code 5 and says why; started again with room, it goes on."""
    with disk_of(quick_path, "north", "home", means) as (village, disk):
        disk.fill()
        process, log = village.running["north"], village.logs[1]
        village.open_round()
        assert process.wait(60) == 5
        said = log.read_text()
        assert "error: the owner's journal cannot be read or written" in said
        assert "check that the disk has room" in said
        assert village.charges("south") == []
        disk.free()
        assert village.charges("north") == []
        village.start("north")
        village.check_released()


@pytest.mark.parametrize("means", MEANS)
def test_full_disk_under_an_outbox(quick_path: Path, means: str) -> None:
    """An artefact that finds no room is not paid for and leaves nothing; then it is made."""
    with disk_of(quick_path, "north", "home/outbox", means) as (village, disk):
        disk.fill(leave=100_000)
        village.open_round()
        wait_until(lambda: "could not protect" in village.audit("north"), "the disk is full", 60)
        assert village.charges("north") == []
        process, outbox = village.running["north"], village.homes["north"].outbox
        left = [path.name for path in outbox.iterdir() if path.name != "filler"]
        assert [name for name in left if not name.startswith(".")] == []
        disk.free()
        village.check_released()
        assert process.poll() is None, "the agent waited for room"


@pytest.mark.parametrize("means", MEANS)
def test_full_disk_under_the_aggregator(quick_path: Path, means: str) -> None:
    """The service says that it has no room and takes nothing in; with room the round goes on."""
    with disk_of(quick_path, "aggregator", "", means) as (village, disk):
        village.open_round()
        disk.fill(leave=0 if means == "file system" else 1)
        log = village.logs[0]
        wait_until(lambda: '"code": "storage"' in log.read_text(), "the service says so", 60)
        assert '"status": 503' in log.read_text()
        if means == "file system":
            home = str(village.premises.folder)
            command = ["aggregator", "round", "open", "r2", "--home", home, "--kind", "horizontal"]
            command += ["--owner", "north", "-m", "dp-um", "-e", "1", "-k", "3"]
            told = village.folder / "told.log"
            assert spawn(command, told).wait(60) == 5
            assert "error: the aggregator's database has no room left" in told.read_text()
        disk.free()
        village.check_released()
        assert village.running["aggregator"].poll() is None, "the service waited for room"
        store = village.premises.store()
        assert [each.id for each in store.rounds()] == ["r1"]
        store.close()


# A limit on the size of files cannot tell a release from the database that it comes from, nor
# count the room that is left: these need a file system, and are not there without one.
if may_mount():

    def test_full_disk_under_the_releases(quick_path: Path) -> None:
        """A release that finds no room leaves nothing behind; with room it is published, once."""
        with disk_of(quick_path, "aggregator", "releases", "file system") as (village, disk):
            disk.fill(leave=40_000)
            village.open_round()
            log = village.logs[0]
            wait_until(lambda: '"code": "storage"' in log.read_text(), "the service says so", 60)
            # deliveries are looked at where the release is made: without room they are not taken
            assert village.round().state in (RoundState.COLLECTING, RoundState.ASSEMBLING)
            disk.free()
            village.check_released()

    @pytest.mark.slow
    @pytest.mark.parametrize("who", ["north", "aggregator"])
    def test_every_amount_of_room(quick_path: Path, who: str) -> None:
        """Wherever the room ends in a round, the round is released once there is some again."""
        failed = 0
        below = "" if who == "aggregator" else "home"
        with disk_of(quick_path, who, below, "file system") as (village, disk):
            for number in range(8):
                name = f"r{number}"
                village.open_round(name)
                disk.fill(leave=number * 96 * 1024)
                # A database on a full disk cannot always be opened, and then nothing was released.
                with contextlib.suppress(AssertionError, StorageError):
                    village.wait(name, 4.0)
                failed += 1
                with contextlib.suppress(StorageError):
                    failed -= village.round(name).state is RoundState.RELEASED
                disk.free()
                if village.running[who].poll() is not None:
                    assert village.running[who].returncode == 5
                    village.start(who)
                village.check_released(name)
                assert len(village.charges("north")) == number + 1
        assert failed >= 2
