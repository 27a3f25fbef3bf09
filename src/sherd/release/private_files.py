"""Files for the owner's eyes only that are written together with a release.

They are written just before the release is published and undone where that fails, so that an
owner never has a row map or a record of a release that does not exist.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sherd.errors import OutputExistsError, PlanError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from sherd.release.bundle import Release
    from sherd.release.plan import Plan

MODE = 0o600


@dataclass(frozen=True, kw_only=True)
class PrivateFiles:
    """Where to write which input row stands behind each released row, and who is where."""

    row_map: Path | None = None
    record: Path | None = None

    def check(self, releases: Iterable[Path], plan: Plan, *, force: bool) -> None:
        """Refuse a file that would be published, overwrite something, or have nothing to say."""
        if self.row_map is not None and not plan.spec.traits.has_row_map(plan.parameters):
            raise PlanError(
                f"a row map was asked for, but rows of '{plan.method}' come from no single record",
                do="leave out the row map (--row-map)",
            )
        folders = {folder.resolve() for folder in releases}
        for path, what, why in (
            (self.row_map, "the row map", "it undoes the shuffling and is the owner's alone"),
            (
                self.record,
                "the record",
                "it links what the fragments keep apart and is the owner's alone",
            ),
        ):
            if path is None:
                continue
            whole = path.resolve()
            if folders & {whole, *whole.parents}:
                raise PlanError(
                    f"{what} would lie inside the release",
                    must=f"outside the folders of releases: {why}",
                    got=str(path),
                )
            if path.exists() and not force:
                raise OutputExistsError(
                    f"{what} is there already",
                    got=str(path),
                    do="choose another file, or overwrite it with --force",
                )

    @contextlib.contextmanager
    def writing(self) -> Iterator[Callable[[Release], None]]:
        """A function that writes the files of a release; undone where the block fails."""
        with contextlib.ExitStack() as undo:
            yield lambda release: self._write(release, undo)

    def _write(self, release: Release, undo: contextlib.ExitStack) -> None:
        if self.row_map is not None:
            write_private(self.row_map, row_map_of(release), undo)
        if self.record is not None and release.record is not None:
            write_private(self.record, release.record.encoded(), undo)


def row_map_of(release: Release) -> bytes:
    """The private permutation as CSV: the input row behind each released row, from 0."""
    assert release.order is not None, "the method declares that it has one"
    lines = "".join(f"{place},{row}\n" for place, row in enumerate(release.order.tolist()))
    return f"released_row,input_row\n{lines}".encode()


def write_private(path: Path, data: bytes, undo: contextlib.ExitStack) -> None:
    """Write a private file; where the release is not made after all, it is as it was before."""
    from sherd.tables.files import write_whole

    before = path.read_bytes() if path.is_file() else None
    write_whole(path, data, mode=MODE)
    undo.push(lambda _kind, error, _trace: _undo(path, before, error))


def _undo(path: Path, before: bytes | None, error: BaseException | None) -> None:
    from sherd.release.protect import PAID
    from sherd.tables.files import write_whole

    if error is None or PAID in getattr(error, "__notes__", ()):
        return
    if before is None:
        path.unlink(missing_ok=True)
    else:
        write_whole(path, before, mode=MODE)
