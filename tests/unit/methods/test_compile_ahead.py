"""Kernels compiled ahead: loaded where they fit, never where they do not, and quick."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest

from sherd.methods import compile_ahead, compiled
from sherd.methods.compiled import STEP

FIRST_USE = """
import json, sys, time
import kmedoids  # whose own imports are no business of ours
from sherd.methods.compile_ahead import plans, schema, small_table
from sherd.release.protect import Settings, protect

told = []
settings = Settings(seed=1, progress=lambda step, done, total: told.append(step))
table, declared = small_table(), schema()
asked = [plan for plan in plans() if plan.method in sys.argv[1:]]
times = []
for _ in range(2):
    start = time.process_time()
    for plan in asked:
        protect(table, declared, plan, ledger=None, settings=settings)
    times.append(time.process_time() - start)
print(json.dumps({"first": times[0], "again": times[1], "told": sorted(set(told))}))
"""


@pytest.fixture
def shipped() -> Path:
    """The kernels that setting up compiled for this environment."""
    folder = compiled.SHIPPED / compiled.tag()
    if not folder.is_dir():
        if os.environ.get("SHERD_REQUIRE") == "all":
            pytest.fail("no kernels were compiled ahead: run `make setup`")
        pytest.skip("no kernels were compiled ahead: run `make setup`")
    return folder


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    """A machine on which nothing has been compiled yet."""
    return {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), **more}


def test_first_use_takes_less_than_two_seconds(tmp_path: Path, shipped: Path) -> None:
    """On a machine that has compiled nothing, loading costs at most 2 s of processor time."""
    assert list(shipped.iterdir())
    done = subprocess.run(
        [sys.executable, "-c", FIRST_USE, "slice", "mondrian", "anatomy", "fragment"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    told = json.loads(done.stdout)
    assert STEP not in told["told"], "something was compiled that should have been loaded"
    assert told["first"] - told["again"] <= 2.0
    assert not list((tmp_path / "cache").rglob("*.nbc"))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("shipped")
def test_a_wheel_in_a_clean_environment_compiles_nothing(tmp_path: Path) -> None:
    """With only what it depends on, first use costs at most 2 s of processor time."""
    root = Path(__file__).parents[3]
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "-w", str(tmp_path), str(root)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    clean = tmp_path / "clean"
    venv.create(clean, with_pip=True)
    python = str(clean / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", f"{wheel}[slicing]"]
    subprocess.run(install, check=True, capture_output=True)
    alone = {**environment(tmp_path), "PYTHONPATH": ""}
    done = subprocess.run(
        [python, "-c", FIRST_USE, "slice", "mondrian", "anatomy"],
        env=alone, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert STEP not in told["told"], "something was compiled that should have been loaded"
    assert told["first"] - told["again"] <= 2.0
    assert not list((tmp_path / "cache").rglob("*.nbc"))


@pytest.mark.usefixtures("shipped")
def test_changed_source_or_compiler_is_compiled_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry of other source, another compiler or a lesser processor is not used."""
    from numba.core.registry import cpu_target

    from sherd.methods.slicing.boxes import locate

    function = locate.py_func  # type: ignore[attr-defined]
    store = compiled.KernelStore(compiled.SHIPPED)
    _stamp, kept = pickle.loads(store._path(function).read_bytes())  # noqa: S301 - our own
    sig = next(iter(kept))

    class Signature:
        def __repr__(self) -> str:
            return str(sig)

    def loads() -> bool:
        return store.load(function, Signature(), cpu_target.target_context) is not None

    assert loads()
    with monkeypatch.context() as patch:
        patch.setattr(compiled, "_stamp", lambda _folder: "other source")
        assert not loads()
    with monkeypatch.context() as patch:
        patch.setattr(compiled, "usable", lambda: False)
        assert not loads()
    with monkeypatch.context() as patch:
        patch.setattr(compiled, "tag", lambda: "another-compiler")
        assert not loads()


def test_a_spoilt_entry_is_compiled_afresh(tmp_path: Path) -> None:
    """A file that cannot be read is as good as none."""

    def half(x: int) -> float:
        return x / 2

    store = compiled.KernelStore(tmp_path)
    path = store._path(half)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no pickle at all")
    assert store.load(half, "()", None) is None


def test_an_unknown_kind_of_machine_compiles_nothing_ahead(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Where no level is known, that is said and nothing is written."""
    monkeypatch.setattr(compile_ahead, "level", lambda: None)
    compile_ahead.main(str(tmp_path))
    assert "no kernels are compiled ahead" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


COMPILING = """
import os, signal, sys, threading
import sherd.methods.compiled as compiled
from pathlib import Path
compiled.SHIPPED = Path(sys.argv[1])           # nothing was compiled ahead here
from sherd.methods.compile_ahead import plans, schema, small_table
from sherd.release.protect import Settings, protect

def told(step, done, total):
    if step == compiled.STEP:
        print("compiling", flush=True)

try:
    protect(small_table(), schema(), next(plans()), ledger=None, settings=Settings(progress=told))
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(130)
"""


def test_compiling_is_told_and_can_be_interrupted(tmp_path: Path) -> None:
    """Whoever watches is told that kernels are compiled, and Ctrl-C ends it soon."""
    process = subprocess.Popen(
        [sys.executable, "-c", COMPILING, str(tmp_path / "none")],
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "compiling\n"
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert rest.endswith("interrupted\n")
    assert time.monotonic() - start < 30, "a wide bound: one kernel's time on a busy machine"
