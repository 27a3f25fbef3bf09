"""How epsilon is shared out over the owners, and what the shares add up to.

Horizontal (paper, section 4.2.1): people are disjoint, every owner masks with the same ε,
and by parallel composition (Theorem 2) the union has ε. Vertical (4.2.2): attributes are
disjoint, people the same, and by sequential composition (Theorem 1) the joined release has
the sum Σ ε_j. Blocks: the owners of the same attributes have different people, and a person's
cells are at one owner of every group, so the release has the sum over groups of the largest ε
in each. The paper gives every owner ε/m, which gives an owner with few attributes more
per attribute than one with many; the default here is proportional to the number of protected
attributes (to their weights where given), so that every attribute is masked as in the pooled
table. Shares are whole micro-epsilon and add up to ε exactly.

Everybody recomputes: the aggregator when it makes a plan, every owner before it signs one.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from sherd.budget.amount import MICRO, Amount
from sherd.errors import PlanError, SchemaError, SherdError
from sherd.federation.protocol.agreement import column_groups, disagreements, in_blocks
from sherd.federation.protocol.joint_plan import (
    JointPlan,
    Kind,
    Offer,
    Share,
    Sharing,
    Terms,
    exact,
    local_plan,
)
from sherd.federation.protocol.messages import MOST_TEXT
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.summing import sums_rows, unsound_sums
from sherd.values import canonical_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sherd.federation.protocol.agreement import Groups
    from sherd.tables.schema import Schema

PARALLEL = "parallel"
SEQUENTIAL = "sequential"
BLOCKWISE = "sequential over attributes, parallel over people"


def shares(terms: Terms, schemas: Mapping[str, Schema]) -> dict[str, str | None]:
    """Every owner's share of epsilon, as a decimal; None for a method without one."""
    if terms.epsilon is None:
        return dict.fromkeys(schemas)
    total = exact(terms.epsilon)
    if terms.kind is Kind.HORIZONTAL:
        return dict.fromkeys(schemas, terms.epsilon)
    groups = _groups(terms.kind, schemas)
    if terms.sharing is Sharing.GIVEN:
        given = {owner: exact(terms.given[owner]) for owner in schemas}
        spent = sum((max(given[owner] for owner in members) for members in groups), Fraction(0))
        if spent > total:
            raise PlanError(
                "the owners' shares exceed epsilon",
                must=f"at most {terms.epsilon} in all",
                got=_text(spent),
            )
        return {owner: _text(part) for owner, part in given.items()}
    equal = terms.sharing is Sharing.EQUAL
    weights = {
        members[0]: Fraction(1) if equal else _weight(terms, schemas[members[0]])
        for members in groups
    }
    parts = _apportioned(total, weights)
    return {owner: parts[members[0]] for members in groups for owner in members}


def _groups(kind: Kind, schemas: Mapping[str, Schema]) -> Groups:
    """The owners whose people are different ones: of the same attributes, in a round of blocks."""
    if kind is Kind.BLOCKS:
        return column_groups(schemas)
    return tuple((owner,) for owner in schemas)


def _apportioned(total: Fraction, weights: Mapping[str, Fraction]) -> dict[str, str | None]:
    """Whole micro-epsilon in proportion to the weights, adding up to the total exactly.

    Largest remainders first, as seats in a parliament; ties go by the owners' names.
    """
    whole, micros = sum(weights.values()), int(total * MICRO)
    exact_parts = {owner: micros * weight / whole for owner, weight in weights.items()}
    parts = {owner: int(part) for owner, part in exact_parts.items()}
    left = micros - sum(parts.values())
    by_remainder = sorted(parts, key=lambda owner: (parts[owner] - exact_parts[owner], owner))
    for owner in by_remainder[:left]:
        parts[owner] += 1
    if min(parts.values()) < 1:
        raise PlanError("an owner's share of epsilon is too small", do="raise epsilon")
    return {owner: _text(Fraction(micro, MICRO)) for owner, micro in parts.items()}


def _weight(terms: Terms, schema: Schema) -> Fraction:
    given = dict(terms.parameters.get("weights") or {})
    try:
        return sum((Fraction(repr(given.get(n, 1))) for n in schema.protected), Fraction(0))
    except (ValueError, ZeroDivisionError):
        raise PlanError("a weight is not a number", must="numbers above 0") from None


def _text(value: Fraction) -> str:
    return str(Amount(value))


def composed(
    kind: Kind, epsilons: Mapping[str, str | None], groups: Groups = ()
) -> tuple[str, str | None, str | None]:
    """The rule, the epsilon of the release, and that of a person whom every owner has.

    >>> composed(Kind.VERTICAL, {"a": "0.3", "b": "0.7"})
    ('sequential', '1', '1')
    >>> composed(Kind.HORIZONTAL, {"a": "0.5", "b": "0.5"})
    ('parallel', '0.5', '1')
    >>> composed(Kind.BLOCKS, {"a": "0.3", "b": "0.3", "c": "0.7"}, (("a", "b"), ("c",)))
    ('sequential over attributes, parallel over people', '1', '1.3')
    """
    rule = {Kind.HORIZONTAL: PARALLEL, Kind.VERTICAL: SEQUENTIAL, Kind.BLOCKS: BLOCKWISE}[kind]
    known = {owner: exact(text) for owner, text in epsilons.items() if text is not None}
    if not known:
        return rule, None, None
    total = _text(sum(known.values(), Fraction(0)))
    if kind is Kind.HORIZONTAL:
        return rule, _text(max(known.values())), total
    if kind is Kind.BLOCKS:
        most = [max(known[owner] for owner in members) for members in groups]
        return rule, _text(sum(most, Fraction(0))), total
    return rule, total, total


def make_plan(
    terms: Terms, offers: Mapping[str, Offer], keys: Mapping[str, str], aggregator_key: str
) -> JointPlan:
    """The plan the aggregator proposes for these offers."""
    parsed = {owner: offer.parsed() for owner, offer in offers.items()}
    parts = shares(terms, parsed)
    distinct = {(schema.hash, parts[owner]): schema for owner, schema in parsed.items()}
    for (_, epsilon), schema in distinct.items():
        local_plan(terms, epsilon, schema).check(schema)
    rule, total, bound = composed(terms.kind, parts, _groups(terms.kind, parsed))
    plan = JointPlan(
        terms=terms,
        aggregator_key=aggregator_key,
        shares=tuple(
            Share(
                owner=owner,
                key=keys[owner],
                epsilon=parts[owner],
                rows=offer.rows,
                schema_hash=parsed[owner].hash,
                mask_key=offer.mask_key,
            )
            for owner, offer in offers.items()
        ),
        schemas={parsed[owner].hash: offer.schema for owner, offer in offers.items()},
        composition=rule,
        composed=total,
        bound=None if sums_rows(terms) else bound,
        coded=all(offer.coded for offer in offers.values()) or None,
    )
    wrong = unsound_sums(plan)
    if wrong is not None:
        raise PlanError(wrong)
    return plan


def plan_or_reason(
    terms: Terms, offers: Mapping[str, Offer], keys: Mapping[str, str], aggregator_key: str
) -> JointPlan | tuple[Reason, tuple[str, ...]]:
    """The plan for these offers, or why there is none."""
    differences = disagreements(terms, offers)
    if differences is not None:
        return differences[0], tuple(differences[1])
    try:
        plan = make_plan(terms, offers, keys, aggregator_key)
    except (PlanError, SchemaError) as error:
        return Reason.PLAN_UNSOUND, (error.what,)
    if len(canonical_text(plan)) > MOST_TEXT:
        return Reason.TOO_LARGE, (f"the plan is longer than {MOST_TEXT} bytes",)
    return plan


def unsound(plan: JointPlan) -> tuple[Reason, str] | None:
    """What is wrong with a plan when everything in it is computed again; None if nothing."""
    terms = plan.terms
    if len(set(plan.owners)) != len(plan.shares) or not set(plan.owners) <= set(terms.owners):
        return Reason.PLAN_UNSOUND, "the plan's owners are not those of the terms"
    if len(plan.shares) < terms.least_owners:
        return Reason.PLAN_UNSOUND, "the plan has fewer owners than the terms ask for"
    try:
        schemas = {owner: plan.schema(owner) for owner in plan.owners}
        expected = shares(terms, schemas)
        if terms.kind is Kind.BLOCKS and (wrong_blocks := in_blocks(schemas)) is not None:
            return Reason.PLAN_UNSOUND, wrong_blocks[1][0]
        distinct = {(share.schema_hash, share.epsilon): share.owner for share in plan.shares}
        for (schema_hash, _), owner in distinct.items():
            if schemas[owner].hash != schema_hash:
                return Reason.PLAN_UNSOUND, "a schema does not match its hash"
            plan.local(owner).check(schemas[owner])
        wrong = unsound_sums(plan)
        if wrong is not None:
            return Reason.PLAN_UNSOUND, wrong
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
        # The plan is foreign: whatever its parameters do to a method's own checks, it is unsound.
        what = error.what if isinstance(error, SherdError) else type(error).__name__
        return Reason.PLAN_UNSOUND, f"the plan cannot be carried out: {what}"
    given = {share.owner: share.epsilon for share in plan.shares}
    if given != expected:
        return Reason.PLAN_UNSOUND, "the shares of epsilon are not those of the sharing rule"
    rule, total, bound = composed(terms.kind, given, _groups(terms.kind, schemas))
    bound = None if sums_rows(terms) else bound
    if (plan.composition, plan.composed, plan.bound) != (rule, total, bound):
        return Reason.PLAN_UNSOUND, "the composed epsilon is not that of the shares"
    if plan.composed is not None and exact(plan.composed) > exact(terms.epsilon or "0"):
        return Reason.PLAN_UNSOUND, "the shares compose to more than epsilon"
    return None
