"""Numbers with decimal commas and days as dd.mm.yyyy, as much of Europe writes them.

Each cell is judged by itself, so that no record decides how another is read. ``1,234`` may be one
and a bit or a thousand and more: it is left as it is, and so refused, unless the reader is sure
that commas are decimal, as in a file whose cells are parted by semicolons.

>>> plain_forms(pa.array(["1,5", "1.234,5", "1,234", "7"]), Type.NUMBER).to_pylist()
['1.5', '1234.5', '1,234', '7']
>>> plain_forms(pa.array(["1,234"]), Type.NUMBER, sure=True).to_pylist()
['1.234']
>>> plain_forms(pa.array(["3.11.2020", "2020-11-04"]), Type.DATE).to_pylist()
['2020-11-03', '2020-11-04']
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sherd.tables.attribute import Type

if TYPE_CHECKING:
    from collections.abc import Iterable

Texts = TypeVar("Texts", pa.Array, pa.ChunkedArray)

_GROUPED = r"^[+-]?\d{1,3}(\.\d{3})+,\d+$"
_COMMA = r"^[+-]?\d+,\d+$"
_EITHER = r"^[+-]?[1-9]\d{0,2},\d{3}$"
_DAY = r"^\d{1,2}\.\d{1,2}\.\d{4}([ T]\d\d:\d\d(:\d\d(\.\d+)?)?)?$"
_NUMBERS, _DAYS = (Type.NUMBER, Type.INTEGER), (Type.DATE, Type.DATETIME)


def plain_forms(texts: Texts, kind: Type, *, sure: bool = False) -> Texts:
    """The texts, those in a local form of the kind's values in the plain one."""
    if kind in _NUMBERS:
        local = pc.match_substring_regex(texts, _COMMA)
        if not sure:
            either = pc.match_substring_regex(texts, _EITHER)
            local = pc.and_(local, pc.invert(either))
        local = pc.or_(local, pc.match_substring_regex(texts, _GROUPED))
        if not pc.any(local).as_py():
            return texts
        bare = pc.replace_substring(texts, ".", "")
        return pc.if_else(local, pc.replace_substring(bare, ",", "."), texts)
    if kind not in _DAYS:
        return texts
    local = pc.match_substring_regex(texts, _DAY)
    if not pc.any(local).as_py():
        return texts
    wide = pc.replace_substring_regex(texts, r"^(\d)\.", r"0\1.")
    wide = pc.replace_substring_regex(wide, r"^(\d\d)\.(\d)\.", r"\1.0\2.")
    turned = pc.replace_substring_regex(wide, r"^(\d\d)\.(\d\d)\.(\d{4})", r"\3-\2-\1")
    return pc.if_else(local, turned, texts)


def is_local(cells: Iterable[str], kind: Type, *, sure: bool) -> bool:
    """Whether any of these cells is in a local form."""
    if kind not in (*_NUMBERS, *_DAYS):
        return False
    return any(_one_is_local(cell.strip(), kind, sure=sure) for cell in cells)


def _one_is_local(text: str, kind: Type, *, sure: bool) -> bool:
    """Judge one cell by Python's own patterns: Arrow would import pandas to take in a list."""
    if kind in _DAYS:
        return re.match(_DAY, text) is not None
    if re.match(_GROUPED, text):
        return True
    return re.match(_COMMA, text) is not None and (sure or not re.match(_EITHER, text))


def surely(distinct: pa.Array) -> bool:
    """Whether a column has a decimal comma that can be nothing else.

    >>> surely(pa.array(["1.234,50"])), surely(pa.array(["1,234"]))
    (True, False)
    """
    comma = pc.match_substring_regex(distinct, _COMMA)
    either = pc.match_substring_regex(distinct, _EITHER)
    grouped = pc.match_substring_regex(distinct, _GROUPED)
    return bool(pc.any(pc.or_(pc.and_(comma, pc.invert(either)), grouped)).as_py())
