"""Files for the owner's eyes only that are written together with a release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.errors import OutputExistsError, PlanError

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Iterable
    from pathlib import Path

MODE = 0o600


def check_private(
    path: Path | None, releases: Iterable[Path], *, what: str, why: str, force: bool
) -> None:
    """Refuse a private file that would be published, or overwrite something."""
    if path is None:
        return
    whole = path.resolve()
    if {folder.resolve() for folder in releases} & {whole, *whole.parents}:
        raise PlanError(
            f"{what} would lie inside the release",
            must=f"outside the folders of releases: {why}",
            got=str(path),
        )
    if path.exists() and not force:
        raise OutputExistsError(
            f"{what} is there already",
            got=str(path),
            do="choose another, or overwrite it with --force",
        )


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
