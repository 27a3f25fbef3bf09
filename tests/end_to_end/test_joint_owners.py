"""More owners than computing parties, with different people: real processes over TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from parties import PLAIN, consortium, joint_python

import sherd

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize(
    ("owners", "computing"),
    [("abcd", "bd"), pytest.param("abcde", "ace", marks=pytest.mark.slow)],
)
def test_owners_that_do_not_compute_take_part(tmp_path: Path, owners: str, computing: str) -> None:
    """With next to no noise, all end with the counts of the people whom all have.

    Owners that do not compute run in an environment without SPU. A count is off by more than 3
    with a chance below 10^-10, and by anything with one below 1 %.
    """
    spu = joint_python()
    people = {owners[0]: range(20, 200), owners[1]: range(150)}
    parties = consortium(
        tmp_path, owners, epsilon=25, people=people, compute=list(computing)
    )  # fmt: skip
    codes = parties.run({name: spu if name in computing else PLAIN for name in owners})
    assert set(codes.values()) == {0}, parties.logs()
    made = [sherd.Release.load(folder / "release") for folder in parties.folders.values()]
    release = made[0]
    assert all(one.tables["data"].equals(release.tables["data"]) for one in made)
    assert parties.charges() == [[25.0]] * len(owners)
    exact = np.array(parties.exact_counts(release, range(20, 150)))
    off = np.abs(release.tables["data"].column("count").to_numpy() - exact)
    assert off.max() <= 3
    assert (off == 0).mean() > 0.6
    facts = release.manifest["facts"]
    assert facts["computing"] == list(computing)
    assert facts["protocol"] == {2: "CHEETAH", 3: "ABY3"}[len(computing)]
    assert facts["rows"] == 130
    assert sorted(facts["parties"]) == list(owners)
