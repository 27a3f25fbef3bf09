"""What a round is about: its terms, the owners' offers, and the joint plan all of them sign."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sherd.errors import PlanError
from sherd.values import LATER, canonical_text, digest, to_data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema

NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
"""What an owner, an aggregator or a round may be called: as a host name's label."""

HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
"""A sha256, as it is written."""

LEAST_K = 3
"""The least k of a clustering method in a joint release (both protocols of the paper, step 4)."""

MOST_TIME = 2**37
"""The last second a deadline may name (in the year 6325): every clock and calendar knows it."""

MOST_DELIVERY = 1 << 30
"""The most bytes of a delivery, and of its tables in memory, where the terms name no other."""


class Kind(StrEnum):
    """How the data is fragmented."""

    HORIZONTAL = "horizontal"
    VERTICAL = "vertical"
    BLOCKS = "blocks"

    @property
    def joins(self) -> bool:
        """Whether columns of several owners are joined person by person."""
        return self is not Kind.HORIZONTAL


class Sharing(StrEnum):
    """How a round that joins columns shares out epsilon."""

    ATTRIBUTES = "attributes"
    EQUAL = "equal"
    GIVEN = "given"


class Linkage(StrEnum):
    """How people are matched between owners."""

    NONE = "none"
    OPRF = "oprf"
    HMAC = "hmac"


class Dropout(StrEnum):
    """What happens when an owner drops out of a horizontal round."""

    ABORT = "abort"
    CONTINUE = "continue"


OVERLAP_TOLD, MOST_UNTOLD = 10, 1000
"""How many people at several owners end a round, unless told otherwise; and the most of that."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What the operator asks the owners for.

    ``parameters`` are the method's, without epsilon; ``epsilon`` is the whole release's, as the
    decimal a person wrote, None for a method that has none. ``deadline`` and ``opened`` are in
    seconds since 1970. ``delivery_bytes`` is the most that one owner's delivery may take, on the
    wire and in memory. ``repeats`` is the hash of the plan of a round that ended without a
    release: who was charged for it sends what it paid for, and pays nothing more.
    ``signed_release`` promises that the aggregator signs the release's manifest and that it holds
    each owner's signature of its part; earlier versions' rounds do not. ``overlap_told`` is how
    many people must be at several owners of a horizontal round for it to end because of them: one
    would tell who guesses whether that person is elsewhere. ``colluders``: owners of a round of
    sums that may collude, None for all but one.
    """

    round: str
    aggregator: str
    kind: Kind
    owners: tuple[str, ...]
    method: str
    parameters: dict[str, Any] = field(default_factory=dict)
    epsilon: str | None = None
    sharing: Sharing = Sharing.ATTRIBUTES
    given: dict[str, str] = field(default_factory=dict)
    linkage: Linkage = Linkage.NONE
    dropout: Dropout = Dropout.ABORT
    least_owners: int = 1
    deadline: int
    purpose: str = ""
    opened: int | None = field(default=None, metadata=LATER)
    delivery_bytes: int | None = field(default=None, metadata=LATER)
    repeats: str | None = field(default=None, metadata=LATER)
    signed_release: bool | None = field(default=None, metadata=LATER)
    overlap_told: int | None = field(default=None, metadata=LATER)
    colluders: int | None = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        check_name(self.round, "round")
        check_name(self.aggregator, "aggregator")
        for name in self.owners:
            check_name(name, "owner")
        if not self.owners or len(set(self.owners)) != len(self.owners):
            raise PlanError("the round's owners are not valid", must="one or more, each once")
        if not 1 <= self.least_owners <= len(self.owners):
            raise PlanError("the least number of owners is out of range", must="1 to all of them")
        for what, time in (("deadline", self.deadline), ("time of opening", self.opened or 1)):
            if not 0 < time <= MOST_TIME:
                raise PlanError(f"the {what} is out of range", must="between 1970 and 6325")
        if self.repeats is not None and not HASH.fullmatch(self.repeats):
            raise PlanError("the plan to repeat is not valid", must="64 hexadecimal digits")
        if self.overlap_told is not None and not 0 < self.overlap_told <= MOST_UNTOLD:
            raise PlanError("the overlap that is told is out of range", must=f"1 to {MOST_UNTOLD}")
        if not 0 < self.most_bytes <= MOST_DELIVERY * 64:
            raise PlanError("the largest delivery is out of range", must="1 byte to 64 GiB")
        if self.colluders is not None and not 0 <= self.colluders < len(self.owners):
            raise PlanError(
                "the number of owners that may collude is out of range",
                must="0 to all owners but one",
                got=str(self.colluders),
            )
        self._check_kind()
        self._check_epsilon()
        self._check_k()

    def _check_kind(self) -> None:
        what = "a round of blocks" if self.kind is Kind.BLOCKS else "a vertical round"
        if self.kind.joins and self.linkage is Linkage.NONE:
            raise PlanError(f"{what} links people", must="the linkage oprf or hmac", got="none")
        if self.kind.joins and self.dropout is not Dropout.ABORT:
            raise PlanError(f"{what} cannot go on without an owner", must="the dropout rule abort")
        if not self.kind.joins and self.sharing is Sharing.GIVEN:
            what = "a horizontal round gives every owner the same epsilon"
            raise PlanError(what, do="leave out the owners' shares")
        if (self.sharing is Sharing.GIVEN) != bool(self.given) or (
            self.given and set(self.given) != set(self.owners)
        ):
            raise PlanError(
                "the owners' shares of epsilon are not valid", must="one for each of the owners"
            )

    def _check_epsilon(self) -> None:
        from sherd.release.method import find
        from sherd.release.summed_rows import SumsRows

        method = find(self.method)
        if (sums := isinstance(method, SumsRows)) and self.kind.joins:
            raise PlanError(
                f"the method '{self.method}' draws new records, which cannot be joined",
                must="a horizontal round",
                do="let the owners of columns compute together: `sherd party`",
            )
        if self.colluders is not None and not sums:
            raise PlanError(f"the method '{self.method}' does not share out noise")
        known = {parameter.name for parameter in method.parameters}
        if "epsilon" in self.parameters:
            raise PlanError("epsilon is the round's, not a parameter of the method")
        if (self.epsilon is None) != ("epsilon" not in known):
            raise PlanError(
                f"the method '{self.method}' "
                + ("needs an epsilon" if "epsilon" in known else "has no epsilon")
            )
        for text in (self.epsilon, *self.given.values()):
            if text is not None:
                exact(text)

    def _check_k(self) -> None:
        sizes = cluster_sizes(self.parameters)
        if sizes and min(sizes) < LEAST_K:
            raise PlanError(
                "the 'k' parameter is too small for a joint release",
                must=f"at least {LEAST_K}",
                got=str(min(sizes)),
                do="raise k",
            )
        if not isinstance(self.parameters.get("weights") or {}, dict):
            raise PlanError("the 'weights' parameter is not valid", must="a mapping of attributes")

    @property
    def linked(self) -> bool:
        """Whether people are matched between owners."""
        return self.linkage is not Linkage.NONE

    @property
    def most_bytes(self) -> int:
        """The most bytes of one owner's delivery."""
        return MOST_DELIVERY if self.delivery_bytes is None else self.delivery_bytes

    @property
    def least_people(self) -> int:
        """How many people the largest cluster takes: fewer cannot be protected."""
        return max([1, *cluster_sizes(self.parameters)])


def cluster_sizes(parameters: Mapping[str, Any]) -> tuple[int, ...]:
    """Every k that a method's parameters name, for all attributes and for single ones.

    >>> cluster_sizes({"k": 5, "k_of": {"age": 7}})
    (5, 7)
    """
    own = parameters.get("k_of") or {}
    if not isinstance(own, dict):
        raise PlanError("the 'k_of' parameter is not valid", must="a mapping of attributes to k")
    sizes = [size for size in (parameters.get("k"), *own.values()) if size is not None]
    for size in sizes:
        if not (isinstance(size, int) or (isinstance(size, float) and size.is_integer())):
            raise PlanError("the 'k' parameter is not valid", must="a whole number")
        if not 0 < size < 2**53:
            raise PlanError("the 'k' parameter is out of range", must="a whole number from 1")
    return tuple(int(size) for size in sizes)


def check_name(name: str, what: str) -> str:
    """The name, or PlanError where nobody can be called so."""
    if not NAME.fullmatch(name):
        raise PlanError(
            f"the name of the {what} is not valid",
            must="1 to 63 of a-z, 0-9 and hyphens, beginning and ending with a letter or digit",
            got=repr(name[:80]),
        )
    return name


@functools.lru_cache(maxsize=1024)
def exact(text: str) -> Fraction:
    """An amount of epsilon as the fraction it was written as.

    >>> exact("0.1")
    Fraction(1, 10)
    """
    from sherd.budget.amount import MICRO, Amount

    amount = Amount(text)
    if amount.micro <= 0 or Fraction(amount.micro, MICRO) != Fraction(text):
        raise PlanError(
            "an epsilon is out of range", must="above 0, with at most six decimals", got=repr(text)
        )
    return Fraction(text)


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What an owner would share: the metadata of its attributes, no data.

    ``schema`` is that of the attributes offered (no identifiers), as JSON text, since the order of
    attributes matters to people and not to canonical JSON; ``rows`` is how many records it has,
    ``key`` whether its people can be linked, ``mask_key`` the public key of its masks in a round
    of sums, ``coded`` whether it can deliver coded columns.
    """

    schema: str
    rows: int
    key: bool = False
    mask_key: str | None = field(default=None, metadata=LATER)
    coded: bool | None = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise PlanError("an offer has no rows", must="at least one")
        if self.mask_key is not None and not HASH.fullmatch(self.mask_key):
            raise PlanError("the key of an owner's masks is not valid", must="32 bytes, in hex")
        self.parsed()

    def parsed(self) -> Schema:
        """The schema offered."""
        schema = read_schema(self.schema)
        if schema.released != tuple(schema.attributes) or schema.unit or schema.population:
            raise PlanError(
                "an offer speaks of what is not released",
                must="attributes only, no identifiers, unit or population",
            )
        return schema


def write_schema(schema: Schema) -> str:
    """A schema as the text that travels."""
    return json.dumps(schema.as_data(), ensure_ascii=True)


@functools.lru_cache(maxsize=256)
def read_schema(text: str) -> Schema:
    """The schema in a text that travelled; many owners of a round have the same."""
    from sherd.tables.schema import Schema

    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise PlanError("a schema cannot be read", must="JSON") from None
    return Schema.from_data(data)


@dataclass(frozen=True, kw_only=True)
class Share:
    """One owner's part of a joint plan."""

    owner: str
    key: str
    epsilon: str | None
    rows: int
    schema_hash: str
    mask_key: str | None = field(default=None, metadata=LATER)


_OF_ROUND = {
    "round", "deadline", "opened", "purpose", "delivery_bytes", "repeats", "signed_release",
}  # fmt: skip
"""The terms that do not change what is released."""


@dataclass(frozen=True, kw_only=True)
class JointPlan:
    """What every owner signs: the terms, who takes part with which key, and the shares.

    ``schemas`` holds every schema by its hash. ``composed`` is the epsilon of the release for a
    person as the kind of fragmentation has it; ``bound`` that of a person whom every owner has,
    the same in a vertical round. ``coded``: deliveries are (``sherd.tables.coded_columns``).
    """

    terms: Terms
    aggregator_key: str
    shares: tuple[Share, ...]
    schemas: dict[str, str]
    composition: str
    composed: str | None
    bound: str | None
    coded: bool | None = field(default=None, metadata=LATER)

    @functools.cached_property
    def hash(self) -> str:
        """The sha256 of the plan's canonical form."""
        return hashlib.sha256(canonical_text(self).encode("ascii")).hexdigest()

    @functools.cached_property
    def substance(self) -> str:
        """The hash of what would be released: the plan without its round, times and purpose.

        A round that repeats another one has another plan with the same substance.
        """
        data = to_data(self)
        terms = {name: item for name, item in data["terms"].items() if name not in _OF_ROUND}
        return digest(["sherd-substance-1", {**data, "terms": terms}])

    @property
    def tag(self) -> str:
        """What pseudonyms and charges are bound to: the plan, or the one that this repeats."""
        return self.terms.repeats or self.hash

    @functools.cached_property
    def owners(self) -> tuple[str, ...]:
        """The owners that take part, in the plan's order."""
        return tuple(share.owner for share in self.shares)

    @functools.cached_property
    def _first_shares(self) -> dict[str, Share]:
        return {share.owner: share for share in reversed(self.shares)}

    def share(self, owner: str) -> Share:
        """An owner's share; the first where a plan, which is not sound then, has several."""
        if owner not in self._first_shares:
            raise PlanError("the plan has no such owner", got=repr(owner))
        return self._first_shares[owner]

    def schema(self, owner: str) -> Schema:
        """The schema of an owner's delivery."""
        return read_schema(self.schemas[self.share(owner).schema_hash])

    def local(self, owner: str) -> Plan:
        """The plan an owner protects its own table by: everyone's, with its share of epsilon."""
        return local_plan(self.terms, self.share(owner).epsilon, self.schema(owner))


def local_plan(terms: Terms, epsilon: str | None, schema: Schema) -> Plan:
    """The terms as a plan for one owner; settings of others' attributes are left out."""
    from sherd.release.plan import Plan

    parameters = dict(terms.parameters)
    for name in ("weights", "k_of"):
        if isinstance(given := parameters.get(name), dict):
            parameters[name] = {k: v for k, v in given.items() if k in schema.attributes} or None
    if epsilon is not None:
        parameters["epsilon"] = float(epsilon)
    return Plan(method=terms.method, **parameters)
