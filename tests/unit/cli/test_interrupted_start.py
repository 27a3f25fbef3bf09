"""Ctrl-C while the command line is still being imported, and where Python drops it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sherd

IMPORTING = """
import os, signal
os.kill(os.getpid(), signal.SIGINT)
"""

SWALLOWED = {
    "a destructor": """
class Gone:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
Gone()
""",
    "a weak reference's callback": """
import weakref
class Gone: pass
gone = Gone()
def gone_now(_):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)
kept = weakref.ref(gone, gone_now)
del gone
""",
    "a callback from C": """
import ctypes
def ask():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)
ctypes.CFUNCTYPE(None)(ask)()
""",
    "code that drops every error": """
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)
except BaseException:
    pass
""",
    "an extension that is being imported": """
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)
except BaseException:
    raise RuntimeError("cannot load")
""",
    "an import of an optional part": """
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)
except BaseException:
    raise ImportError("cannot load", name="numba") from None
""",
}


def _run(code: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    "start", [["-m", "sherd"], [str(Path(sherd.__file__).parent / "__main__.py")]]
)
def test_an_interrupt_during_imports_is_told_in_one_line(tmp_path: Path, start: list[str]) -> None:
    """Exit code 130 and no traceback: here while click is imported, the first of our imports."""
    (tmp_path / "click.py").write_text(IMPORTING)
    done = subprocess.run(
        [sys.executable, *start, "--help"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 130
    assert done.stderr.strip() == "interrupted: nothing was written"


def test_nothing_is_imported_before_an_interrupt_can_be_told() -> None:
    """Until then Ctrl-C is a traceback; what Python does before our first line is its own."""
    place = Path(sherd.__file__).parent / "__main__.py"
    code = (
        f"import sys; code = open({str(place)!r}).read(); old = set(sys.modules); "
        "exec(code, {'__name__': 'started'}); "
        "print(*sorted(set(sys.modules) - old))"
    )
    done = _run(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_the_command_is_installed_as_our_own_file() -> None:
    """An entry point's file would import regular expressions before our first line."""
    root = Path(__file__).parents[3]
    settings = (root / "pyproject.toml").read_text(encoding="utf-8")
    assert '"src/sherd/__main__.py" = "sherd"' in settings
    assert "[project.scripts]" not in settings
    assert os.access(root / "src" / "sherd" / "__main__.py", os.X_OK)


@pytest.mark.parametrize("place", list(SWALLOWED))
def test_an_interrupt_that_was_swallowed_is_asked_for_again(place: str) -> None:
    """Wherever Python or an extension drops it, the run ends with 130 and one line."""
    code = f"""
import os, signal, time, click
import sherd.cli
@click.command()
def go():
{"".join(f"    {line}{chr(10)}" for line in SWALLOWED[place].splitlines())}
    for _ in range(1000):
        time.sleep(0.02)
    print("went on")
sherd.cli.cli = go
sherd.cli.main([])
"""
    done = _run(code)
    assert done.returncode == 130, done.stderr
    assert done.stderr.strip() == "interrupted: nothing was written"
    assert done.stdout == ""


def test_what_is_undone_is_undone_in_peace() -> None:
    """Asked once, the clean-up of `finally` and `with` is not interrupted by asking again."""
    code = """
import contextlib, os, signal, time, click
import sherd.cli
@contextlib.contextmanager
def held():
    try:
        yield
    except BaseException:
        time.sleep(0.4)
        print("put back")
        raise
@click.command()
def go():
    try:
        with held():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
    finally:
        time.sleep(0.4)
        print("closed")
sherd.cli.cli = go
sherd.cli.main([])
"""
    done = _run(code)
    assert done.returncode == 130, done.stderr
    assert done.stdout == "put back\nclosed\n"
    assert done.stderr.strip() == "interrupted: nothing was written"


def test_interrupts_that_the_shell_switched_off_stay_off() -> None:
    """`nohup sherd … &` in a script goes on when somebody presses Ctrl-C there."""
    code = """
import os, signal, click
signal.signal(signal.SIGINT, signal.SIG_IGN)
import sherd.cli
@click.command()
def go():
    os.kill(os.getpid(), signal.SIGINT)
    print("went on")
sherd.cli.cli = go
sherd.cli.main([])
"""
    done = _run(code)
    assert (done.returncode, done.stdout) == (0, "went on\n")


def test_an_interrupt_after_the_last_line_changes_nothing() -> None:
    """The release is made and told: the exit code says so."""
    code = """
import atexit, os, signal, time, click
import sherd.cli
@click.command()
def go():
    pass
def late():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.2)
atexit.register(late)
sherd.cli.cli = go
sherd.cli.main([])
"""
    done = _run(code)
    assert (done.returncode, done.stderr) == (0, "")
