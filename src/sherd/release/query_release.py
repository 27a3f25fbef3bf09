"""``sherd.query``: SQL over a release whose method can answer it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sherd.errors import UsageError, VerificationError
from sherd.release.bundle import Release, digest
from sherd.release.method import traits_of
from sherd.release.private_files import CellKey
from sherd.release.traits import loaded

if TYPE_CHECKING:
    from collections.abc import Mapping


def query(
    release: Release | str | Path,
    sql: str,
    *,
    own: Mapping[str, Any] | None = None,
    key: CellKey | str | Path | None = None,
) -> Any:
    """Answer SQL over a release of fragments or of measured counts; it says what it is worth.

    ``release`` is what ``protect`` gave, or the folder of a bundle, whose files must be as they
    were released. One view is called ``release``; ``own`` are tables of yours to join, by name.
    ``key`` is the owner's key of the withheld attributes' ciphertext, or its file: with it, all
    attributes are answered about, exactly.
    """
    if not isinstance(release, Release):
        release = _unchanged(Path(release))
    traits = traits_of(release.manifest)
    if traits is None or traits.query is None:
        raise UsageError(
            "this release has neither fragments nor measured counts to answer from",
            do="open its data file with any SQL tool",
        )
    more: dict[str, Any] = {"documents": release.documents} if traits.documents else {}
    if key is not None:
        if "ciphertext" not in release.manifest.get("facts", {}):
            raise UsageError("this release has no ciphertext", do="leave out the key")
        more["key"] = key if isinstance(key, CellKey) else CellKey.load(key)
    return loaded(traits.query)(release.tables, release.manifest, sql, own=own, **more)


def _unchanged(folder: Path) -> Release:
    """A bundle; refused where a file is not as it was released: answers would be called exact."""
    release = Release.load(folder)
    for name, facts in release.manifest["files"].items():
        if digest(folder / name) != facts["sha256"]:
            raise VerificationError(
                f"the file '{name}' is not as it was released",
                got=str(folder),
                do="get the release again; `sherd verify` says more",
            )
    return release
