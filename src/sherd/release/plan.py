"""A plan: which method with which parameters, checked when made; and which to begin with.

>>> plan = Plan(method="dp", epsilon=0.5)
>>> plan["epsilon"]
0.5
>>> Plan.from_data(plan.as_data()) == plan
True
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sherd.errors import FormatError, PlanError, SherdError, did_you_mean
from sherd.release.method import Explaining, Method, find, usable
from sherd.tables.schema import Role
from sherd.values import digest

if TYPE_CHECKING:
    from sherd.guarantees import Guarantee
    from sherd.release.traits import Suggestion
    from sherd.tables.schema import Schema


class Plan:
    """A frozen choice of method and parameters that can be written to a file.

    Parameters are those of the method; leaving one out takes its default. A plan says
    what it will promise (``guarantee``) from a schema alone, before any data is read.
    """

    __slots__ = ("_method", "_parameters", "_promised", "_spec")

    def __init__(self, /, *, method: str, **parameters: Any) -> None:
        spec = find(method)
        known = {parameter.name: parameter for parameter in spec.parameters}
        for given in parameters:
            if given not in known:
                raise PlanError(
                    f"the method '{method}' has no parameter '{given}'",
                    must="one of " + ", ".join(known),
                    do=did_you_mean(given, known) or None,
                )
        checked: dict[str, Any] = {}
        for name, parameter in known.items():
            value = parameters.get(name)
            if value is None:
                if parameter.required:
                    raise PlanError(
                        f"the method '{method}' needs the parameter '{name}'",
                        must=parameter.must(),
                        got="nothing",
                        do=parameter.help,
                    )
                value = parameter.default
            checked[name] = None if value is None else _frozen(parameter.check(value))
        self._method = method
        self._parameters: Mapping[str, Any] = MappingProxyType(checked)
        self._spec = spec
        self._promised: tuple[Schema, Guarantee] | None = None

    @property
    def method(self) -> str:
        """The method's public name."""
        return self._method

    @property
    def spec(self) -> Method:
        """The method itself."""
        return self._spec

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Every parameter with its value, defaults filled in."""
        return self._parameters

    def __getitem__(self, name: str) -> Any:
        return self._parameters[name]

    def exact(self, name: str) -> Fraction:
        """A parameter as the decimal fraction the user wrote.

        >>> Plan(method="dp", epsilon=0.1).exact("epsilon")
        Fraction(1, 10)
        """
        return Fraction(repr(self._parameters[name]))

    def check(self, schema: Schema) -> None:
        """Raise where the plan does not fit the schema."""
        self._spec.check(self, schema)

    def guarantee(self, schema: Schema) -> Guarantee:
        """What a release by this plan will promise, before any data is read."""
        if self._promised is None or self._promised[0] is not schema:
            self.check(schema)
            self._promised = schema, self._spec.guarantee(self, schema)
        return self._promised[1]

    def explain(self, schema: Schema) -> str:
        """The plan in words: what will be done and what it will promise.

        >>> schema = __import__("sherd").datasets.schema("nursery")
        >>> print(Plan(method="dp", epsilon=1).explain(schema).splitlines()[0])
        Method: dp, Differential privacy by noise on every value.
        """
        given = {k: v for k, v in self.as_data().items() if k != "method"}
        settings = ", ".join(f"{name} = {value}" for name, value in given.items())
        return "\n".join(
            [
                f"Method: {self._method}, {self._spec.title}.",
                self._spec.summary,
                f"Parameters: {settings or 'none'}.",
                f"Masks: {', '.join(schema.protected)}.",
                f"Leaves out: {', '.join(schema.named(Role.IDENTIFIER)) or 'nothing'}.",
                *self._led_to(schema),
                self.guarantee(schema).words(),
            ]
        )

    def _led_to(self, schema: Schema) -> list[str]:
        if not isinstance(self._spec, Explaining):
            return []
        return list(self._spec.told(self._spec.explain(self, schema)))

    def as_data(self) -> dict[str, Any]:
        """The plan as plain data, without parameters that were not given."""
        given = {k: _thawed(v) for k, v in self._parameters.items() if v is not None}
        return {"method": self._method, **given}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Plan:
        """The plan that ``as_data`` wrote."""
        if not isinstance(data, Mapping) or not isinstance(data.get("method"), str):
            raise FormatError("this is not a plan", must="a mapping with the key 'method'")
        return cls(**{str(key): value for key, value in data.items()})

    def save(self, path: str | Path) -> None:
        """Write the plan to a YAML or JSON file."""
        from sherd.tables.files import write_whole

        text = json.dumps(self.as_data(), indent=2, ensure_ascii=False) + "\n"
        write_whole(Path(path), text.encode())  # JSON is YAML

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan from a YAML or JSON file."""
        from sherd.tables.files import read_yaml

        data = read_yaml(Path(path))
        if not isinstance(data, Mapping) or not isinstance(data.get("method"), str):
            raise FormatError(
                "the file is not a plan", must="YAML or JSON with the key 'method'", got=str(path)
            )
        return cls.from_data(data)

    @property
    def hash(self) -> str:
        """The sha256 of the plan's canonical form."""
        return digest(self.as_data())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self.as_data() == other.as_data()

    def __hash__(self) -> int:
        return hash(self.hash)

    def __repr__(self) -> str:
        given = ", ".join(f"{k}={v!r}" for k, v in self.as_data().items())
        return f"Plan({given})"


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return MappingProxyType({str(k): _frozen(v) for k, v in value.items()})
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return value


def _thawed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _thawed(v) for k, v in value.items()}
    if isinstance(value, tuple):
        return [_thawed(item) for item in value]
    return value


def suggested(schema: Schema, rows: int | None) -> list[tuple[Method, Suggestion]]:
    """The methods that fit, the best to begin with first: what the methods themselves suggest.

    That is decided from the schema and the table's size; no row is read. ``rows`` is the most that
    the table may have, None where it is not known.
    """
    offered = [
        (method, method.traits.suggestion)
        for method in usable()
        if method.traits.suggestion is not None
    ]
    fitting = [(method, one) for method, one in offered if _fits(method, one, schema)]
    most = math.inf if rows is None else rows

    def order(pair: tuple[Method, Suggestion]) -> tuple[bool, bool, int]:
        one = pair[1]
        return not one.all_differential, most < one.least_rows, one.place

    return sorted(fitting, key=order)


def _fits(method: Method, one: Suggestion, schema: Schema) -> bool:
    """Whether a method takes the schema; one whose needs are not known takes any."""
    if not one.settings:
        return True
    try:
        Plan(method=method.name, **one.settings).check(schema)
    except SherdError:
        return False
    return True
