"""Bringing a paid artefact to its place: opened, then by rename, once, durably.

The caller writes and syncs the artefact into a hidden folder beside its place, sealed under a key
(see ``sealed_folder``); the charge commits and keeps the key; opening and the rename publish. A
process that dies between has spent the budget and left the artefact staged, and
``Ledger.recover`` does the rest for it. One that dies before the charge has left noise, which is
deleted with its reservation.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sherd.budget import rows, storage
from sherd.budget.process import Life, current, life
from sherd.budget.sealed_folder import unseal
from sherd.errors import OutputExistsError, SherdError, StorageError, VerificationError
from sherd.tables.files import sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from sherd.budget.entries import Pending

_finishing: set[tuple[str, int]] = set()
_lock = threading.Lock()


def publish(staged: Path, final: Path, key: str | None = None) -> None:
    """Move what is staged to its place, which must be free, opened by its key; sync the folders."""
    if os.path.lexists(final):
        raise OutputExistsError(
            "the output already exists",
            got=str(final),
            do=f"move it away and recover the ledger; the paid artefact waits in {staged}",
        )
    try:
        if key is None:
            staged.rename(final)
        else:
            opened = unseal(staged, key)
            try:
                opened.rename(final)
            except BaseException:
                shutil.rmtree(opened, ignore_errors=True)
                raise
        for folder in {staged.parent, final.parent}:
            sync_folder(folder)
        if key is not None:  # not before its successor is on disk
            shutil.rmtree(staged, ignore_errors=True)
    except OSError as error:
        raise StorageError(
            "the paid artefact cannot be moved to its place",
            got=f"{staged} to {final}: {error.strerror}",
            do="check the disk and recover the ledger; it will not be charged again",
        ) from None


def clear(stagings: Iterable[Path]) -> None:
    """Delete what was staged and never paid for, including what was opened in part."""
    for path in stagings:
        for left in (path, *path.parent.glob(path.name.replace(".staged-", ".opened-") + ".*")):
            shutil.rmtree(left, ignore_errors=True)


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


def recover(ledger: Path, digest: Callable[[Path], str]) -> list[Path]:
    """Publish what was left behind; see ``Ledger.recover``."""
    with storage.reading(ledger) as db:
        waiting = rows.unpublished(db)
    done: list[Path] = []
    problems: list[str] = []
    later = True
    for pending in waiting:
        if not left_behind(ledger, pending):
            continue
        try:
            if _recover(ledger, pending, digest):
                done.append(pending.final)
        except (SherdError, OSError) as error:
            problems.append(f"row {pending.index}: {error}")
            later &= _want_of_room(error)  # the same call may succeed later
    if problems:
        raise (StorageError if later else VerificationError)(
            f"{len(problems)} paid artefact(s) could not be published, {len(done)} were",
            got=" | ".join(problems),
        )
    return done


def _want_of_room(error: Exception) -> bool:
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    return full or isinstance(error, StorageError)


def _recover(ledger: Path, pending: Pending, digest: Callable[[Path], str]) -> bool:
    """Whether the artefact was put in its place now."""
    staged = os.path.lexists(pending.staged)
    in_place = os.path.lexists(pending.final) and digest(pending.final) == pending.artefact
    if staged and pending.key is not None and in_place:
        shutil.rmtree(pending.staged, ignore_errors=True)  # opened, moved, and then interrupted
        staged = False
    # Outside the transaction: reading a large artefact must not hold up other processes.
    if staged and _digest(pending, digest) != pending.artefact:
        raise VerificationError(
            "the staged artefact is not the one that was paid for",
            got=str(pending.staged),
            do="it was changed after the charge; do not publish it",
        )
    if not staged and not in_place:
        raise VerificationError(
            "the paid artefact is neither staged nor in its place",
            got=f"{pending.staged}, {pending.final}",
            do="put it back, or mark it as published if it was moved on purpose",
        )
    with storage.writing(ledger) as db:
        if pending not in rows.unpublished(db):
            return False  # another process was faster
        if staged:
            publish(pending.staged, pending.final, pending.key)
        if pending.key is not None:
            clear([pending.staged])  # also what a dead process had half opened
        rows.mark_published(db, pending.index)  # if not staged, only this note was missing
    return staged


def _digest(pending: Pending, digest: Callable[[Path], str]) -> str:
    """The hash of what is staged; a sealed folder is opened for the moment."""
    if pending.key is None:
        return digest(pending.staged)
    opened = unseal(pending.staged, pending.key)
    try:
        return digest(opened)
    finally:
        shutil.rmtree(opened, ignore_errors=True)
