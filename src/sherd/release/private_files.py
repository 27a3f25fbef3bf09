"""Files for the owner's eyes only that are written together with a release.

They are written just before the release is published and undone where that fails, so that an
owner never has a row map or a record of a release that does not exist.

``CellKey`` is the key under which an owner's withheld cells are released, in a file of its own.

>>> key = CellKey.generate()
>>> key.derived(b"salt", b"cells") == key.derived(b"salt", b"cells")
True
>>> key.derived(b"salt", b"cells") == key.derived(b"other", b"cells")
False
"""

from __future__ import annotations

import contextlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from sherd.errors import FormatError, OutputExistsError, PlanError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sherd.release.bundle import Release
    from sherd.release.plan import Plan


MODE = 0o600


@dataclass(frozen=True, kw_only=True)
class PrivateFiles:
    """Where to write which input row stands behind each released row, and who is where.

    ``cell_key`` is the key that withheld cells are sealed under; where ``key_file`` is not there
    yet, it is written too.
    """

    row_map: Path | None = None
    record: Path | None = None
    key_file: Path | None = None
    cell_key: CellKey | None = field(default=None, repr=False)

    def check(self, releases: Iterable[Path], plan: Plan, *, force: bool) -> None:
        """Refuse a file that would be published, overwrite something, or stay empty."""
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
            (self.key_file, "the key", "it opens what is withheld and is the owner's alone"),
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
            if path.exists() and not force and path is not self.key_file:
                raise OutputExistsError(
                    f"{what} already exists",
                    got=str(path),
                    do="choose another file, or overwrite it with --force",
                )

    @contextlib.contextmanager
    def writing(self) -> Iterator[Callable[[Release], None]]:
        """A function that writes the files of a release; undone where the block fails."""
        with contextlib.ExitStack() as undo:
            yield lambda release: self._write(release, undo)

    def _write(self, release: Release, undo: contextlib.ExitStack) -> None:
        path, key = self.key_file, self.cell_key
        if path is not None and key is not None and not path.exists():
            key.save(path)
            undo.push(lambda _kind, error, _trace: _undo(path, None, error))
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
    """Write a private file; if the release is not made after all, restore what was there."""
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


_FORM = re.compile(rb"sherd-cell-key-1 ([0-9a-f]{64})\n")


@dataclass(frozen=True, kw_only=True)
class CellKey:
    """256 bits that never leave their owner; every release has keys of its own from them."""

    secret: bytes = field(repr=False)

    @classmethod
    def generate(cls) -> Self:
        """A new key."""
        return cls(secret=secrets.token_bytes(32))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a key; refused where others may read it too."""
        path = Path(path)
        try:
            open_to_others = path.stat().st_mode & 0o077
            text = path.read_bytes()
        except OSError as error:
            raise StorageError(
                "the key cannot be read", got=f"{path}: {error.strerror}", do="check the path"
            ) from None
        if open_to_others:
            raise StorageError(
                "other users can read the key",
                must="a file that only its owner can read",
                got=str(path),
                do=f"chmod 600 {path}",
            )
        form = _FORM.fullmatch(text)
        if form is None:
            raise FormatError(
                "the file does not hold a key", must="a file that `sherd fragment --cell-key` made",
                got=str(path),
            )  # fmt: skip
        return cls(secret=bytes.fromhex(form[1].decode()))

    @classmethod
    def load_or_generate(cls, path: str | Path) -> Self:
        """Read a key, or make one if there is no such file; a new key is not written yet."""
        return cls.load(path) if Path(path).exists() else cls.generate()

    def save(self, path: str | Path) -> None:
        """Write a new key, for its owner alone; none is ever written over."""
        from sherd.signing_keys import write_secret

        write_secret(Path(path), f"sherd-cell-key-1 {self.secret.hex()}\n".encode())

    def derived(self, salt: bytes, purpose: bytes) -> bytes:
        """The 256 bits for one purpose in the release of this salt."""
        return hmac.digest(self.secret, bytes([len(salt)]) + salt + purpose, "sha256")


def check_cell_key(plan: Plan, key: CellKey | None) -> None:
    """Raise if a plan releases ciphertext without a key, or a key has nothing to encrypt."""
    sealed = plan.parameters.get("withheld") == "ciphertext"
    if sealed and key is None:
        raise PlanError(
            "ciphertext needs your key",
            must="a key that you keep",
            do="give its file with --cell-key (in Python: Settings(cell_key=CellKey.load(…)))",
        )
    if key is not None and not sealed:
        raise PlanError(
            "a key was given, but there is nothing to encrypt with it",
            do="add the parameter 'withheld: ciphertext', or leave the key out",
        )
