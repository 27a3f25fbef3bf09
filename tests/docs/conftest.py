"""Running the documentation: Python sessions, Python scripts and terminal sessions in pages.

A fenced block ``python`` with prompts is a doctest, without prompts a script. A block
``console`` is a terminal session: lines that begin with ``$`` are run, what follows is compared
with what was printed (``...`` stands for anything, blanks count as one). All blocks of a page
share one folder and one namespace, in the order of the page. A block with a ``:caption:`` is a
file of that name. Other blocks are not run.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^(```+)([^\n]*)\n(.*?)^\1[ ]*$", re.MULTILINE | re.DOTALL)
_CAPTION = re.compile(r":caption: (\S+)\n(?::.*\n)*\n")
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block of a page."""

    language: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(language=m.group(2).strip(), text=m.group(3), line=text.count("\n", 0, m.start()) + 1)
        for m in _FENCE.finditer(text)
    ]


def _run_python(block: Block, names: dict[str, Any], page: Path) -> None:
    if ">>>" not in block.text:
        exec(compile(block.text, f"{page.name}:{block.line}", "exec"), names)  # noqa: S102
        return
    test = doctest.DocTestParser().get_doctest(block.text, names, page.name, str(page), block.line)
    told = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=_FLAGS)
    runner.run(test, out=told.write, clear_globs=False)
    names.update(test.globs)
    assert not runner.failures, told.getvalue()


def _run_sherd(arguments: list[str]) -> tuple[str, int]:
    """Our own command line, in this process: starting one for every line would be slow."""
    from sherd.cli import run

    target = None
    if ">" in arguments:
        place = arguments.index(">")
        target = Path(arguments[place + 1])
        arguments = arguments[:place]
    printed = io.StringIO()
    kept = io.StringIO() if target is not None else printed
    with contextlib.redirect_stdout(kept), contextlib.redirect_stderr(printed):
        code = run(arguments)
    if target is not None:
        target.write_text(kept.getvalue(), encoding="utf-8")
    return printed.getvalue(), code


def _steps(text: str) -> Iterator[tuple[str, str]]:
    """Commands of a terminal session with the output shown for each."""
    parts = re.split(r"^\$ ((?:.*\\\n)*.*)\n?", text, flags=re.MULTILINE)
    assert not parts[0].strip(), "a terminal session begins with a command"
    for command, shown in zip(parts[1::2], parts[2::2], strict=True):
        yield command.replace("\\\n", " "), shown


def _run_console(block: Block, page: Path) -> None:
    steps = list(_steps(block.text))
    last = 0
    for index, (command, shown) in enumerate(steps):
        where = f"{page.name}, block at line {block.line}: {command}"
        following = steps[index + 1][0] if index + 1 < len(steps) else ""
        if command == "echo $?":
            printed, code = f"{last}\n", 0
        elif command.startswith("sherd "):
            printed, code = _run_sherd(shlex.split(command, comments=True)[1:])
        else:
            done = subprocess.run(
                ["bash", "-c", command],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=60,
            )
            printed, code = done.stdout, done.returncode
        last = code
        assert code == 0 or following == "echo $?", f"{where}\nexit code {code}\n{printed}"
        if shown.strip():
            same = doctest.OutputChecker().check_output(shown, printed, _FLAGS)
            assert same, f"{where}\nshown:\n{shown}\nprinted:\n{printed}"


@pytest.fixture
def run_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], dict[str, Any]]:
    """Run every block of a page in an empty folder; what the Python blocks defined."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHERD_LEDGER", str(tmp_path / "ledger.db"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")

    def run(page: Path) -> dict[str, Any]:
        names: dict[str, Any] = {"__name__": "__page__"}
        for block in blocks(page):
            if block.language == "python":
                _run_python(block, names, page)
            elif block.language == "console":
                _run_console(block, page)
            elif caption := _CAPTION.match(block.text):
                Path(caption.group(1)).write_text(block.text[caption.end() :], encoding="utf-8")
        return names

    return run


@pytest.fixture(scope="session")
def reference() -> ModuleType:
    """The Sphinx extension that makes the reference."""
    path = ROOT / "docs" / "_ext" / "sherd_reference.py"
    spec = importlib.util.spec_from_file_location("sherd_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["sherd_reference"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's folder."""
    return ROOT
