"""Methods as cards and parameters as form fields, all taken from what the methods declare."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sherd.errors import FormatError, PlanError, SherdError
from sherd.release.method import Describing, Parameter, find, usable
from sherd.release.plan import Plan
from sherd.tables.csvfile import is_number
from sherd.tables.files import check_unfolded

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sherd.guarantees import Guarantee
    from sherd.release.method import Method
    from sherd.tables.schema import Schema

_SIMPLE = (float, int, str, bool)
_WHOLE, _REAL = 5, 1.0
"""Where a required number starts when nobody has chosen one."""


DIALS = {"epsilon": "ε", "k": "k", "l": "l", "looseness": "looseness"}
"""The parameters that trade protection for use, and how they are written; a map has two at most."""

_KINDS = {
    "differential": "Differential privacy: whatever somebody knows already, one person’s data "
    "hardly changes what they learn",
    "individual": "Individual differential privacy: a weaker promise, by noise that depends on "
    "the data",
    "groups": "Promises about groups: they hold against what the notion assumes, and no more",
}


@dataclass(frozen=True, kw_only=True)
class Card:
    """One method as its card shows it.

    ``problem`` says why it does not fit the schema, ``asks`` what somebody must choose first.
    """

    name: str
    title: str
    summary: str
    kind: str
    not_covered: tuple[str, ...]
    problem: str
    asks: str


def cards(schema: Schema) -> dict[str, list[Card]]:
    """Every method by the kind of its promise, those that fit the schema first."""
    every = [_card(method, schema) for method in usable()]
    by_family = {
        words: sorted((c for c in every if c.kind == kind), key=lambda card: bool(card.problem))
        for kind, words in _KINDS.items()
    }
    return {words: of for words, of in by_family.items() if of}


def _card(method: Method, schema: Schema) -> Card:
    described = list(method.describe()) if isinstance(method, Describing) else []
    lacking = dict.fromkeys(text for each in described for text in each.not_covered)
    problem, asks = "", ""
    try:
        guarantee = trial(method, schema).guarantee(schema)
        uncovered = promise_lines(guarantee).get("Not covered", ())
        lacking |= dict.fromkeys(text.rstrip(".") for text in uncovered)
    except PlanError as error:
        asks = _reason(error)
    except SherdError as error:
        problem = _reason(error)
    if "joint" in method.traits.needs:
        problem = "several parties compute it together, each by the command sherd party"
    promised = described[0].promise if described else ""
    kind = "differential" if "ε" in promised.partition(":")[0] else "groups"
    return Card(
        name=method.name,
        title=method.title,
        summary=method.summary,
        kind="individual" if "individual" in promised else kind,
        not_covered=tuple(lacking),
        problem=problem,
        asks=asks,
    )


def _reason(error: SherdError) -> str:
    return error.what if error.must is None else f"{error.what} (must be: {error.must})"


def dials(method: Method) -> tuple[str, ...]:
    """The parameters over which a map of a method is drawn: none, one or two.

    >>> dials(find("dp-um")), dials(find("dp-graph")), dials(find("mondrian"))
    (('epsilon', 'k'), ('epsilon',), ('k', 'l'))
    """
    known = [parameter.name for parameter in method.parameters]
    return tuple(name for name in DIALS if name in known)[:2]


def trial(method: Method, schema: Schema) -> Plan:
    """A plan with a method's defaults, its required numbers somewhere to start from."""
    plan = Plan(method=method.name, **_start(method))
    plan.check(schema)
    return plan


def _start(method: Method) -> dict[str, Any]:
    numbers = {float: _REAL, int: _WHOLE}
    return {
        p.name: max(numbers[p.kind], p.kind(p.least or 0))
        for p in method.parameters
        if p.required and p.kind in numbers
    }


@dataclass(frozen=True, kw_only=True)
class Field:
    """One parameter as a form shows it."""

    name: str
    help: str
    must: str
    kind: str
    value: str
    required: bool
    choices: tuple[str, ...] = ()
    least: str = ""
    step: str = "any"
    slider: tuple[float, float, float] | None = None
    meaning: str = ""


def fields(method: Method, given: Mapping[str, Any], rows: int | None) -> list[Field]:
    """A method's parameters, the required ones first."""
    values = {**_start(method), **given}
    asked = [_field(p, values.get(p.name, p.default), rows) for p in method.parameters]
    return sorted(asked, key=lambda each: not each.required)


def _field(p: Parameter, value: Any, rows: int | None) -> Field:
    import yaml

    if p.kind in _SIMPLE or value is None or isinstance(value, str):
        text = "" if value is None else str(value).lower() if p.kind is bool else str(value)
    else:
        text = yaml.safe_dump(_plain(value), default_flow_style=True, width=1000).strip()
    kind = {float: "number", int: "number", bool: "choice", str: "text"}.get(p.kind, "yaml")
    choices = p.choices or (("true", "false") if p.kind is bool else ())
    least = p.least if p.least is not None else p.above
    slider = None
    if p.required and p.kind is float:
        slider = (-2.0, 1.3, 0.05)  # of the logarithm to base 10
    elif p.required and p.kind is int:
        slider = (max(1, p.least or 1), max(50, min(1000, (rows or 0) // 20)), 1)
    return Field(
        name=p.name,
        help=p.help,
        must=p.must(),
        kind="choice" if choices else kind,
        value=text,
        required=p.required,
        choices=choices,
        least="" if least is None else f"{least:g}",
        step="1" if p.kind is int else "any",
        slider=slider,
        meaning=meaning(p.name, value, rows),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    if hasattr(value, "items"):
        return {key: _plain(each) for key, each in value.items()}
    return value


def meaning(name: str, value: Any, rows: int | None) -> str:
    """What a parameter's value comes to at this table's size; empty where there is nothing to say.

    >>> meaning("k", 100, 48842)
    'at most 488 groups among 48,842 rows'
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool) or value <= 0:
        return ""
    if name == "k" and rows and value <= rows:
        return f"at most {rows // int(value):,} groups among {rows:,} rows"
    if name == "k" and rows:
        return f"more than the table's {rows:,} rows"
    if name == "epsilon":
        factor = math.exp(min(value, 50))
        size = f"{factor:.3g}" if factor < 1e6 else "more than a million"
        return f"e^ε is {size}; where the promise bounds odds, it is by this factor"
    if name in ("l", "looseness"):
        return f"a guess is right with a probability of at most {100 / value:.3g} %"
    return ""


def plan_of(method: str, form: Mapping[str, str]) -> Plan:
    """The plan that a filled-in form describes; empty fields are not given."""
    import yaml

    chosen: dict[str, Any] = {}
    for p in find(method).parameters:
        text = form.get(p.name, "").strip()
        if not text:
            continue
        if p.kind is str:
            chosen[p.name] = text
            continue
        try:
            check_unfolded(text)
            value = yaml.safe_load(text)
        except (yaml.YAMLError, FormatError):
            raise PlanError(f"the '{p.name}' parameter is not valid", must=p.must()) from None
        # YAML takes 1e-3 for text.
        chosen[p.name] = float(text) if p.kind is float and is_number(text) else value
    return Plan(method=method, **chosen)


@dataclass(frozen=True, kw_only=True)
class PlanCost:
    """What a plan would spend of a population's budget; amounts as text, None without a limit."""

    population: str
    cost: str
    spent: str
    limit: str | None
    left: str | None
    after: str | None
    enough: bool


def budget_of(plan: Plan, schema: Schema, ledger: Path | None) -> PlanCost | None:
    """The budget before and after a release; None where nothing is charged."""
    if ledger is None or plan.parameters.get("epsilon") is None:
        return None
    from sherd.budget.amount import Amount
    from sherd.budget.ledger import Ledger
    from sherd.release.charging import population_of

    cost = Amount(plan.exact("epsilon") * schema.rows_per_unit)
    population = population_of(schema, None)
    account = Ledger(ledger).account(population)
    gone = account.spent + account.reserved
    left = None if account.limit is None else account.limit.less(gone)
    enough = left is None or cost <= left
    return PlanCost(
        population=population,
        cost=str(cost),
        spent=str(account.spent),
        limit=None if account.limit is None else str(account.limit),
        left=None if left is None else str(left),
        after=None if left is None or not enough else str(left.less(cost)),
        enough=enough,
    )


def promise_lines(guarantee: Guarantee) -> dict[str, list[str]]:
    """A guarantee's words by their headings, what is not covered before what is assumed."""
    lines: dict[str, list[str]] = {}
    for line in guarantee.words().splitlines():
        head, _, text = line.partition(": ")
        lines.setdefault(head, []).append(text)
    return dict(sorted(lines.items(), key=lambda pair: pair[0] in ("Only if", "Source")))
