"""What a column seems to be: its type, whether it tells people apart, its labels.

A guess looks at the data, so nothing of it may be taken for public: bounds are never
guessed at all, and labels are marked as taken from the data.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sherd.tables.attribute import Role, Type
from sherd.tables.canonical_form import instants, is_text
from sherd.tables.local_forms import plain_forms, surely

MARKS = ("?", "-", ".", "NA", "N/A", "n/a", "na", "NaN", "nan", "NULL", "null", "None")
"""Texts that often stand for a missing cell."""

LISTED = 200
"""Up to so many different labels are listed."""

_SMALL = 10
_ID_NAME = re.compile(r"(?i)(^|[_\W])(id|uuid|guid|ssn|key|index|rowid|nr)$|^(id|uuid|guid)")


@dataclass(frozen=True, kw_only=True)
class Guess:
    """What a column seems to be, and why.

    ``taxonomy`` is a file that groups its labels; ``public`` says that ``values`` are declared
    and not taken from the data.
    """

    name: str
    type: Type
    role: Role = Role.QUASI_IDENTIFIER
    values: tuple[str, ...] | None = None
    marks: tuple[str, ...] = ()
    why: str = ""
    taxonomy: str | None = None
    public: bool = False


def guess(name: str, column: pa.ChunkedArray) -> Guess:
    """What a column seems to be."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    kind = column.type
    if column.null_count == len(column):
        return _apart(name, "every cell is missing")
    if is_text(kind):
        return _guess_text(name, column)
    if pa.types.is_dictionary(kind):
        try:
            return _guess_text(name, column.cast(kind.value_type).cast(pa.string()))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return _apart(name, f"values of the type {kind.value_type} cannot be treated")
    return _guess_typed(name, column)


def _apart(name: str, why: str) -> Guess:
    return Guess(name=name, type=Type.TEXT, role=Role.IDENTIFIER, why=why)


def _guess_typed(name: str, column: pa.ChunkedArray) -> Guess:
    test, kind = pa.types, column.type
    if test.is_boolean(kind):
        return Guess(name=name, type=Type.BOOLEAN)
    if test.is_date(kind):
        return Guess(name=name, type=Type.DATE)
    if test.is_timestamp(kind):
        return Guess(name=name, type=Type.DATETIME)
    if test.is_integer(kind) or (test.is_decimal(kind) and kind.scale == 0):
        return _guess_whole(name, column)
    if test.is_floating(kind) and _all_whole(column):
        return _guess_whole(name, column)
    if test.is_floating(kind) or test.is_decimal(kind):
        return Guess(name=name, type=Type.NUMBER)
    return _apart(name, f"values of the type {kind} cannot be treated")


def _all_whole(column: pa.ChunkedArray) -> bool:
    finite = pc.is_finite(column)
    whole = pc.equal(pc.floor(column), column)
    small = pc.less(pc.abs(column), 2.0**53)
    return pc.all(pc.and_(finite, pc.and_(whole, small))).as_py() is True


def _guess_whole(name: str, column: pa.ChunkedArray) -> Guess:
    present = column.drop_null()
    different = pc.count_distinct(present).as_py()
    if different == len(present) >= _SMALL:
        bounds = pc.min_max(present)
        counted = bounds["max"].as_py() - bounds["min"].as_py() == len(present) - 1
        if counted or _ID_NAME.search(name):
            return Guess(
                name=name,
                type=Type.INTEGER,
                role=Role.IDENTIFIER,
                why="no two rows have the same number: it counts or names them",
            )
    why = "few different numbers: if they are codes, make it a category" if different <= 5 else ""
    return Guess(name=name, type=Type.INTEGER, why=why)


def _guess_text(name: str, column: pa.ChunkedArray) -> Guess:
    ordered = pa.types.is_dictionary(column.type) and column.type.ordered
    order = _dictionary(column) if ordered else None
    plain = column.cast(pa.string()).drop_null()
    distinct = pc.unique(plain)
    present = tuple(mark for mark in MARKS if mark in set(distinct.to_pylist()))
    marks = pa.array(present, pa.string())
    rest = distinct.filter(pc.invert(pc.is_in(distinct, value_set=marks)))
    if not len(rest):  # nothing but marks: then they are labels
        rest, present, marks = distinct, (), pa.array([], pa.string())
    parsed = None if ordered else _parsed(rest)
    if parsed is not None:
        return Guess(name=name, type=parsed, marks=present)
    local = None if ordered else _parsed_locally(rest)
    if local is not None:
        return Guess(name=name, type=local[0], marks=present, why=local[1])
    rows = len(plain) - pc.sum(pc.is_in(plain, value_set=marks)).as_py()
    unread = "" if ordered else unread_form(rest)
    apart = unread or _tells_apart(rest, rows)
    if apart and not ordered:
        return Guess(name=name, type=Type.TEXT, role=Role.IDENTIFIER, marks=present, why=apart)
    labels = (
        [label for label in order if label not in present] if order else sorted(rest.to_pylist())
    )
    values = tuple(labels) if len(labels) <= LISTED else None
    kind = Type.ORDINAL if ordered else Type.CATEGORY
    return Guess(name=name, type=kind, values=values, marks=present)


def _dictionary(column: pa.ChunkedArray) -> list[str]:
    labels = column.unify_dictionaries().chunk(0).dictionary.to_pylist()
    return [label for label in labels if label is not None]


def _tells_apart(distinct: pa.Array, rows: int) -> str:
    """Why a column of text seems to name people; empty where it does not."""
    if len(distinct) == rows >= _SMALL:
        return "no two rows have the same text: it may name people"
    if len(distinct) > LISTED and len(distinct) * 2 > rows:
        return "most rows have a text of their own: it may name people"
    if pc.mean(pc.utf8_length(distinct)).as_py() > 60:
        return "long texts may name people"
    return ""


def _parsed_locally(distinct: pa.Array) -> tuple[Type, str] | None:
    """The type of texts with decimal commas or days as dd.mm.yyyy, and what was taken for what."""
    if surely(distinct):
        numbers = plain_forms(distinct, Type.NUMBER, sure=True)
        if _parsed(numbers) in (Type.NUMBER, Type.INTEGER):
            return Type.NUMBER, "commas are taken for decimal points"
    days = plain_forms(distinct, Type.DATE)
    kind = None if days.equals(distinct) else _parsed(days)
    if kind in (Type.DATE, Type.DATETIME):
        return kind, "read as day.month.year"
    return None


_SLASHED = r"^\d{1,2}/\d{1,2}/\d{4}([ T]\d{1,2}:\d\d(:\d\d)?( ?[AaPp][Mm])?)?$"
_THOUSANDS = r"^[+-]?\d{1,3}(,\d{3})*(\.\d+)?$"


def unread_form(distinct: pa.Array) -> str:
    """What texts seem to be that are not read as it, and what to write instead; empty if nothing.

    >>> unread_form(pa.array(["12/31/1999"]))
    'days with slashes, month first in some cells; write them as 1999-12-31, or make it a category'
    >>> "thousands" in unread_form(pa.array(["12,345", "7"]))
    True
    >>> unread_form(pa.array(["1/2"]))
    ''
    """
    if pc.all(pc.match_substring_regex(distinct, _SLASHED)).as_py():
        month_first = pc.any(pc.match_substring_regex(distinct, r"^\d+/(1[3-9]|[23]\d)/")).as_py()
        day_first = pc.any(pc.match_substring_regex(distinct, r"^(1[3-9]|[23]\d)/")).as_py()
        order = {
            (True, False): "month first in some cells",
            (False, True): "day first in some cells",
            (True, True): "day first in some cells and month first in others",
            (False, False): "whether day or month comes first cannot be told",
        }[bool(month_first), bool(day_first)]
        return f"days with slashes, {order}; write them as 1999-12-31, or make it a category"
    grouped = pc.all(pc.match_substring_regex(distinct, _THOUSANDS)).as_py()
    if grouped and pc.any(pc.match_substring(distinct, ",")).as_py():
        return "numbers with commas between thousands; write 12345, or make it a category"
    return ""


def _parsed(distinct: pa.Array) -> Type | None:
    """The type all texts can be read as, if it is not text."""
    # 007 is a code: a number would lose its zeros.
    if pc.any(pc.match_substring_regex(distinct, r"^[+-]?0\d")).as_py():
        return None
    shapes = (
        (Type.INTEGER, r"^[+-]?\d{1,18}$", pa.int64()),
        (Type.NUMBER, r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$", pa.float64()),
        (Type.BOOLEAN, r"^(true|false|True|False|TRUE|FALSE)$", pa.bool_()),
        (Type.DATE, r"^\d{4}-\d\d-\d\d$", pa.date32()),
        (Type.DATETIME, r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?$", pa.timestamp("ns")),
        (
            Type.DATETIME,
            r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d(:?\d\d)?)$",
            pa.timestamp("ns", "UTC"),
        ),
        (
            Type.DATETIME,  # some with a zone, some without
            r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?$",
            None,
        ),
    )
    for kind, shape, arrow in shapes:
        if not pc.all(pc.match_substring_regex(distinct, shape)).as_py():
            continue
        try:
            if arrow is None:
                instants(pa.chunked_array([distinct]))
            else:
                distinct.cast(arrow)
        except pa.ArrowInvalid:  # the 31st of February
            return None
        return kind
    return None
