"""The folder of an owner, an aggregator or a party: made once, with its settings in one file.

The settings are written last, so that a folder with settings is complete. They may hold a
password (in a database's address), so only their owner can read them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, TypeVar

from sherd.errors import StorageError, UsageError, did_you_mean
from sherd.tables.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")


def make_folder(folder: Path, settings_name: str, whose: str) -> None:
    """Make a new folder; refuses one that somebody's settings are in already."""
    if (folder / settings_name).exists():
        raise UsageError(
            f"this folder already belongs to {whose}", got=str(folder), do="choose another"
        )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"the folder of {whose} cannot be made", got=f"{folder}: {error.strerror}"
        ) from None


def write_settings(path: Path, settings: Any) -> None:
    """Write settings (a dataclass) down."""
    write_whole(path, (json.dumps(asdict(settings), indent=2) + "\n").encode(), mode=0o600)


def read_settings(path: Path, kind: type[T], whose: str, command: str) -> T:
    """The settings in a file, or an error that says which command writes them."""
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    try:
        data: dict[str, Any] = json.loads(path.read_bytes())
        for name in data:
            if name not in names:
                raise UsageError(
                    f"the settings of {whose} have an unknown entry",
                    must="one of " + ", ".join(names),
                    got=f"{name!r} in {path}",
                    do=did_you_mean(name, names) or "take it out",
                )
        return kind(**data)
    except OSError:
        raise UsageError(
            f"this is not {whose}'s folder",
            got=str(path.parent),
            do=f"set it up with `sherd {command} init`",
        ) from None
    except (ValueError, TypeError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(
            f"the settings of {whose} cannot be read",
            must="a JSON object with what `init` wrote",
            got=str(path),
            do="correct it, or restore it from a backup",
        ) from None
