"""The reference of measures and attacks, written from the catalogue itself.

``python -m measures_reference > docs/reference/measures.md`` writes it again; a test says
when that is due.
"""

from __future__ import annotations

import sys

from sherd.auditing.attacks import ATTACKS
from sherd.auditing.attacks.insider import attack_of
from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.verdict.significance import NOTICEABLE, SERIOUS
from sherd.auditing.verdict.verdict_points import FAIR, GOOD
from sherd.report.words import SIDES

_NEEDS = {
    "pairs": "the pairs of records (`--row-map`, or a release that was just made)",
    "rows": "a release made of records",
    "control": "people who took no part (`--holdout`), or a plan that can be run again",
    "target": "a column to predict (`--target`)",
    "run": "a ranking method",
    "clusters": "records masked in clusters (a ranking method with k above 1)",
    "matched": "the pairs of records, or a plan that can be run again",
}


def reference() -> str:
    """The page as Markdown."""
    lines = [
        "# Measures and attacks",
        "",
        "Everything `sherd audit` measures. Each number in a report comes with a 95 % confidence",
        "interval or the exact count behind it, a yardstick to hold it against, and a label:",
        "*publishable* numbers are computed from the release (or from the method) alone;",
        "*internal* ones from the original data, which no guarantee covers.",
    ]
    for side, title in SIDES.items():
        lines += ["", f"## {title}"]
        for spec in CATALOGUE.values():
            if spec.side is not side:
                continue
            needs = "; ".join(_NEEDS[need] for need in spec.needs) or "nothing else"
            lines += [
                "",
                f"### {spec.title} (`{spec.code}`)",
                "",
                f"- Definition: {spec.definition}.",
                f"- Range: {spec.range}; {spec.better} is better.",
                f"- Meaning: {spec.meaning}.",
                f"- Label: {spec.label}. Needs: {needs}.",
            ]
    lines += [
        "",
        "## The attacks",
        "",
        "Each is an object of `sherd.auditing.attacks.ATTACKS` that says the following of itself.",
    ]
    for attack in (*ATTACKS, attack_of({})):
        codes = ", ".join(f"`{code}`" for code in attack.codes)
        lines += [
            "",
            f"### {attack.title} (`{attack.name}`)",
            "",
            f"- Knows: {attack.knows}.",
            f"- Does: {attack.does}.",
            f"- Wins: {attack.wins}.",
            f"- Yields: {codes}. Source: {attack.source}.",
        ]
    lines += [
        "",
        "## The verdict",
        "",
        "- Risk is *serious* where an attack of somebody who does not know all other records wins",
        f"  at least {SERIOUS:.0%} of what is possible above its baseline (at the lower end of its",
        "  interval), or most cells are unchanged; *noticeable* from "
        f"{NOTICEABLE:.0%}; else *low*.",
        "  Headline, marks and colours follow the same rule: an attack is crossed where it is",
        "  at least noticeable.",
        f"- Usefulness is *high* where pairs of attributes are off by at most {GOOD:.2f} (total",
        f"  variation, less what honest sampling costs), *fair* up to {FAIR:.2f}, else *poor*.",
        "- The promise *fails* where a check of the files fails, where the exact loss on the table",
        "  exceeds the claimed ε, or where test runs refute it; it *holds* as far as all that was",
        "  tried found nothing. The two tests by runs raise a false alarm in at most 5 % of audits",
        "  together.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(reference())
