"""A parameter of a method: what it must be, and how the command line gives it.

>>> bins = Parameter(name="bins", kind=dict, items=list, help="")
>>> bins.read(["age=10,20", "pay=5"])
{'age': [10.0, 20.0], 'pay': 5}
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from sherd.errors import PlanError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of a method: its type, default, limits and one line of help.

    ``kind`` is ``float``, ``int``, ``str``, ``bool`` or ``dict``/``list`` (of plain
    values). A ``default`` of None with ``required=False`` means "not given".

    ``option`` is what the command line calls it, where that is not its own name; None gives it
    no option. ``short`` is the option's single letter. ``items`` is what a list or a mapping is
    made of; ``repeat`` says that a list's option is given once for each item; ``in_file``, that
    the option names a YAML file.
    """

    name: str
    kind: type
    help: str
    required: bool = False
    default: Any = None
    least: float | None = None
    above: float | None = None
    choices: tuple[str, ...] | None = None
    metavar: str | None = None
    option: str | None = ""
    short: str | None = None
    items: type = str
    repeat: bool = False
    in_file: bool = False

    @property
    def flag(self) -> str | None:
        """The option's long name.

        >>> Parameter(name="min_scale", kind=float, help="").flag
        '--min-scale'
        """
        return f"--{self.name.replace('_', '-')}" if self.option == "" else self.option

    def check(self, value: Any) -> Any:
        """The value in its own type, or a PlanError that says what it must be."""
        if value is None and not self.required:
            return None
        if self.kind in (int, float):
            return self._check_number(value)
        if not isinstance(value, self.kind):
            raise self._wrong(value)
        if self.choices is not None and value not in self.choices:
            raise self._wrong(value, do=did_you_mean(str(value), self.choices) or None)
        return value

    def _wrong(self, value: Any, *, also: str = "", do: str | None = None) -> PlanError:
        what = f"the '{self.name}' parameter is not valid"
        return PlanError(what, must=self.must() + also, got=repr(value), do=do)

    def _check_number(self, value: Any) -> int | float:
        if isinstance(value, bool) or not isinstance(value, Real):
            raise self._wrong(value)
        # A whole number stays one: it may be larger than any float.
        value = int(value) if isinstance(value, Integral) else float(value)
        if isinstance(value, float) and not math.isfinite(value):
            raise self._wrong(value, also=", and finite")
        if (
            (self.kind is int and value != int(value))
            or (self.least is not None and value < self.least)
            or (self.above is not None and value <= self.above)
        ):
            raise self._wrong(value)
        try:
            return int(value) if self.kind is int else float(value)
        except OverflowError:
            raise self._wrong(value) from None

    def must(self) -> str:
        """What a value must be, in words.

        >>> Parameter(name="k", kind=int, help="", least=3).must()
        'a whole number from 3'
        """
        if self.choices is not None:
            return "one of " + ", ".join(self.choices)
        if self.kind in (int, float):
            noun = "a whole number" if self.kind is int else "a number"
            if self.above is not None:
                return f"{noun} above {self.above:g}"
            return noun if self.least is None else f"{noun} from {self.least:g}"
        return {str: "text", bool: "true or false", dict: "a mapping", list: "a list"}[self.kind]

    def read(self, given: Sequence[str]) -> Any:
        """The value that the texts of an option say; one text, unless it may be repeated."""
        if self.kind is dict:
            return dict(map(self._pair, given))
        if self.kind is list:
            texts = given if self.repeat else given[-1].split(",")
            return [self._item(text.strip()) for text in texts]
        return self._scalar(given[-1], self.kind)

    def _pair(self, text: str) -> tuple[str, Any]:
        name, equals, value = text.rpartition("=")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if number.is_integer() and name and equals:
            return name, int(number)
        if not name or not equals or (self.items is not list and math.isnan(number)):
            raise PlanError(
                f"{self.flag} cannot be read",
                must=self.metavar or "ATTRIBUTE=NUMBER",
                got=repr(text),
            )
        return name, [_number_or_text(one) for one in value.split(",")] if (
            self.items is list
        ) else number

    def _item(self, text: str) -> Any:
        if self.items is list:
            return [one.strip() for one in text.split(",")]
        return self._scalar(text, self.items)

    def _scalar(self, text: str, kind: type) -> Any:
        try:
            return kind(text)
        except ValueError:
            noun = {int: "a whole number", float: "a number"}[kind]
            must = self.must() if kind is self.kind else f"{noun}, or several with commas between"
            raise PlanError(f"{self.flag} cannot be read", must=must, got=repr(text)) from None


def _number_or_text(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text.strip()
