"""Bringing a paid artefact to its place: by rename, once, durably.

The caller writes and syncs the artefact into a hidden folder beside its place; the charge
commits; the rename publishes. A process that dies between the last two has spent the
budget and left the artefact staged, and ``Ledger.recover`` does the rename for it.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sherd.budget.process import Life, current, life
from sherd.budget.storage import sync_folder
from sherd.errors import OutputExistsError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sherd.budget.entries import Pending

_finishing: set[tuple[str, int]] = set()
_lock = threading.Lock()


def publish(staged: Path, final: Path) -> None:
    """Rename a staged file or folder to its place, which must be free, and sync the folders."""
    if os.path.lexists(final):
        raise OutputExistsError(
            "the output is there already",
            got=str(final),
            do=f"move it away and recover the ledger; the paid artefact waits in {staged}",
        )
    try:
        staged.rename(final)
        for folder in {staged.parent, final.parent}:
            sync_folder(folder)
    except OSError as error:
        raise StorageError(
            "the paid artefact cannot be moved to its place",
            got=f"{staged} to {final}: {error.strerror}",
            do="check the disk and recover the ledger; it will not be charged again",
        ) from None


@contextmanager
def finishing(ledger: Path, index: int) -> Iterator[None]:
    """Tell the other threads of this process that one of them publishes this artefact."""
    key = (str(ledger), index)
    with _lock:
        _finishing.add(key)
    try:
        yield
    finally:
        with _lock:
            _finishing.discard(key)


def left_behind(ledger: Path, pending: Pending) -> bool:
    """Whether nobody is about to publish the artefact any more.

    A process that runs publishes what it charged by itself, so that recovering must keep
    its hands off; except for our own process, where we know which artefacts are in work.
    """
    with _lock:
        if (str(ledger), pending.index) in _finishing:
            return False
    return pending.process == current() or life(pending.process) is not Life.RUNNING
