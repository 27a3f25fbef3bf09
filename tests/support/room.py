"""Disks that are really full: a small file system in memory, or files that may not grow.

The errors come from the kernel. Where mounting is refused, the limit on the size of a
process's files (``RLIMIT_FSIZE``) takes the place of the file system.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FILLER = "filler"


@functools.cache
def may_mount() -> bool:
    """Whether file systems can be mounted here."""
    if os.geteuid() != 0:
        return False
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.suppress(OSError, subprocess.SubprocessError),
        small_disk(Path(folder), 1),
    ):
        return True
    return False


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """A file system of that size in the place of the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={megabytes}m,mode=700"
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, timeout=30)


def fill(folder: Path, *, leave: int = 0) -> None:
    """Leave so many bytes of the folder's file system, in whole pages, while others write."""
    with (folder / FILLER).open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while (spare := _room(folder) - leave) > 0 or leave == 0:
            file.write(bytes(min(max(spare, 4096), 1 << 16)))


def _room(folder: Path) -> int:
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize


def free(folder: Path) -> None:
    """Give the room back."""
    (folder / FILLER).unlink()


def largest_file(folder: Path) -> int:
    """The size of the largest file in a folder."""
    return max(path.stat().st_size for path in folder.rglob("*") if path.is_file())
