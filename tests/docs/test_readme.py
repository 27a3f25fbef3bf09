"""The README's examples run, its numbers are recomputed, and its names exist."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sherd
from sherd.methods.ranking.individual_ranking import Clusters
from sherd.methods.ranking.sensitivity import (
    cluster_based,
    local,
    loss,
    shifts_of_means,
    shifts_of_trimmed,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(scope="module")
def readme(root: Path) -> str:
    """The README, with all blanks as one."""
    return " ".join((root / "README.md").read_text(encoding="utf-8").split())


def test_the_quickstart_runs(
    root: Path, tmp_path: Path, run_page: Callable[[Path], dict[str, Any]]
) -> None:
    """The Python block makes a release, and the commands make, verify and account for one."""
    text = (root / "README.md").read_text(encoding="utf-8")
    python = re.findall(r"^```python\n.*?^```$", text, re.MULTILINE | re.DOTALL)
    console = re.findall(r"^```console\n.*?^```$", text, re.MULTILINE | re.DOTALL)
    assert len(python) == len(console) == 1
    assert python[0].count("\n") <= 12
    (tmp_path / "python.md").write_text(python[0] + "\n", encoding="utf-8")
    names = run_page(tmp_path / "python.md")
    assert names["release"].table.num_rows == 48842
    assert (tmp_path / "out" / "manifest.json").is_file()
    (tmp_path / "out").rename(tmp_path / "from-python")
    (tmp_path / "console.md").write_text(console[0] + "\n", encoding="utf-8")
    run_page(tmp_path / "console.md")
    saved = sherd.Release.load(tmp_path / "out").manifest
    assert saved["plan"] == names["release"].manifest["plan"]
    assert saved["guarantee"] == names["release"].manifest["guarantee"]
    assert saved["budget"]["spent"] == "1"


def _clusters(values: list[int], k: int) -> Clusters:
    grid = np.array(values).reshape(-1, k)
    return Clusters(
        sizes=np.full(len(grid), k),
        sums=grid.sum(axis=1),
        low=tuple(grid[:, i] for i in range(3)),
        high=tuple(grid[:, -1 - i] for i in range(3)),
    )


def test_the_numbers_of_the_small_examples_are_true(readme: str) -> None:
    """The bound and the two counter-examples are what the code computes."""
    assert f"1 + ln 2 = {1 + math.log(2):.2f} times their share of ε with `idp-ls`" in readme
    halves = _clusters([0, 0, 0, 1, 1, 1], 3)
    factor = loss(shifts_of_means(halves, 2), local(halves, 2))
    assert f"0, 0, 0, ½, ½, ½ on [0, 1] with `idp-ls` at k = 3: {factor:g} times" in readme
    nine = _clusters(list(range(1, 10)), 3)
    factor = loss(shifts_of_trimmed(nine), cluster_based(nine))
    assert f"1 … 9 with `idp-cbls` at k = 3: {factor:g} times" in readme


def test_the_numbers_of_the_wine_table_are_true(readme: str) -> None:
    """What idp-cbls spends and leaves without noise on Wine Quality is recomputed."""
    plan = sherd.Plan(method="idp-cbls", epsilon=1.0, k=5, guarantee="paper")
    release = sherd.protect(sherd.datasets.load("wine"), sherd.datasets.schema("wine"), plan)
    found = {f.name: float(f.value) for f in release.findings if f.attribute is None}
    spent = found["epsilon with clusters recomputed"]
    share = found["share without noise"]
    assert (
        "`idp-cbls` at k = 5 and a stated ε of 1 really spends "
        f"{spent:.0f}, and publishes {share:.0%} of all cells"
    ).replace("%", " %") in readme


def test_the_methods_named_exist_with_their_promises(root: Path) -> None:
    """The table of methods names all methods of the directory, and the variants of promises."""
    from sherd.methods import describe
    from sherd.release.method import names

    text = (root / "README.md").read_text(encoding="utf-8")
    section = text.split("## What it protects and what it does not")[1].split("\n## ")[0]
    named = set(re.findall(r"^\| `([a-z-]+)`", section, re.MULTILINE))
    assert named == set(names())
    for promise in ("paper", "centroids", "strict"):
        assert f'guarantee="{promise}"' in section
    variants = {one["name"] for name in named for one in describe(name)["promises"]}
    assert variants - {None} == {"paper", "centroids", "strict"}


def test_the_extras_are_those_of_the_package(root: Path) -> None:
    """The table of extras lists all optional parts and no other."""
    import tomllib

    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    section = (root / "README.md").read_text(encoding="utf-8").split("## Installation")[1]
    listed = re.findall(r"^\| `([a-z-]+)` \|", section.split("\n## ")[0], re.MULTILINE)
    assert sorted(listed) == sorted(project["project"]["optional-dependencies"])


def test_the_two_commands_are_targets(root: Path) -> None:
    """`make demo` and `make test`, and every other target the texts name, exist."""
    targets = set(
        re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    for name in ("README.md", "CONTRIBUTING.md"):
        text = (root / name).read_text(encoding="utf-8")
        assert set(re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)`", text, re.MULTILINE))
        for pair in re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)`", text, re.MULTILINE):
            assert (pair[0] or pair[1]) in targets
