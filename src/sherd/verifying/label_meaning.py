"""Released labels and what they stand for: how likely a condition holds, and samples.

A release's book says for each label of an attribute either a range (``low``, ``high``,
``closed``) or a list of ``values``, and ``missing`` where it covers missing cells too. A
label without an entry is a value. Within a label values count as equally likely; a range
that covers missing cells as well counts as the range.

``fit`` checks that a manifest's books say what the released labels say. A range is written out in
its label, a list of values in its label or in the schema's taxonomy, so neither can be changed by
itself. Only the label for every value (``*``) leaves open what it stands for; its entry is held
against the schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.randomness import Randomness


Book = Mapping[str, Mapping[str, Any]]
"""For every label that is not a value what it stands for."""

_FINE = 2**53


class Condition(Protocol):
    """What a value may satisfy."""

    def holds(self, value: Any) -> bool:
        """Whether it does."""


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """What one label stands for: a list of values, or a range of a measured attribute."""

    values: tuple[Any, ...] = ()
    low: Any = None
    high: Any = None

    def chance(self, condition: Condition, kind: str) -> float:
        """The share of the label's values that satisfy a condition."""
        if self.low is None:
            return sum(condition.holds(value) for value in self.values) / len(self.values)
        if not hasattr(condition, "low"):
            return self._share_of_values(condition, kind)
        low, high = condition.low, getattr(condition, "high", None)
        start = self.low if low is None else max(self.low, low)
        end = self.high if high is None else min(self.high, high)
        if start > end:
            return 0.0
        if kind in ("integer", "date"):
            step: Any = 1 if kind == "integer" else timedelta(days=1)
            return float((end - start + step) / (self.high - self.low + step))
        if self.high == self.low:
            return 1.0
        return float((end - start) / (self.high - self.low))

    def _share_of_values(self, condition: Condition, kind: str) -> float:
        inside = sum(
            self.low <= value <= self.high
            for value in getattr(condition, "of", ())
            if value is not None
        )
        if kind not in ("integer", "date"):
            return float(bool(inside)) if self.low == self.high else 0.0
        step: Any = 1 if kind == "integer" else timedelta(days=1)
        return float(inside / ((self.high - self.low + step) / step))


def parsed(text: str, kind: str) -> Any:
    """A value of a book or a plain label, in the attribute's own kind.

    >>> parsed("17", "integer"), parsed("true", "boolean"), parsed("2020-01-31", "date")
    (17, True, datetime.date(2020, 1, 31))
    """
    if kind == "integer":
        return int(text)
    if kind == "number":
        return float(text)
    if kind == "boolean":
        return text == "true"
    if kind == "date":
        return date.fromisoformat(text)
    return datetime.fromisoformat(text) if kind == "datetime" else text


def _text(cell: Any) -> str | None:
    """A label as it was released, also where a file's reader took it for a value."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return None if cell is None else str(cell)


def meaning(label: str | None, book: Book, kind: str) -> Meaning:
    """What a label stands for."""
    if label is None:
        return Meaning(values=(None,))
    if label not in book:
        return Meaning(values=(parsed(label, kind),))
    said = book[label]
    if "low" in said:
        return Meaning(low=parsed(str(said["low"]), kind), high=parsed(str(said["high"]), kind))
    listed = [parsed(str(value), kind) for value in said.get("values", ())]
    return Meaning(values=(*listed, *((None,) if said.get("missing") else ())))


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """A released column: its distinct cells' meanings, and which row has which."""

    column: pa.ChunkedArray
    kind: str
    of_row: NDArray[np.int64]
    meanings: tuple[Meaning, ...]
    generalised: bool

    @classmethod
    def of(cls, column: pa.ChunkedArray, book: Book | None, kind: str = "category") -> Labelled:
        """A column with its book; None where its cells are values as they are."""
        plain = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if pa.types.is_dictionary(plain.type):
            plain = plain.cast(plain.type.value_type)
        encoded = plain.dictionary_encode(null_encoding="encode")
        cells = encoded.dictionary.to_pylist()
        if book is None:
            meanings = tuple(Meaning(values=(cell,)) for cell in cells)
        else:
            meanings = tuple(meaning(_text(cell), book, kind) for cell in cells)
        return cls(
            column=column,
            kind=kind,
            of_row=np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64),
            meanings=meanings,
            generalised=book is not None,
        )

    def chances(self, condition: Condition) -> NDArray[np.float64]:
        """For every row the chance that its value satisfies a condition."""
        each = np.array([one.chance(condition, self.kind) for one in self.meanings])
        return each[self.of_row] if len(each) else np.zeros(0)

    def sample(self, randomness: Randomness) -> pa.Array | pa.ChunkedArray:
        """A value for every row, evenly from what its label stands for."""
        if not self.generalised:
            return self.column
        ranged = np.array([one.low is not None for one in self.meanings], dtype=bool)
        if not ranged.any():
            return self._from_lists(randomness)
        return self._from_ranges(ranged, randomness)

    def _from_lists(self, randomness: Randomness) -> pa.Array:
        options = [value for one in self.meanings for value in one.values]
        counts = np.array([len(one.values) for one in self.meanings], dtype=np.int64)
        first = np.concatenate([[0], np.cumsum(counts)[:-1]])
        extra = randomness.below(counts[self.of_row].astype(np.uint64)).astype(np.int64)
        return pa.array(options, _arrow(self.kind)).take(pa.array(first[self.of_row] + extra))

    def _from_ranges(self, ranged: NDArray[np.bool_], randomness: Randomness) -> pa.Array:
        unit = _Unit(kind=self.kind)
        low = np.zeros(len(self.meanings))
        width = np.zeros(len(self.meanings))
        gone = np.zeros(len(self.meanings), dtype=bool)
        for place, one in enumerate(self.meanings):
            if ranged[place]:
                low[place] = unit.number(one.low)
                width[place] = unit.number(one.high) - low[place]
            elif one.values[0] is None:
                gone[place] = True
            else:
                low[place] = unit.number(one.values[0])
        share = randomness.below(_FINE, len(self.of_row)).astype(np.float64) / _FINE
        if unit.whole:
            drawn = low[self.of_row] + np.floor(share * (width[self.of_row] + 1))
        else:
            drawn = low[self.of_row] + share * width[self.of_row]
        return unit.array(drawn, gone[self.of_row])


@dataclass(frozen=True, kw_only=True)
class _Unit:
    """Measured values of one kind as numbers and back."""

    kind: str

    @property
    def whole(self) -> bool:
        return self.kind != "number"

    def number(self, value: Any) -> float:
        if isinstance(value, datetime):
            plain = value.replace(tzinfo=None)
            return (plain - datetime(1970, 1, 1)).total_seconds()  # noqa: DTZ001 - as released
        if isinstance(value, date):
            return float((value - date(1970, 1, 1)).days)
        return float(value)

    def array(self, numbers: NDArray[np.float64], gone: NDArray[np.bool_]) -> pa.Array:
        kind = _arrow(self.kind)
        if self.kind == "number":
            return pa.array(numbers, mask=gone)
        whole = numbers.astype(np.int64)
        if self.kind == "date":
            return pa.array(whole.astype(np.int32), mask=gone).cast(kind)
        return pa.array(whole, pa.int64(), mask=gone).cast(kind)


def _arrow(kind: str) -> pa.DataType:
    return {
        "integer": pa.int64(),
        "number": pa.float64(),
        "date": pa.date32(),
        "datetime": pa.timestamp("s"),
        "boolean": pa.bool_(),
    }.get(kind, pa.string())


_ANYTHING = "*"
_OR_MISSING = " or missing"


def fit(given: Any, columns: Mapping[str, pa.ChunkedArray], manifest: Mapping[str, Any]) -> bool:
    """Whether books of these released columns are theirs."""
    attributes = manifest["schema"]["attributes"]
    return (
        isinstance(given, dict)
        and set(given) <= set(columns)
        and all(
            _book(given[name], column, attributes[name])
            if name in given
            else _are_values(column, attributes[name])
            for name, column in columns.items()
        )
    )


def _are_values(column: pa.ChunkedArray, attribute: Mapping[str, Any]) -> bool:
    """Whether a column that needs no book shows values, and no labels for several."""
    if not _is_text(column.type):
        return True
    known = _known(attribute)
    if attribute["type"] not in ("category", "ordinal", "boolean"):
        return False
    return known is None or known.issuperset(pc.unique(column.drop_null()).to_pylist())


def _is_text(kind: pa.DataType) -> bool:
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner))


def _book(book: Any, column: pa.ChunkedArray, attribute: Mapping[str, Any]) -> bool:
    measured = attribute["type"] not in ("category", "ordinal", "boolean")
    if not all(_says(label, said, attribute, measured) for label, said in book.items()):
        return False
    if not _is_text(column.type):
        return True  # a file's reader took labels for values
    seen = set(pc.unique(column.drop_null()).to_pylist())
    plain = seen - set(book)
    known = _known(attribute)
    return set(book) <= seen and (not plain if measured else known is None or plain <= known)


def _known(attribute: Mapping[str, Any]) -> set[str] | None:
    """The values a labelled attribute may have; None where the schema lists none."""
    if attribute["type"] == "boolean":
        return {"false", "true"}
    if attribute.get("taxonomy"):
        return {path[0] for path in attribute["taxonomy"]}
    values = attribute.get("values")
    return None if values is None else set(values)


def _says(label: str, said: Any, attribute: Mapping[str, Any], measured: bool) -> bool:
    """Whether an entry says what its label says."""
    rest = set(said) - {"missing"}
    if "missing" in said and said["missing"] is not True:
        return False
    if label == _ANYTHING:
        bare = label
    elif "missing" in said:
        bare = label.removesuffix(_OR_MISSING)
        if bare == label:
            return False
    else:
        bare = label
    if measured:
        return rest == {"low", "high", "closed"} and _range(bare, said, attribute)
    return rest == {"values"} and _values(bare, said["values"], attribute)


def _range(label: str, said: Mapping[str, Any], attribute: Mapping[str, Any]) -> bool:
    low, high, closed = said["low"], said["high"], said["closed"]
    if not (isinstance(low, str) and isinstance(high, str) and type(closed) is bool):
        return False
    kind = attribute["type"]
    start, end = parsed(low, kind), parsed(high, kind)
    if start > end:
        return False
    if label != _ANYTHING:
        written = f"[{low}, {high}{']' if closed else ')'}"
        return label == written or (closed and label == low == high)
    if not closed or attribute.get("domain") is None or kind in ("date", "datetime"):
        return closed
    least, most = (float(bound) for bound in attribute["domain"])
    return bool(start <= least and most <= end)


def _values(label: str, values: Any, attribute: Mapping[str, Any]) -> bool:
    if not isinstance(values, list) or not values or len(set(values)) < len(values):
        return False
    known, paths = _known(attribute), attribute.get("taxonomy")
    if not all(isinstance(value, str) for value in values):
        return False
    if known is not None and not known.issuperset(values):
        return False
    if label == _ANYTHING:
        return True
    if paths:
        return set(values) == {path[0] for path in paths if label in path}
    many = f"{values[0]} … {values[-1]} ({len(values)})"
    return label in ("|".join(values), many)
