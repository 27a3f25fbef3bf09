"""Frozen values to plain data and back, strictly.

Everything that travels between owners and aggregator, or is kept between two starts of a
process, is a dataclass of plain fields. Reading one back accepts exactly what writing gives:
no unknown key, no missing key, no other type. Messages of errors name fields, never contents.
A field that a later version added (``metadata=LATER``, None by default) is written only where
it is given, so that what an earlier version wrote is still read, and hashed, as it was.

>>> @dataclasses.dataclass(frozen=True, kw_only=True)
... class Point:
...     x: int
...     tags: tuple[str, ...] = ()
>>> to_data(Point(x=1, tags=("a",)))
{'x': 1, 'tags': ['a']}
>>> from_data(Point, {"x": 1, "tags": ["a"]}) == Point(x=1, tags=("a",))
True
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import types
import typing
from enum import StrEnum
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from sherd.errors import PeerError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

MOST_ITEMS = 1_000_000
"""The most items a list or mapping may have."""

LATER = types.MappingProxyType({"sherd.later": True})
"""The metadata of a field that an earlier version did not know; its default is None."""


def canonical(data: Any) -> bytes:
    """The one way a value is written as JSON: sorted keys, no spaces, ASCII.

    >>> canonical({"b": 1, "a": 2})
    b'{"a":2,"b":1}'
    """
    return json.dumps(
        data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    ).encode("ascii")


FREE_CONTAINERS, CONTAINER_BYTES = 4096, 16
"""The lists and mappings that JSON may have whatever its length, and its bytes for each further."""


def read_json(raw: bytes) -> Any:
    """Plain data of JSON that somebody else wrote; ValueError for what is none.

    Every list and mapping takes some 60 bytes, and two or three to write: there are so few in
    what we write that the data takes less than ten times the bytes that came. Half a letter (a
    surrogate alone) is no text: it could not be written down or shown.

    >>> read_json(b"[1]")
    [1]
    """
    containers = raw.count(b"{") + raw.count(b"[")
    if containers > FREE_CONTAINERS + len(raw) // CONTAINER_BYTES:
        raise ValueError
    try:
        data = json.loads(raw, parse_constant=_no_constant)
        if not raw.isascii() or b"\\ud" in raw.lower():
            json.dumps(data, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError from None
    return data


def _no_constant(_name: str) -> NoReturn:
    raise ValueError("no such constant")


def digest(data: Any) -> str:
    """The sha256 of a value's canonical form."""
    return hashlib.sha256(canonical(data)).hexdigest()


_TEXT = "_canonical_text"


def canonical_text(value: Any) -> str:
    """``canonical(to_data(value))`` as text, without building the plain data in between.

    A frozen value is written once and remembers its text: a round of many owners is written
    down at every message, and nearly all of it is offers, plan and deliveries that never
    change. (A mapping inside a frozen value is not changed either, by convention.)

    >>> canonical_text({"b": (1, None), "a": True})
    '{"a":true,"b":[1,null]}'
    """
    kind = type(value)
    if kind is str:
        return encode_basestring_ascii(value)
    if kind is int:
        return int.__repr__(value)
    if value is None:
        return "null"
    if hasattr(kind, "__dataclass_fields__"):
        return _text_of_dataclass(kind, value)
    if kind is dict:
        items = sorted((str(key), item) for key, item in value.items())
        pairs = [f"{encode_basestring_ascii(key)}:{canonical_text(item)}" for key, item in items]
        return "{" + ",".join(pairs) + "}"
    if kind is tuple or kind is list:
        return "[" + ",".join([canonical_text(item) for item in value]) + "]"
    if isinstance(value, StrEnum):
        return encode_basestring_ascii(value.value)
    return json.dumps(value, allow_nan=False)


@functools.cache
def _later(kind: type) -> frozenset[str]:
    """The names of the fields that are written only where they are given."""
    return frozenset(f.name for f in dataclasses.fields(kind) if "sherd.later" in f.metadata)


def _given(value: Any) -> list[str]:
    """The names of a dataclass's fields that are written, in order."""
    kind: type = type(value)
    later = _later(kind)
    return [
        f.name
        for f in dataclasses.fields(value)
        if f.name not in later or getattr(value, f.name) is not None
    ]


@functools.cache
def _written_names(kind: type) -> tuple[bool, tuple[tuple[str, str], ...]]:
    names = sorted(f.name for f in dataclasses.fields(kind))
    frozen = bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]
    return frozen, tuple((name, f"{encode_basestring_ascii(name)}:") for name in names)


def _text_of_dataclass(kind: type, value: Any) -> str:
    frozen, names = _written_names(kind)
    if frozen:
        known: str | None = value.__dict__.get(_TEXT)
        if known is not None:
            return known
    if _later(kind):
        written = set(_given(value))
        names = tuple(pair for pair in names if pair[0] in written)
    parts = (
        "{" + ",".join([key + canonical_text(getattr(value, name)) for name, key in names]) + "}"
    )
    if frozen:
        object.__setattr__(value, _TEXT, parts)
    return parts


def to_data(value: Any) -> Any:
    """A value as plain data that JSON can hold."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: to_data(getattr(value, name)) for name in _given(value)}
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, (tuple, list)):
        return [to_data(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_data(item) for key, item in value.items()}
    return value


def from_data(cls: type[T], data: Any) -> T:
    """The value that ``to_data`` wrote; PeerError where the data is anything else."""
    kind: Any = cls
    try:
        value = _reader(kind)(data)
    except _UnfitError as unfit:
        raise PeerError(
            f"the field '{cls.__name__}{unfit.place}' is not valid", must=unfit.must
        ) from None
    assert isinstance(value, cls)
    return value


class _UnfitError(Exception):
    """Data that is not of its kind; ``place`` grows on the way out, from the innermost field."""

    def __init__(self, must: str) -> None:
        self.must, self.place = must, ""


@functools.cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """A function that reads one kind of value, put together once."""
    origin = typing.get_origin(kind)
    if kind is Any:
        return _shallow
    if origin in (types.UnionType, typing.Union):
        (part,) = [each for each in typing.get_args(kind) if each is not type(None)]
        inner = _reader(part)
        return lambda data: None if data is None else inner(data)
    if origin is tuple or origin is dict:
        return _reader_of_many(origin, _reader(typing.get_args(kind)[-1 if origin is dict else 0]))
    if dataclasses.is_dataclass(kind):
        return _reader_of_dataclass(kind)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        members = {member.value: member for member in kind}

        def read_member(data: Any) -> Any:
            if type(data) is not str or data not in members:
                raise _UnfitError("one of " + ", ".join(members))
            return members[data]

        return read_member
    must = {int: "a whole number", str: "text", bool: "true or false"}.get(kind, "a number")

    def read_plain(data: Any) -> Any:
        if type(data) is not kind:  # a bool is no whole number here
            raise _UnfitError(must)
        return data

    return read_plain


MOST_NESTED = 32
"""How deep data of no particular kind may be nested: it is written by a function that calls itself,
and what could be read but not written down would stop whoever read it."""


def _shallow(data: Any, depth: int = 0) -> Any:
    if depth > MOST_NESTED:
        raise _UnfitError(f"nested at most {MOST_NESTED} deep")
    if type(data) is dict or type(data) is list:
        for each in data.values() if type(data) is dict else data:
            _shallow(each, depth + 1)
    return data


def _reader_of_many(origin: type, inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read_list(data: Any) -> Any:
        if type(data) is not list or len(data) > MOST_ITEMS:
            raise _UnfitError("a list")
        try:
            return tuple([inner(each) for each in data])
        except _UnfitError as unfit:
            unfit.place = f"[]{unfit.place}"
            raise

    def read_mapping(data: Any) -> Any:
        if type(data) is not dict or len(data) > MOST_ITEMS:
            raise _UnfitError("a mapping")
        for key in data:
            if type(key) is not str:
                raise _UnfitError("a mapping of texts")
        try:
            return {key: inner(each) for key, each in data.items()}
        except _UnfitError as unfit:
            unfit.place = f".*{unfit.place}"
            raise

    return read_list if origin is tuple else read_mapping


def _reader_of_dataclass(kind: Any) -> Callable[[Any], Any]:
    hints = typing.get_type_hints(kind)
    later = _later(kind)
    readers = {f.name: _reader(hints[f.name]) for f in dataclasses.fields(kind)}
    usual = readers.keys() - later

    def read_dataclass(data: Any) -> Any:
        if type(data) is not dict:
            raise _UnfitError("a mapping")
        if data.keys() != usual:
            given = usual | {name for name in later if data.get(name) is not None}
            if data.keys() != given:
                names = [name for name in readers if name in given]
                raise _UnfitError("a mapping of exactly " + ", ".join(names))
        fields = {}
        for name, inner in readers.items():
            if name in data:
                try:
                    fields[name] = inner(data[name])
                except _UnfitError as unfit:
                    unfit.place = f".{name}{unfit.place}"
                    raise
        try:
            return kind(**fields)
        except PeerError:
            raise
        except UsageError as error:
            # A value's own checks speak of parameters only, so their words may travel on.
            raise PeerError(error.what, must=error.must) from None

    return read_dataclass
