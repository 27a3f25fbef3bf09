"""What those who made a joint model together see of it: noise less what they drew themselves.

Outsiders face all of the noise, which is checked for every release. Owners of rows who collude,
and a party that computes, know their own parts; what the rest costs is worked out here again.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sherd.guarantees.concentrated import delta_of
from sherd.verifying.check import Check

if TYPE_CHECKING:
    from collections.abc import Mapping


def insider_checks(document: Mapping[str, Any], manifest: Mapping[str, Any]) -> list[Check]:
    """The checks of a model that owners of rows, or parties, learned together."""
    if "joint" in manifest:
        return [_colluders(document, manifest["joint"]["plan"])]
    if "insiders" in manifest["facts"]:
        return [_parties(document, manifest)]
    return []


def _colluders(document: Mapping[str, Any], plan: Mapping[str, Any]) -> Check:
    """What owners of rows who collude see, without their own parts of the noise."""
    owners = len(plan["shares"])
    colluders = min(plan["terms"].get("colluders", owners - 1), owners - 1)
    scales = [Fraction(one["scale"]) for one in (*document["fine"], *document["marginals"])]
    faced = sum((Fraction(owners, owners - colluders) / scale**2 for scale in scales), Fraction(0))
    total = Fraction(document["total"])
    passed = document["noise"] == "gaussian" and faced <= total
    detail = (
        f"costs {float(faced):.6g} of the ρ = {float(total):.6g} that the plan allows, for "
        f"{colluders} of {owners} owners"
    )
    return Check(
        name="noise that colluders face",
        passed=passed,
        detail=detail if passed else "costs more than the plan allows",
    )


def _parties(document: Mapping[str, Any], manifest: Mapping[str, Any]) -> Check:
    """What one of the parties that computed sees, without its own part of the noise."""
    given, hosts = manifest["facts"]["insiders"], len(manifest["facts"]["computing"])
    stated = manifest["plan"]["delta"]
    rho, delta = Fraction(document["spent"]) * hosts / (hosts - 1), Fraction(repr(stated))
    passed = Fraction(given["rho"]) == rho and given["delta"] == stated
    most = Decimal(delta.numerator) / Decimal(delta.denominator)
    passed = passed and delta_of(rho, Fraction(repr(given["epsilon"]))) <= most
    detail = f"leaves each of {hosts} parties an epsilon of {given['epsilon']:g}, as stated"
    return Check(
        name="noise that parties face",
        passed=passed,
        detail=detail if passed else "is not what is stated for the parties that computed",
    )
