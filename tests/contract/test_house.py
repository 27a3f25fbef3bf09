"""The house keeps its order: names, sizes, and imports that go down."""

from __future__ import annotations

import ast
import itertools
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src"
PACKAGE = ROOT / "sherd"
LINES, FUNCTION_LINES, CHAIN = 400, 60, 12
RUN, REPEATED = 6, 16

SAME_ROLE = {
    "ledger": "the command, and the ledger it shows",
    "protect": "the command, and the function it calls",
    "query": "the command, and the function it calls",
    "schema": "the command, and what it drafts",
    "tune": "the command, and the function it calls",
}
"""Module names that stand in two folders, with the role both have."""

LONG = {"federation/aggregator/migrations/versions/0001_first_tables.py": {"upgrade"}}
"""Functions that may be longer: a migration that was published is never changed."""


@cache
def trees() -> dict[Path, ast.Module]:
    """Every module of the package, parsed."""
    return {
        path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))
    }


def test_no_module_name_stands_twice() -> None:
    """But for commands and what they call, and pairs whose common role is stated."""
    places = defaultdict(list)
    for path in trees():
        if path.name != "__init__.py":
            places[path.stem].append(path.parent.name)
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert set(twice) <= set(SAME_ROLE), twice
    assert all(len(where) == 2 for where in twice.values())


def test_no_class_name_is_given_again() -> None:
    """What is called the same is the same."""
    places = defaultdict(set)
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(str(path.relative_to(PACKAGE)))
    twice = {name: sorted(where) for name, where in places.items() if len(where) > 1}
    assert twice == {}


def test_no_module_is_too_long() -> None:
    """A module that grows past this is asking to be split."""
    lengths = {
        str(path.relative_to(PACKAGE)): len(path.read_text(encoding="utf-8").splitlines())
        for path in trees()
    }
    long = {name: n for name, n in lengths.items() if n > LINES}
    assert long == {}


def test_no_function_is_too_long() -> None:
    """But for one that cannot be changed any more."""
    long = defaultdict(set)
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                assert node.end_lineno is not None
                if node.end_lineno - node.lineno + 1 > FUNCTION_LINES:
                    long[str(path.relative_to(PACKAGE))].add(node.name)
    more = {path: names - LONG.get(path, set()) for path, names in long.items()}
    assert {path: names for path, names in more.items() if names} == {}


BY_NAME = {
    "__init__.py": "what `import sherd` offers, imported when it is asked for",
    "cli/__init__.py": "commands, imported when they are called",
    "release/method.py": "the directory of methods",
}
"""Modules that may name others by a string, and why."""

DECLARED = re.compile(r"^sherd(\.\w+)+:\w+$")
PATH = re.compile(r"^sherd(\.\w+)+(:\w+)?$")


def test_nothing_is_imported_upwards_by_a_string() -> None:
    """Names of modules stand in three lists, and in what methods declare (``module:function``)."""
    modules = {_name(path) for path in trees()}
    for path, tree in trees().items():
        place = str(path.relative_to(PACKAGE))
        if place in BY_NAME:
            continue
        named = {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and PATH.match(node.value)
            and node.value.partition(":")[0] in modules
        }
        if place.startswith("methods/"):
            named = {one for one in named if not DECLARED.match(one)}
        room = _name(path).split(".")[:2]
        upwards = sorted(one for one in named if one.split(".")[:2] != room)
        assert not upwards, f"{place} names {upwards}"


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def imported() -> dict[str, frozenset[str]]:
    """What every module imports when it is imported itself."""
    modules = {_name(path) for path in trees()}
    found = {}
    for path, tree in trees().items():
        names = set()
        for node in itertools.chain.from_iterable(map(_at_import, tree.body)):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    names.add(whole if whole in modules else node.module)
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
        found[_name(path)] = frozenset(names & modules) - {_name(path), "sherd"}
    return found


def _at_import(node: ast.stmt) -> list[ast.AST]:
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        return []
    if isinstance(node, (ast.If, ast.Try, ast.With)):
        return list(ast.walk(node))
    return [node]


def test_the_longest_chain_of_imports_is_short() -> None:
    """Importing one module loads no chain longer than this, and never comes back to itself."""

    @cache
    def longest(module: str) -> tuple[str, ...]:
        below = [longest(name) for name in imported()[module]]
        return (module, *max(below, key=len, default=()))

    try:
        chain = max((longest(module) for module in imported()), key=len)
    except RecursionError:
        pytest.fail("imports go in a circle")
    assert len(chain) <= CHAIN, " -> ".join(chain)


SUBSTRATE = {
    "sherd.federation.protocol.linkage": "pseudonyms",
    "sherd.federation.wire.settings_file": "the folder with its settings",
    "sherd.release.charging": "what a release costs",
    "sherd.signing_keys": "keys and signatures",
}
"""What owners and secure parties do alike, and the module that does it for both."""


def test_owners_and_parties_stand_on_the_same_modules() -> None:
    """Each is used by both rooms, also where they import it on the way."""
    for module in SUBSTRATE:
        for room in ("federation/owner", "secure"):
            texts = [path.read_text(encoding="utf-8") for path in (PACKAGE / room).rglob("*.py")]
            assert any(f"from {module} import" in text for text in texts), (module, room)


def _statements(path: Path) -> list[tuple[int, str]]:
    """The lines of a file that say something, with their numbers: no imports, no comments."""
    text = path.read_text(encoding="utf-8")
    passed_over: set[int] = set()
    for node in ast.walk(ast.parse(text)) if path.suffix == ".py" else ():
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            passed_over |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return [
        (number, " ".join(line.split()))
        for number, line in enumerate(text.splitlines(), 1)
        if number not in passed_over and re.search(r"\w", line) and line.lstrip()[0] != "#"
    ]


def repeated(folder: Path) -> dict[tuple[str, str], int]:
    """Pairs of files that share a run of lines to the letter, and where in the first it begins.

    A run that stands in several places is paired with its first place only.
    """
    places = defaultdict(list)
    for path in sorted(folder.rglob("*")):
        if path.suffix in {".py", ".html", ".css", ".js"}:
            lines = _statements(path)
            for first in range(len(lines) - RUN + 1):
                run = tuple(line for _, line in lines[first : first + RUN])
                places[run].append((str(path.relative_to(folder)), lines[first][0]))
    pairs: dict[tuple[str, str], int] = {}
    for (name, number), *others in places.values():
        for other, where in others:
            if other != name or where - number >= RUN:
                pairs.setdefault((name, other), number)
    return pairs


def test_few_runs_of_lines_stand_twice() -> None:
    """Signatures of a contract and of those who fulfil it, kernels, first lines of templates."""
    assert len(repeated(PACKAGE)) <= REPEATED, repeated(PACKAGE)


def test_a_repeated_run_is_seen(tmp_path: Path) -> None:
    """Six lines are, with other blanks, imports and comments between; five are not."""
    lines = [f"value_{number} = {number}" for number in range(RUN)]
    (tmp_path / "a.py").write_text("\n".join(lines))
    (tmp_path / "b.py").write_text("import ast\n" + "\n\n# so\n".join(lines))
    (tmp_path / "c.py").write_text("\n".join(lines[1:]))
    assert repeated(tmp_path) == {("a.py", "b.py"): 1}
