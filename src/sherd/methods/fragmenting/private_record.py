"""The owner's private record of a release, without which no other can follow it.

It says which groups every tuple is in, so it is as secret as the table itself: it links
the parts that the release keeps apart. Values are in it as hashes only, to see whether a
tuple changed; somebody who knows the possible values can undo those.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import FormatError, StorageError, TableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    Marks = npt.NDArray[np.uint64]

_FORMAT = 2
_TEXTS = ("key", "release", "schema")
_RECORD = {"format", "keys", "groups", "withdrawn", "used", "marks", "seeded", "resting", *_TEXTS}


@dataclass(frozen=True, kw_only=True)
class Resting:
    """A tuple that is out of the release: where each of its parts was, and their hashes."""

    groups: tuple[int, ...]
    marks: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Which groups each tuple is in.

    ``keys`` identify tuples over time; ``groups[f]`` are released identifiers, -1 for a
    part that was withdrawn, or for all parts of a tuple that was held back. ``withdrawn`` are
    keys that must not come back, unless as they were: ``resting`` says how, for those whose parts
    were all withdrawn at once. ``used[f]`` identifiers were given out so far. ``marks[f]``
    are hashes of the parts; without them changed tuples are not noticed.

    ``key`` is the attribute the keys come from, ``release`` the hash of the release's
    manifest, ``schema`` that of its schema; ``seeded`` says that the groups can be
    reproduced by anybody who has the seed.
    """

    keys: tuple[str, ...]
    groups: npt.NDArray[np.int32]
    withdrawn: frozenset[str] = frozenset()
    resting: Mapping[str, Resting] = field(default_factory=dict)
    used: tuple[int, ...] = ()
    marks: Marks | None = None
    key: str = ""
    release: str = ""
    schema: str = ""
    seeded: bool = False

    def __post_init__(self) -> None:
        if len(set(self.keys)) != len(self.keys):
            raise TableError("a key occurs twice", must="one key for each tuple")
        if not self.used:
            counted = tuple(int(of_tuple.max(initial=-1)) + 1 for of_tuple in self.groups)
            object.__setattr__(self, "used", counted)

    @property
    def released(self) -> npt.NDArray[np.bool_]:
        """Which tuples have a part in the release."""
        return np.asarray((self.groups >= 0).any(axis=0))

    def of(self, release: str | Path) -> Kept:
        """The record with the hash of the release in that folder, which it belongs to."""
        from sherd.release.bundle import MANIFEST, digest, read_manifest

        read_manifest(Path(release))  # raises where there is none
        return self.belonging_to(digest(Path(release) / MANIFEST))

    def belonging_to(self, release: str) -> Kept:
        """The record with the sha256 of the release it belongs to."""
        return replace(self, release=release)

    def encoded(self) -> bytes:
        """The record as the bytes of a file."""
        data = {
            "format": _FORMAT,
            **{name: getattr(self, name) for name in _TEXTS},
            "seeded": self.seeded,
            "keys": list(self.keys),
            "groups": self.groups.tolist(),
            "withdrawn": sorted(self.withdrawn),
            "resting": {
                key: [list(was.groups), list(was.marks)] for key, was in self.resting.items()
            },
            "used": list(self.used),
            "marks": None if self.marks is None else self.marks.tolist(),
        }
        return json.dumps(data).encode()

    def save(self, path: str | Path) -> None:
        """Write the record for the owner's eyes only: it says who belongs with whom."""
        from sherd.tables.files import write_whole

        write_whole(Path(path), self.encoded(), mode=0o600)

    @classmethod
    def load(cls, path: str | Path) -> Kept:
        """Read the record that ``save`` wrote."""
        wrong = FormatError(
            "this is not the record of a release",
            must="a file that --record wrote",
            got=str(path),
        )
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UsageError(
                "the file does not exist", got=str(path), do="check the path"
            ) from None
        except OSError as error:
            raise StorageError("the file cannot be read", got=f"{path}: {error.strerror}") from None
        except ValueError:
            raise wrong from None
        if isinstance(data, dict) and data.get("format") == 1:
            data = {**data, "format": _FORMAT, "resting": {}}  # before tuples could come back
        if not isinstance(data, dict) or set(data) != _RECORD or data["format"] != _FORMAT:
            raise wrong
        try:
            return _read(data)
        except (TypeError, ValueError, OverflowError):
            raise wrong from None


def _read(data: dict[str, Any]) -> Kept:
    """The record in its own types; ValueError or TypeError where it does not hold together."""
    keys = tuple(data["keys"])
    groups = np.asarray(data["groups"], np.int32)
    marks = None if data["marks"] is None else np.asarray(data["marks"], np.uint64)
    whole = [used for used in data["used"] if type(used) is int]
    texts = [*keys, *data["withdrawn"], *(data[name] for name in _TEXTS)]
    resting = {
        key: Resting(groups=tuple(was[0]), marks=tuple(was[1]))
        for key, was in data["resting"].items()
    }
    numbers = [n for was in resting.values() for n in (*was.groups, *was.marks)]
    lengths = {len(part) for was in resting.values() for part in (was.groups, was.marks)}
    if (
        groups.ndim != 2
        or groups.shape[1] != len(keys)
        or (marks is not None and marks.shape != groups.shape)
        or len(whole) != len(data["used"])
        or len(whole) != len(groups)
        or (groups.max(axis=1, initial=-1) >= whole).any()
        or not all(isinstance(text, str) for text in texts)
        or not isinstance(data["seeded"], bool)
        or not all(type(number) is int for number in numbers)
        or not lengths <= {len(groups)}
        or not set(resting) <= set(data["withdrawn"])
    ):
        raise ValueError
    return Kept(
        keys=keys,
        groups=groups,
        withdrawn=frozenset(data["withdrawn"]),
        resting=resting,
        used=tuple(whole),
        marks=marks,
        seeded=data["seeded"],
        **{name: data[name] for name in _TEXTS},
    )


def marks_of(table: pa.Table, fragments: Sequence[Sequence[str]]) -> Marks:
    """A hash of every tuple's part in every fragment; parts alike have the same.

    Whole numbers have the same mark however they are stored, as have texts.
    """
    import pyarrow as pa

    from sherd.tables.coding import texts

    hashes = np.zeros((len(fragments), table.num_rows), np.uint64)
    for f, names in enumerate(fragments):
        columns = []
        for name in names:
            column = table.column(name).combine_chunks()
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            columns.append(texts(column))
        for row, part in enumerate(zip(*columns, strict=True)):
            short = hashlib.blake2b(repr(part).encode(), digest_size=8).digest()
            hashes[f, row] = int.from_bytes(short, "big")
    return hashes
