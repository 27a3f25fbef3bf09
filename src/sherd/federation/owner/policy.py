"""An owner's policy: what it would ever agree to. Whatever is not allowed is refused.

A policy is a YAML file. Every key left out allows nothing:

    aggregators: {registry: 6668-7aad-…}     names and fingerprints
    kinds: [horizontal, vertical, blocks]
    methods: [idp-ls, dp-um]
    attributes: [age, education]             or: all
    linkage: [oprf]
    least_k: 10
    least_rows: 100
    largest_epsilon: 1                        in one round
    lifetime_epsilon: 5                       in all rounds of this population
    peers: {south: 1234-5678-…}               owners whose keys were compared; or: all
    largest_batch: 100000                     most identifiers of another owner in one round
    yearly_guesses: 500000                    most identifiers of all others in a year
    least_colluders: 2                        owners that noise withstands; or: all others
    approve: ask                              or: automatic
    announce: [methods, largest_epsilon]      what the aggregator is told beforehand; or: all
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sherd.errors import UsageError, did_you_mean
from sherd.federation.protocol.announced_policy import TELLS
from sherd.federation.protocol.joint_plan import LEAST_K, Kind, Linkage, cluster_sizes
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.summing import among, sums_rows
from sherd.signing_keys import same_fingerprint

if TYPE_CHECKING:
    from pathlib import Path

    from sherd.federation.protocol.joint_plan import JointPlan, Terms

TEMPLATE = """\
# What this owner agrees to. Whatever is not listed here is refused.
aggregators: {}            # NAME: FINGERPRINT of its key, compared over another channel
kinds: []                  # horizontal, vertical, blocks
methods: []                # as in `sherd methods`
attributes: []             # names of attributes that may be shared, masked; or: all
linkage: []                # oprf, hmac (low assurance); none needed if people are not linked
least_k: 10                # smallest clusters
least_rows: 100            # do not take part with fewer rows
largest_epsilon: 0         # most in one round
lifetime_epsilon: 0        # most in all rounds together, for the people in the table
peers: {}                  # NAME: FINGERPRINT of owners that `approve: automatic` is for; or: all
largest_batch: 0           # most identifiers of another owner to match in one round
yearly_guesses: 0          # most identifiers of all other owners to match in a year
least_colluders: all       # where noise is shared out: owners it must withstand; all: all others
approve: ask               # ask a person (`sherd owner approve`), or: automatic
announce: []               # settings that the aggregator is told beforehand: kinds, methods,
                           # attributes, linkage, least_k, largest_epsilon; or: all
"""

Objection = tuple[Reason, str]

_KEYS = (
    "aggregators", "kinds", "methods", "attributes", "linkage", "least_k", "least_rows",
    "largest_epsilon", "lifetime_epsilon", "peers", "largest_batch", "yearly_guesses",
    "least_colluders", "approve", "announce",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What an owner agrees to; by default, nothing."""

    aggregators: dict[str, str]
    kinds: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    attributes: tuple[str, ...] | None = ()
    linkage: tuple[str, ...] = ()
    least_k: int = LEAST_K
    least_rows: int = 1
    largest_epsilon: Fraction = Fraction(0)
    lifetime_epsilon: Fraction = Fraction(0)
    peers: dict[str, str] | None = field(default_factory=dict)
    largest_batch: int = 0
    yearly_guesses: int = 0
    least_colluders: int | None = None
    automatic: bool = False
    announce: tuple[str, ...] = ()

    @classmethod
    def load(cls, path: Path) -> Policy:
        """The policy in a file."""
        from sherd.tables.files import read_yaml

        data = read_yaml(path, typed=False)
        if not isinstance(data, dict):
            raise _wrong("the policy", "a mapping of settings")
        for key in data:
            if key not in _KEYS:
                raise UsageError(
                    "the policy has an unknown setting",
                    must="one of " + ", ".join(_KEYS),
                    got=repr(key),
                    do=did_you_mean(str(key), _KEYS) or None,
                )
        return cls._read(data)

    @classmethod
    def _read(cls, data: dict[str, Any]) -> Policy:
        aggregators, peers = data.get("aggregators") or {}, data.get("peers") or {}
        for what, given in (("aggregators", aggregators), ("peers", peers)):
            if not isinstance(given, dict) and (what, given) != ("peers", "all"):
                raise _wrong(f"'{what}'", "a mapping of names to fingerprints")
        attributes, colluders = data.get("attributes"), data.get("least_colluders", "all")
        approve = data.get("approve", "ask")
        if approve not in ("ask", "automatic"):
            raise _wrong("'approve'", "ask or automatic")
        return cls(
            aggregators={str(k): str(v) for k, v in aggregators.items()},
            kinds=_listed(data, "kinds", [kind.value for kind in Kind]),
            methods=_listed(data, "methods", None),
            attributes=None if attributes == "all" else _listed(data, "attributes", None),
            linkage=_listed(data, "linkage", [mode.value for mode in Linkage]),
            least_k=_whole(data, "least_k", LEAST_K),
            least_rows=_whole(data, "least_rows", 1),
            largest_epsilon=_amount(data, "largest_epsilon"),
            lifetime_epsilon=_amount(data, "lifetime_epsilon"),
            peers=None if peers == "all" else {str(k): str(v) for k, v in peers.items()},
            largest_batch=_whole(data, "largest_batch", 0),
            yearly_guesses=_whole(data, "yearly_guesses", 0),
            least_colluders=None if colluders == "all" else _whole(data, "least_colluders", 0),
            automatic=approve == "automatic",
            announce=TELLS
            if data.get("announce") == "all"
            else _listed(data, "announce", list(TELLS)),
        )

    def allows(self, attribute: str) -> bool:
        """Whether an attribute may be shared."""
        return self.attributes is None or attribute in self.attributes

    def objection(self, terms: Terms, aggregator_key: str) -> Objection | None:
        """Why an invitation is not allowed: the code to tell, and the detail for the owner."""
        known = self.aggregators.get(terms.aggregator)
        if known is None or not same_fingerprint(known, aggregator_key):
            return Reason.UNKNOWN_AGGREGATOR, f"'{terms.aggregator}' with its key"
        if terms.kind.value not in self.kinds:
            return Reason.METHOD_NOT_ALLOWED, f"{terms.kind.value} rounds"
        if terms.method not in self.methods:
            return Reason.METHOD_NOT_ALLOWED, f"the method '{terms.method}'"
        if terms.linkage is not Linkage.NONE and terms.linkage.value not in self.linkage:
            return Reason.LINKAGE_NOT_ALLOWED, f"the linkage '{terms.linkage.value}'"
        if any(k < self.least_k for k in cluster_sizes(terms.parameters)):
            return Reason.K_TOO_SMALL, f"k below {self.least_k}"
        if terms.kind is Kind.HORIZONTAL:
            return self._about_epsilon(terms.epsilon)
        return None

    def objection_to_plan(self, plan: JointPlan, owner: str) -> Objection | None:
        """Why a plan is not allowed: the code to tell, and the detail for the owner."""
        share = plan.share(owner)
        against = (
            self.objection(plan.terms, plan.aggregator_key)
            or self._about_epsilon(share.epsilon)
            or self.objection_to_rows(share.rows)
        )
        if against is not None:
            return against
        for name in plan.schema(owner).attributes:
            if not self.allows(name):
                return Reason.ATTRIBUTE_NOT_ALLOWED, f"the attribute '{name}'"
        return self._about_colluders(plan) or self._about_peers(plan, owner)

    def _about_colluders(self, plan: JointPlan) -> Objection | None:
        """Noise that is shared out withstands as many colluding owners as we ask for."""
        if not sums_rows(plan.terms):
            return None
        withstood = among(plan).colluders
        wanted = len(plan.shares) - 1 if self.least_colluders is None else self.least_colluders
        if withstood >= min(wanted, len(plan.shares) - 1):
            return None
        what = f"noise that withstands {withstood} colluding owners; at least {wanted} are to be"
        return Reason.METHOD_NOT_ALLOWED, f"{what} withstood"

    def _about_peers(self, plan: JointPlan, owner: str) -> Objection | None:
        """Peers have the keys that were compared, and do not ask for too many people at once."""
        for share in plan.shares:
            if share.owner == owner:
                continue
            known = (self.peers or {}).get(share.owner)
            if known is not None and not same_fingerprint(known, share.key):
                return Reason.UNKNOWN_PEER, f"'{share.owner}' has another key than the policy says"
            if plan.terms.linkage is not Linkage.NONE and share.rows > self.largest_batch:
                what = f"'{share.owner}' would match {share.rows}; at most {self.largest_batch}"
                return Reason.TOO_MANY_GUESSES, what
        return None

    def objection_to_guesses(self, made: int, more: int) -> Objection | None:
        """Why no more identifiers of others are matched this year: each tells who is here."""
        if made + more <= self.yearly_guesses:
            return None
        what = f"{made} identifiers of others matched this year; {more} more exceed the limit"
        return Reason.TOO_MANY_GUESSES, f"{what} of {self.yearly_guesses}"

    def strangers(self, plan: JointPlan, owner: str) -> tuple[str, ...]:
        """The other owners of a plan whose keys the policy does not name."""
        known = plan.owners if self.peers is None else (*self.peers, owner)
        return tuple(name for name in plan.owners if name not in known)

    def objection_to_rows(self, rows: int) -> Objection | None:
        """Why so few people are not released: of the table, or of those all owners have."""
        if rows >= self.least_rows:
            return None
        return Reason.TOO_FEW_ROWS, f"{rows} rows, fewer than {self.least_rows}"

    def _about_epsilon(self, epsilon: str | None) -> Objection | None:
        if epsilon is None or Fraction(epsilon) <= self.largest_epsilon:
            return None
        most = f"{float(self.largest_epsilon):g}"
        return Reason.EPSILON_TOO_LARGE, f"epsilon {epsilon} in one round, above {most}"


def _wrong(what: str, must: str) -> UsageError:
    return UsageError(f"the policy's {what} is not valid", must=must)


def _listed(data: dict[str, Any], key: str, known: list[str] | None) -> tuple[str, ...]:
    given = data.get(key) or []
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise _wrong(f"'{key}'", "a list")
    if known is not None and not set(given) <= set(known):
        raise _wrong(f"'{key}'", "some of " + ", ".join(known))
    return tuple(given)


def _whole(data: dict[str, Any], key: str, least: int) -> int:
    text = str(data.get(key, least))
    if not text.isdecimal() or int(text) < least:
        raise _wrong(f"'{key}'", f"a whole number from {least}")
    return int(text)


def _amount(data: dict[str, Any], key: str) -> Fraction:
    from sherd.budget.amount import Amount

    return Amount(str(data.get(key, "0"))).epsilon
