"""A peer that is not to be had is named with the reason; its own source can take its place."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture
def environments(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, where an Rscript is on the path and R has no package of sdcMicro."""
    peers = Path(__file__).parents[3] / "benchmarks" / "peers"
    monkeypatch.syspath_prepend(str(peers))
    module = importlib.import_module("environments")
    monkeypatch.setattr(module.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(subprocess, "run", lambda *_a, **_k: SimpleNamespace(returncode=1))
    monkeypatch.delenv(module.SDCMICRO_SOURCES, raising=False)
    return module


def test_the_package_comes_first(environments: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources are not looked at where R has the package."""
    done = SimpleNamespace(returncode=0, stdout="5.7.8")
    monkeypatch.setattr(subprocess, "run", lambda *_a, **_k: done)
    monkeypatch.setenv(environments.SDCMICRO_SOURCES, "/nowhere")
    assert environments.rscript() == ("/usr/bin/Rscript", "the package, version 5.7.8")


def test_sources_are_named_by_commit_and_hash(
    environments: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is recorded says which file ran."""
    (tmp_path / "R").mkdir()
    monkeypatch.setenv(environments.SDCMICRO_SOURCES, str(tmp_path))
    with pytest.raises(environments.PeerMissingError, match=r"without R/microaggregation\.R"):
        environments.rscript()
    (tmp_path / "R" / "microaggregation.R").write_text("f <- 1\n")
    (tmp_path / "COMMIT").write_text("sdcMicro abc\n")
    _program, told = environments.rscript()
    assert told.startswith("no package: its own R/microaggregation.R of sdcMicro abc, sha256 ")


def test_without_package_and_sources_it_is_left_out(environments: Any) -> None:
    """The reason names the variable."""
    with pytest.raises(environments.PeerMissingError, match=environments.SDCMICRO_SOURCES):
        environments.rscript()
