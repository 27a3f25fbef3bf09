"""Small files: text and YAML in, bytes out whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from sherd.errors import FormatError, StorageError, UsageError


def read_text(path: Path) -> str:
    """The contents of a text file in UTF-8."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise UsageError("the file does not exist", got=str(path), do="check the path") from None
    except UnicodeDecodeError:
        raise FormatError("the file is not UTF-8 text", got=str(path)) from None
    except OSError as error:
        raise StorageError("the file cannot be read", got=f"{path}: {error.strerror}") from None


def read_yaml(path: Path, *, typed: bool = True) -> Any:
    """The contents of a YAML (or JSON) file.

    With ``typed=False`` every scalar stays the text that was written, so that a category
    called ``no`` or ``007`` is not turned into something else.
    """
    import yaml

    text = read_text(path)
    base = (
        getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        if typed
        else getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    )

    class Loader(base):  # type: ignore[misc,valid-type]
        """Refuses a key that is given twice, which YAML would silently let win."""

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        keys = [loader.construct_object(key) for key, _ in node.value]
        where = f"{path}, line {node.start_mark.line + 1}"
        seen: set[Any] = set()
        for key in keys:
            if not isinstance(key, Hashable):
                raise FormatError("a key is itself a list or a mapping", must="text", got=where)
            if key in seen:
                raise FormatError(f"the key '{key}' is given twice", got=where)
            seen.add(key)
        return {
            key: loader.construct_object(value, deep=True)
            for key, (_, value) in zip(keys, node.value, strict=True)
        }

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    try:
        check_unfolded(text)
        return yaml.load(text, Loader=Loader)  # noqa: S506 - a subclass of the safe loaders
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise FormatError("the file is not valid YAML", got=f"{path}{where}") from None


MOST_NODES = 2_000_000
"""Texts, lists and mappings that YAML may unfold to."""

DEEPEST = 100
"""How many lists and mappings may lie inside each other."""


def check_unfolded(text: str) -> None:
    """Refuse YAML whose aliases expand to far too many values, or that is nested without end."""
    import yaml

    sizes: dict[str, int] = {}
    opened: list[tuple[str | None, int]] = []
    nodes = 0
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.AliasEvent):
            # What is still open has no size yet: it would contain itself.
            nodes += sizes.get(str(event.anchor), MOST_NODES + 1)
        elif isinstance(event, yaml.ScalarEvent):
            nodes += 1
            sizes |= {event.anchor: 1} if event.anchor else {}
        elif isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, nodes))
            nodes += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            sizes |= {anchor: nodes - before} if anchor else {}
        if nodes > MOST_NODES or len(opened) > DEEPEST:
            raise FormatError(
                "the YAML expands to far too many values",
                must=f"at most {MOST_NODES:,} values, {DEEPEST} inside each other, none in itself",
            )


def write_whole(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write a file so that it is there completely or not at all, and survives a crash.

    ``mode`` is what the file may be used for by whom, from its first byte on.
    """
    path = Path(path)
    # Known before it is made, so that an interrupt meanwhile leaves nothing behind.
    name = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    try:
        make_folder(path.parent)
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        name.replace(path)
        sync_folder(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            name.unlink()
        if isinstance(error, OSError):
            raise StorageError(
                "the file cannot be written", got=f"{path}: {error.strerror}"
            ) from None
        raise


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, so that they survive a crash."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in missing:
        sync_folder(each.parent)


def sync_file(path: Path) -> None:
    """Force a file's contents to disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Force a folder's list of files to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
