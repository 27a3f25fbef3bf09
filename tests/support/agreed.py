"""What parties of a joint release may hold and agree on: shared by the tests that compare them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy.stats import chi2

import sherd
from sherd.methods.specialising.arbdistdp import Agreement
from sherd.methods.specialising.hierarchy import Hierarchy
from sherd.methods.specialising.scores import Budget


@st.composite
def attributes(draw: st.DrawFn, *, top: int, labels: int, groups: int) -> dict[str, Any]:
    """A number from 0 to ``top`` at most, or labels without or with a random taxonomy."""
    kind = draw(st.sampled_from(["number", "labels", "tree"]))
    if kind == "number":
        return {"type": "integer", "domain": ["0", str(draw(st.integers(1, top)))]}
    named = [f"v{i}" for i in range(draw(st.integers(1, labels)))]
    if kind == "labels":
        return {"type": "category", "values": named}
    above = [f"g{draw(st.integers(0, groups - 1))}" for _ in named]
    paths = [[label, group, "*"] for label, group in zip(named, above, strict=True)]
    return {"type": "category", "taxonomy": paths}


def agreement() -> Agreement:
    """Two attributes, a number and labels, two classes, three specialisations."""
    schema = sherd.Schema.from_data(
        {
            "attributes": {
                "x": {"type": "integer", "domain": ["0", "9"]},
                "y": {"type": "category", "values": ["a", "b", "c"]},
            }
        }
    )
    return Agreement(
        hierarchies=tuple(Hierarchy.of(a) for a in schema),
        class_name="c",
        class_labels=("n", "y"),
        utility="max",
        budget=Budget(epsilon=Fraction(1), specialisations=3, numeric=1, sensitivity=1),
        max_leaves=50,
    )


def uniform(words: np.ndarray, bits: int = 8) -> float:
    """Chi-squared fit of the top and bottom bits to uniformity, the worse of the two."""
    fits, values = [], 2**bits
    for shift in (0, 64 - bits):
        cut = (words >> np.uint64(shift)).astype(np.int64) & (values - 1)
        seen, expected = np.bincount(cut, minlength=values), words.size / values
        fits.append(float(chi2.sf(((seen - expected) ** 2 / expected).sum(), values - 1)))
    return min(fits)
