"""The contract every method fulfils, and the directory that finds one by its name.

A method says what it promises before it sees data (``check``, ``guarantee``) and then
turns a prepared table into the tables of a release (``run``). The directory holds names
and import paths, not modules, so that asking for one method imports that one only.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sherd.engines import Engine, InMemory
from sherd.errors import PlanError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import pyarrow as pa

    from sherd.guarantees import Guarantee
    from sherd.randomness import Randomness
    from sherd.release.plan import Plan
    from sherd.tables.row_keys import Keys
    from sherd.tables.schema import Schema

DIRECTORY: dict[str, str] = {
    "dp": "sherd.methods.ranking.dp:METHOD",
    "idp": "sherd.methods.ranking.idp:METHOD",
    "dp-um": "sherd.methods.ranking.dp_um:METHOD",
    "idp-ls": "sherd.methods.ranking.idp_ls:METHOD",
    "idp-cbls": "sherd.methods.ranking.idp_cbls:METHOD",
    "slice": "sherd.methods.slicing.slice:METHOD",
    "mondrian": "sherd.methods.slicing.mondrian:METHOD",
    "anatomy": "sherd.methods.slicing.anatomy:METHOD",
    "fragment": "sherd.methods.fragmenting.fragment:METHOD",
    "diffgen": "sherd.methods.specialising.diffgen:METHOD",
    "arbdistdp": "sherd.methods.specialising.arbdistdp:METHOD",
}
"""Every method's public name and where it lives."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of a method: its type, default, limits and one line of help.

    ``kind`` is ``float``, ``int``, ``str``, ``bool`` or ``dict``/``list`` (of plain
    values). A ``default`` of None with ``required=False`` means "not given".
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

    def check(self, value: Any) -> Any:
        """The value in its own type, or a PlanError that says what it must be."""
        if value is None and not self.required:
            return None
        wrong = PlanError(
            f"the '{self.name}' parameter is not valid", must=self.must(), got=repr(value)
        )
        if self.kind in (int, float):
            return self._check_number(value, wrong)
        if not isinstance(value, self.kind):
            raise wrong
        if self.choices is not None and value not in self.choices:
            raise PlanError(
                f"the '{self.name}' parameter is not valid",
                must=self.must(),
                got=repr(value),
                do=did_you_mean(str(value), self.choices) or None,
            )
        return value

    def _check_number(self, value: Any, wrong: PlanError) -> int | float:
        if isinstance(value, bool) or not isinstance(value, Real):
            raise wrong
        # A whole number stays one: it may be larger than any float.
        value = int(value) if isinstance(value, Integral) else float(value)
        if isinstance(value, float) and not math.isfinite(value):
            raise PlanError(
                f"the '{self.name}' parameter is not valid",
                must=f"{self.must()}, and finite",
                got=repr(value),
            )
        if self.kind is int and value != int(value):
            raise wrong
        if self.least is not None and value < self.least:
            raise wrong
        if self.above is not None and value <= self.above:
            raise wrong
        try:
            return int(value) if self.kind is int else float(value)
        except OverflowError:
            raise wrong from None

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


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One number a run computed from raw data, for the owner's eyes only.

    It is printed and goes to the owner's report, never to the manifest.
    """

    name: str
    value: float | int | str
    meaning: str
    attribute: str | None = None

    def as_data(self) -> dict[str, object]:
        """The finding as plain data, labelled as internal."""
        return {
            "name": self.name,
            "attribute": self.attribute,
            "value": self.value,
            "meaning": self.meaning,
            "label": "internal: not for publication",
        }


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a method made: the tables to release, public facts and internal findings.

    ``tables`` maps a file's stem to its table; a masked table is called ``data``.
    ``facts`` goes to the manifest: only what the guarantee covers or the plan says.
    ``order_of`` gives, for each released row of ``data``, the input row it came from; None
    where released rows are not records. Few ask for it, so it is worked out when asked for.
    ``record`` is what the owner keeps in private so that another release can follow this one,
    where keys were given (``Run.keys``).
    """

    tables: Mapping[str, pa.Table]
    facts: Mapping[str, object] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    order_of: Callable[[], Any] | None = None
    record: Any = None

    @cached_property
    def order(self) -> Any:
        """The input row behind every released row, or None."""
        return None if self.order_of is None else self.order_of()


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a method is given besides its table: randomness, threads, engine and who watches.

    ``keys`` name the tuples over time, where the owner keeps a record; ``past`` is the record
    of the release that this one follows.
    """

    randomness: Randomness
    threads: int = 1
    shuffle: bool = True
    keys: Keys | None = None
    past: Any = None
    engine: Engine = field(default_factory=InMemory)
    progress: Callable[[str, int, int], None] = lambda _step, _done, _total: None


@dataclass(frozen=True, kw_only=True)
class Described:
    """One promise of a method in general, before a plan fills in its numbers.

    ``name`` is what ``--guarantee`` calls it, None where a method makes one promise only.
    """

    name: str | None
    promise: str
    covers: str
    not_covered: tuple[str, ...] = ()
    source: str = ""

    def as_data(self) -> dict[str, object]:
        """The description as plain data."""
        return {**vars(self), "not_covered": list(self.not_covered)}


@runtime_checkable
class Describing(Protocol):
    """The optional part of the contract: a method that says in general what it promises.

    A method without it is listed by its summary; what it promises is then known from a plan.
    """

    def describe(self) -> Iterable[Described]:
        """Every promise the method can make."""


@runtime_checkable
class Method(Protocol):
    """What every masking or fragmenting method offers; it may be ``Describing`` too."""

    @property
    def name(self) -> str:
        """The public name, as in ``--method``."""

    @property
    def title(self) -> str:
        """The name in words."""

    @property
    def summary(self) -> str:
        """One or two sentences: what the method does to a table."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Every parameter the method takes."""

    def check(self, plan: Plan, schema: Schema) -> None:
        """Raise PlanError or SchemaError where plan and schema do not fit the method."""

    def guarantee(self, plan: Plan, schema: Schema) -> Guarantee:
        """What a release will promise; computed without seeing the table."""

    def run(self, table: pa.Table, schema: Schema, plan: Plan, run: Run) -> Outcome:
        """Protect a prepared table (see ``sherd.tables.prepare``)."""


def names() -> tuple[str, ...]:
    """Every method's name, in the order of the documentation."""
    return tuple(DIRECTORY)


def find(name: str) -> Method:
    """The method of that name.

    >>> find("dp").name
    'dp'
    """
    if not isinstance(name, str) or name not in DIRECTORY:
        raise PlanError(
            "the method is unknown",
            must="one of " + ", ".join(names()),
            got=repr(name),
            do=did_you_mean(str(name), names()) or "run `sherd methods`",
        )
    module, attribute = DIRECTORY[name].split(":")
    method: Method = getattr(importlib.import_module(module), attribute)
    return method
