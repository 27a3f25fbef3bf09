"""The contract every method fulfils, and the directory that finds one by its name.

A method says what it promises before it sees data (``check``, ``guarantee``) and then
turns a prepared table into the tables of a release (``run``). What others must know of it, it
declares (``traits``). The directory holds names and import paths, not modules, so that asking
for one method imports that one only. Other packages add methods by an entry point of the group
``sherd.methods``, whose name is the method's.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sherd.engines import Engine, InMemory
from sherd.errors import MissingPartError, PlanError, SherdError, did_you_mean
from sherd.release.parameter import Parameter
from sherd.release.traits import Traits, loaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from importlib.metadata import EntryPoint
    from pathlib import Path

    import pyarrow as pa

    from sherd.engines.database_counts import CountedAttribute
    from sherd.guarantees import Guarantee
    from sherd.randomness import Randomness
    from sherd.release.plan import Plan
    from sherd.release.preceding import Keys
    from sherd.release.private_files import CellKey
    from sherd.tables.schema import Schema

__all__ = [
    "DIRECTORY",
    "Counting",
    "Described",
    "Describing",
    "Explaining",
    "Finding",
    "FollowsReleases",
    "Lineage",
    "Method",
    "Outcome",
    "Parameter",
    "PrivateRecord",
    "ReadsFiles",
    "Run",
    "find",
    "names",
    "traits_of",
]

DIRECTORY: dict[str, str] = {
    "dp": "sherd.methods.ranking.ranking_methods:DP",
    "idp": "sherd.methods.ranking.ranking_methods:IDP",
    "dp-um": "sherd.methods.ranking.ranking_methods:DP_UM",
    "idp-ls": "sherd.methods.ranking.ranking_methods:IDP_LS",
    "idp-cbls": "sherd.methods.ranking.ranking_methods:IDP_CBLS",
    "slice": "sherd.methods.slicing.slice:METHOD",
    "mondrian": "sherd.methods.slicing.mondrian:METHOD",
    "anatomy": "sherd.methods.slicing.anatomy:METHOD",
    "fragment": "sherd.methods.fragmenting.fragment:METHOD",
    "diffgen": "sherd.methods.specialising.diffgen:METHOD",
    "arbdistdp": "sherd.methods.specialising.arbdistdp:METHOD",
    "dp-graph": "sherd.methods.graphical.dp_graph:METHOD",
}
"""The public name of every method in the package, and where it lives."""

OUTSIDE = "sherd.methods"
"""The group of entry points by which other packages ship methods."""

REAL_SPEND = "epsilon with clusters recomputed"
"""The finding that says what a release really spends; the ledger books it beside the claim."""


def epsilon_parameter(help: str) -> Parameter:  # noqa: A002 - what it is called there
    """The parameter of every method that spends a budget."""
    return Parameter(name="epsilon", kind=float, above=0, required=True, short="-e", help=help)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One number a run computed from raw data, for the owner's eyes only.

    It is printed and goes to the owner's report, never to the manifest. Where it says how much an
    attacker gains, ``risk`` is that gain as a share of what is possible: an audit calls a release
    no safer than its method does.
    """

    name: str
    value: float | int | str
    meaning: str
    attribute: str | None = None
    risk: float | None = None

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
    ``documents`` maps a file's stem to plain data that is released beside the tables as JSON: a
    model's description, for instance. Like ``facts``, it holds only what the guarantee covers.
    """

    tables: Mapping[str, pa.Table]
    facts: Mapping[str, object] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    order_of: Callable[[], Any] | None = None
    documents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @cached_property
    def order(self) -> Any:
        """The input row behind every released row, or None."""
        return None if self.order_of is None else self.order_of()


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a method is given besides its table: randomness, threads, engine and who watches.

    ``cell_key`` is the owner's key for released ciphertext; ``coded`` allows ``coded_columns``.
    """

    randomness: Randomness
    threads: int = 1
    shuffle: bool = True
    engine: Engine = field(default_factory=InMemory)
    progress: Callable[[str, int, int], None] = lambda _step, _done, _total: None
    cell_key: CellKey | None = field(default=None, repr=False)
    coded: bool = False

    @property
    def fair_ties(self) -> bool:
        """Whether equal values are ranked at random, as in all that may be published.

        By their place where the order of rows is kept, so that engines can be compared; in a joint
        round that order is the owners' common one, and what they deliver is published.
        """
        return self.shuffle or self.randomness.is_keyed


@dataclass(frozen=True, kw_only=True)
class Committed:
    """A run on a cluster whose noise is drawn and committed, and whose release is not made yet.

    ``artefact`` is the fingerprint of what was committed; ``present`` counts each attribute's
    cells. ``release`` makes the released frame, of which nothing is random any more: it is
    called once the ledger has been charged.
    """

    rows: int
    artefact: str
    release: Callable[[], Any]
    treated: tuple[Any, ...] = ()
    findings: tuple[Finding, ...] = ()
    present: Mapping[str, int] = field(default_factory=dict)


@runtime_checkable
class Distributed(Protocol):
    """The optional part of the contract: a method that runs on a cluster."""

    def commit_on_cluster(
        self, frame: Any, schema: Schema, plan: Plan, run: Run, stages: Any
    ) -> Committed:
        """Do everything up to the noise."""


@runtime_checkable
class Counting(Protocol):
    """The optional part of the contract: a method that needs nothing of a table but counts."""

    def counted(self, plan: Plan, schema: Schema) -> Sequence[CountedAttribute]:
        """The attributes that are counted, and how their cells are coded."""

    def run_on_counts(self, counts: Any, schema: Schema, plan: Plan, run: Run) -> Outcome:
        """Protect what ``counts`` counts: its ``rows``, and a ``histogram`` of any attributes."""


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
class Explaining(Protocol):
    """The optional part of the contract: a method that can say what a plan leads to.

    Both are for people: what ``--explain`` prints before data is read, and what is printed of
    a release besides its guarantee.
    """

    def explain(self, plan: Plan, schema: Schema) -> Mapping[str, Any]:
        """What follows from plan and schema alone, as plain data."""

    def told(self, facts: Mapping[str, Any]) -> Iterable[str]:
        """The same in words: of what ``explain`` gave, or of a release's facts."""


@runtime_checkable
class ReadsFiles(Protocol):
    """The optional part of the contract: a method with parameters that are given as files."""

    def read_parameter(self, name: str, data: Any) -> Mapping[str, Any]:
        """The parameters that the content of a file says, given for the one called ``name``."""


@runtime_checkable
class PrivateRecord(Protocol):
    """What an owner keeps of a release so that another can follow it; never published."""

    @property
    def key(self) -> str:
        """The attribute that names tuples over time."""

    @property
    def release(self) -> str:
        """The sha256 of the manifest of the release it belongs to; empty until that is written."""

    def belonging_to(self, release: str) -> PrivateRecord:
        """The record with the sha256 of the release it belongs to."""

    def encoded(self) -> bytes:
        """The record as the bytes of a file."""


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """What ties a release to those before it.

    ``keys`` name the tuples over time; ``past`` is the owner's record of the release that this one
    follows, None for a first release.
    """

    keys: Keys
    past: PrivateRecord | None = None


@runtime_checkable
class FollowsReleases(Protocol):
    """The optional part of the contract: a method whose release can follow an earlier one."""

    def load_record(self, path: Path) -> PrivateRecord:
        """Read the record that an earlier release left with its owner."""

    def plan_after(
        self, old: Path, record: PrivateRecord, schema: Schema, chosen: Mapping[str, Any]
    ) -> Plan:
        """The plan of the release after the one in the folder ``old``."""

    def run_keeping_record(
        self, table: pa.Table, schema: Schema, plan: Plan, run: Run, lineage: Lineage
    ) -> tuple[Outcome, PrivateRecord]:
        """Protect a prepared table and say who is where."""


@runtime_checkable
class Method(Protocol):
    """What every masking or fragmenting method offers.

    It may be ``Describing``, ``Explaining``, ``ReadsFiles`` and ``FollowsReleases`` too.
    """

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

    @property
    def traits(self) -> Traits:
        """What verification, the audit and joint releases must know of the method."""

    def check(self, plan: Plan, schema: Schema) -> None:
        """Raise PlanError or SchemaError where plan and schema do not fit the method."""

    def guarantee(self, plan: Plan, schema: Schema) -> Guarantee:
        """What a release will promise; computed without seeing the table."""

    def run(self, table: pa.Table, schema: Schema, plan: Plan, run: Run) -> Outcome:
        """Protect a prepared table (see ``sherd.tables.prepare``)."""


def names() -> tuple[str, ...]:
    """Every method's name: those of the package in the order of the documentation, then others."""
    return (*DIRECTORY, *sorted(_outside()))


def usable() -> Iterator[Method]:
    """Every method that can be loaded; a package that ships a broken one takes no other away."""
    for name in names():
        with suppress(SherdError):
            yield find(name)


def find(name: str) -> Method:
    """The method of that name.

    >>> find("dp").name
    'dp'
    """
    if isinstance(name, str) and name in DIRECTORY:
        return loaded(DIRECTORY[name])  # type: ignore[return-value]
    if isinstance(name, str) and name in _outside():
        return _from_outside(_outside()[name])
    raise PlanError(
        "the method is unknown",
        must="one of " + ", ".join(names()),
        got=repr(name),
        do=did_you_mean(str(name), names()) or "run `sherd methods`",
    )


def traits_of(manifest: Mapping[str, Any]) -> Traits | None:
    """What the method of a release declares of itself; None where there is no such method."""
    plan = manifest.get("plan")
    name = plan.get("method") if isinstance(plan, Mapping) else None
    if not isinstance(name, str) or (name not in DIRECTORY and name not in _outside()):
        return None
    return find(name).traits


@cache
def _outside() -> Mapping[str, EntryPoint]:
    """The methods that other packages ship; none of them takes the place of one of ours."""
    from importlib.metadata import entry_points

    return {one.name: one for one in entry_points(group=OUTSIDE) if one.name not in DIRECTORY}


def _from_outside(entry: EntryPoint) -> Method:
    try:
        method = entry.load()
    except Exception as error:
        raise MissingPartError(
            f"the method '{entry.name}' cannot be loaded",
            got=f"{entry.value}: {type(error).__name__}",
            do="repair or remove the package that ships it",
        ) from error
    if not isinstance(method, Method) or method.name != entry.name:
        raise PlanError(
            f"a package ships something as the method '{entry.name}' that is not a method",
            must="an object with all of sherd.release.method.Method, and that name",
            got=entry.value,
            do="repair or remove the package that ships it",
        )
    return method
