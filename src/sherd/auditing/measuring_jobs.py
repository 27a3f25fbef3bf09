"""Every group of measures with what computes it, and what a measure needs that is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sherd.auditing.attacks import ATTACKS
from sherd.auditing.case.row_sample import with_error
from sherd.auditing.catalogue import CATALOGUE
from sherd.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sherd.auditing.attacks.attack import Attack
    from sherd.auditing.case.case import Case
    from sherd.auditing.verdict.measure import Measure
    from sherd.tables.prepare import Treated

REASONS = {
    "pairs": "needs --row-map (or a release that was just made): which original stands behind "
    "which released row",
    "rows": "needs a release made of records",
    "control": "needs --holdout, or a plan that can be run again on half of the table",
    "target": "needs --target: a column to predict",
    "run": "needs a ranking method that can be run again",
    "clusters": "needs records masked in clusters, by ranking with k above 1",
    "matched": "needs --row-map, or a plan that can be run again on half of the table",
}


def lacking(case: Case, code: str, no_control: str) -> tuple[str, str] | None:
    """What a measure needs and does not have, and that in words."""
    have = {
        "pairs": case.order is not None,
        "rows": case.records,
        "control": case.control is not None,
        "target": case.target is not None,
        "run": True,
        "clusters": case.clustered,
        "matched": case.matched() is not None,
    }
    for need in CATALOGUE[code].needs:
        if not have[need]:
            return need, no_control if need == "control" and no_control else REASONS[need]
    return None


Jobs = list[tuple[tuple[str, ...], "Callable[[], list[Measure]]"]]


def whole_jobs(case: Case, plan: Mapping[str, Any], treated: Sequence[Treated]) -> Jobs:
    """Measures that look at every record, however many there are, with what computes them."""
    from sherd.auditing.promise_check import table_loss
    from sherd.auditing.utility import cell_loss, coarseness, moments

    jobs: Jobs = [
        (("mean-sse", "il1s"), lambda: cell_loss.cell_losses(case)),
        (("means", "variances", "quantiles"), lambda: moments.moments(case)),
        (("suppressed",), lambda: cell_loss.suppressed(case)),
        (("ncp", "discernibility"), lambda: coarseness.generalisation(case)),
        (
            ("clamped", "recoded", "dropped", "left-out"),
            lambda: cell_loss.treatment(case, treated),
        ),
        (("loss-factor",), lambda: table_loss(case, plan)),
    ]
    return jobs + _attacks([one for one in ATTACKS if one.whole], case)


def sampled_jobs(
    case: Case, plan: Mapping[str, Any], owners: Mapping[str, Sequence[str]] | None
) -> tuple[Jobs, list[Any]]:
    """Measures that a sample does for; association matrices are kept aside."""
    from sherd.auditing.promise_check import measured_epsilon
    from sherd.auditing.utility import moments, queries, trained_models
    from sherd.auditing.utility.trained_models import propensity

    matrices: list[Any] = []

    def associations(one: Case) -> list[Measure]:
        measures, before, after = moments.associations(one)
        matrices.append((before, after))
        return measures

    jobs: Jobs = [
        (
            ("marginals-1", "marginals-2", "marginals-3"),
            lambda: with_error(case, moments.marginals),
        ),
        (("associations",), lambda: with_error(case, associations)),
        (("queries", "association-utility"), lambda: queries.queries(case)),
        (("pmse", "distinguishable"), lambda: propensity(case)),
        (
            ("forest-accuracy", "forest-f", "tree-accuracy", "tree-f"),
            lambda: trained_models.models(case),
        ),
    ]
    attacks = [one for one in ATTACKS if not one.whole]
    if owners:
        from sherd.auditing.attacks.insider import attack_of

        attacks.append(attack_of(_checked(owners, case)))
    jobs += _attacks(attacks, case)
    jobs.append(
        (
            ("epsilon-frozen", "epsilon-recomputed"),
            lambda: measured_epsilon(plan, seed=case.seed, runs=case.limits.runs),
        )
    )
    return jobs, matrices


def _attacks(attacks: Sequence[Attack], case: Case) -> Jobs:
    return [(attack.codes, lambda attack=attack: attack.run(case)) for attack in attacks]  # type: ignore[misc]


def _checked(owners: Mapping[str, Sequence[str]], case: Case) -> Mapping[str, Sequence[str]]:
    for owner, names in owners.items():
        for name in names:
            if name not in case.names:
                raise UsageError(
                    f"the owner '{owner}' is given the column '{name}', which is not released",
                    must="one of " + ", ".join(case.names),
                )
    return owners
