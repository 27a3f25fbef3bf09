"""The wheel without extras, in an environment of its own: what it can do, and what it asks for."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CONSTRAINTS = """
constraints: [[age, income]]
"""
HIDDEN = ("--set", "sensitive=[occupation]")
NEEDS = {
    "audit": (["audit", ":wine", "out"], "report"),
    "mondrian": (["protect", ":adult", "-m", "mondrian", "-k", "5", "-o", "m"], "slicing"),
    "slice": (
        ["protect", ":adult", "-m", "slice", "-l", "2", *HIDDEN, "-o", "s"],
        "slicing",
    ),
    "anatomy": (
        ["protect", ":adult", "-m", "anatomy", "-l", "2", *HIDDEN, "-o", "a"],
        "slicing",
    ),
    "fragment": (
        ["protect", ":adult", "-m", "fragment", "--constraints", "c.yaml", "--looseness", "2",
         "-o", "f"],
        "fragments",
    ),
    "key": (["key", "mine.key"], "federation"),
    "studio": (["studio"], "studio"),
    "aggregator": (["aggregator", "init", "--home", "home"], "federation"),
}  # fmt: skip


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of a fresh environment that has the built wheel and no extra."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "env", with_pip=True)
    place = folder / "env" / "bin"
    install = [str(place / "python"), "-m", "pip", "install", "-q", str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=900)
    (folder / "c.yaml").write_text(CONSTRAINTS)
    made = _said(place / "sherd", folder, "protect", ":wine", "-m", "dp-um", "-e", "1", "-k", "50",
                 "--ledger", "none", "-o", "out")  # fmt: skip
    assert made.returncode == 0, made.stderr
    return place / "sherd"


def _said(command: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(command), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder)},
    )


def test_the_core_protects_and_verifies(core: Path) -> None:
    """Five methods of ranking, diffgen, dp-graph and verification need no extra."""
    folder = core.parents[2]
    assert _said(core, folder, "verify", "out").returncode == 0
    for method, more in (("dp", ()), ("diffgen", ())):
        made = _said(core, folder, "protect", ":nursery", "-m", method, "-e", "1", *more,
                     "--ledger", "none", "-o", method)  # fmt: skip
        assert made.returncode == 0, made.stderr


@pytest.mark.parametrize("name", NEEDS)
def test_what_needs_an_extra_names_it_and_ends_with_three(name: str, core: Path) -> None:
    """No traceback, and the very command that installs it."""
    arguments, extra = NEEDS[name]
    found = _said(core, core.parents[2], *arguments)
    assert found.returncode == 3, (found.returncode, found.stdout, found.stderr)
    assert f"pip install 'sherd[{extra}]'" in found.stderr
    assert "Traceback" not in found.stderr
