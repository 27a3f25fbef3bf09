"""Nothing is undocumented: commands, methods, settings, errors, assumptions, names, keys."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click
import pytest

import sherd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType


@pytest.fixture(scope="module")
def page(root: Path, reference: ModuleType) -> Any:
    """A function that gives a page of the reference as Sphinx reads it."""

    def read(name: str) -> str:
        path = root / "docs" / "reference" / f"{name}.md"
        return str(reference.fill(path.read_text(encoding="utf-8")))

    return read


def _section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next of the same or a higher level."""
    level = heading.split(" ", 1)[0]
    start = re.search(rf"^{re.escape(heading)}$", text, re.MULTILINE)
    assert start is not None, f"there is no heading {heading!r}"
    rest = text[start.end() :]
    end = re.search(rf"^#{{1,{len(level)}}} ", rest, re.MULTILINE)
    return rest if end is None else rest[: end.start()]


def _first_column(text: str) -> list[str]:
    """The first cells of all tables in a text, without their quotes."""
    return re.findall(r"^\| `([^`]+)`", text, re.MULTILINE)


def _commands() -> Iterator[tuple[str, click.Command]]:
    from sherd.cli import cli

    waiting: list[tuple[str, click.Command]] = [("sherd", cli)]
    while waiting:
        path, command = waiting.pop(0)
        yield path, command
        if isinstance(command, click.Group):
            with click.Context(command) as context:
                for name in command.list_commands(context):
                    below = command.get_command(context, name)
                    assert below is not None
                    waiting.append((f"{path} {name}", below))


def test_every_command_and_option_has_its_entry(page: Any) -> None:
    """Each command has a heading, and under it each of its options."""
    text = page("command-line")
    count = 0
    for path, command in _commands():
        count += 1
        entry = text.split(f"(command-{path.replace(' ', '-')})=\n", 1)[1].split("\n(command-")[0]
        assert re.match(rf"#+ {path}\n", entry)
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert max(parameter.opts, key=len) in entry, f"{path}: {parameter.opts}"
    assert count > 10


def test_every_method_has_its_entry(page: Any) -> None:
    """Each method of the directory has a heading, its promises and all its parameters."""
    from sherd.methods import describe
    from sherd.release.method import find, names

    text = page("methods")
    for name in names():
        entry = _section(text, f"## {name}")
        listed = _first_column(entry)
        for parameter in find(name).parameters:
            assert parameter.name in listed, f"{name}: {parameter.name}"
            assert parameter.help
        for promise in describe(name)["promises"]:
            head = f"`guarantee: {promise['name']}`" if promise["name"] else "The promise"
            assert f"\n{head}\n: " in entry


def test_every_method_has_its_page(root: Path) -> None:
    """Each method of the directory has a page with its argument, linked from its entry."""
    from sherd.release.method import names

    folder = root / "docs" / "methods"
    pages = {path.stem for path in folder.glob("*.md")} - {"index"}
    assert set(names()) <= pages
    for name in names():
        assert (folder / f"{name}.md").read_text(encoding="utf-8").startswith("# ")


def test_every_schema_setting_has_its_entry(page: Any) -> None:
    """The settings of tables and attributes, types, roles and policies: all, and no other."""
    from sherd.tables import declared, schema

    text = page("schema")
    for heading, known in (
        ("## The table", schema.SCHEMA_KEYS),
        ("## An attribute", declared.ATTRIBUTE_KEYS),
        ("## Types", [member.value for member in schema.Type]),
        ("## Roles", [member.value for member in schema.Role]),
    ):
        assert sorted(_first_column(_section(text, heading))) == sorted(known), heading
    for kind in (schema.Missing, schema.Outside):
        for member in kind:
            assert f"`{member.value}`" in _section(text, "## The table")


def test_the_defaults_of_the_schema_page_are_true(page: Any) -> None:
    """What the page says is taken where nothing is given."""
    from sherd.tables.schema import Schema

    bare = Schema.from_data({"attributes": {"a": {"type": "boolean"}, "b": {"role": "identifier"}}})
    table = _section(page("schema"), "## The table")
    assert f"| `keep`, `drop`, `recode`, `refuse` | `{bare.missing}` |" in table
    assert f"| `clamp`, `drop`, `refuse` | `{bare.outside}` |" in table
    assert f"| a whole number from 1 | {bare.rows_per_unit} |" in table
    attribute = _section(page("schema"), "## An attribute")
    assert f"| `role` | see below | `{bare['a'].role}` |" in attribute
    assert f"required, but `{bare['b'].type}` for identifiers" in attribute


def test_every_error_has_its_entry_and_exit_code(page: Any) -> None:
    """Each code of the catalogue stands in the table with its exit code and a meaning."""
    from sherd.errors import catalogue

    text = page("errors")
    section = _section(text, "## Catalogue")
    for code, error in catalogue().items():
        assert re.search(
            rf"^\| `{code}` \| {error.exit_code} \| `{error.__name__}` \| .* \| \S.* \|$",
            section,
            re.MULTILINE,
        ), code
        assert f"\n| {error.exit_code} |" in _section(text, "## Exit codes")


def _final(kind: type[Any]) -> list[type[Any]]:
    """The classes under one that have none under themselves."""
    under = kind.__subclasses__()
    return [one for each in under for one in _final(each)] if under else [kind]


def test_every_assumption_notion_unit_and_adversary_has_its_entry(page: Any) -> None:
    """Each code a guarantee can contain stands in a table, under the right heading."""
    from sherd.guarantees import Adversary, Assumption, Notion, Unit

    text = page("assumptions")
    must = _first_column(_section(text, "## Conditions that must be true"))
    leak = _first_column(_section(text, "## Facts that the release shows all the same"))
    assert must == [a.value for a in Assumption if not a.leaks]
    assert leak == [a.value for a in Assumption if a.leaks]
    notions = [notion.code for notion in _final(Notion)]
    assert _first_column(_section(text, "## Notions")) == notions
    assert _first_column(_section(text, "## Units")) == [u.value for u in Unit]
    assert _first_column(_section(text, "## Adversaries")) == [a.value for a in Adversary]


def test_every_public_name_has_its_entry(page: Any) -> None:
    """Each name that `import sherd` offers is on the page of the Python interface."""
    text = page("python")
    for name in sherd.__all__:
        assert re.search(rf"^\.\. auto\w+:: sherd\.{name}$", text, re.MULTILINE), name


def test_every_key_of_a_manifest_has_its_entry(page: Any, tmp_path: Path) -> None:
    """The keys of real manifests, masked and strict, are listed, and no key that none has."""
    table, schema = sherd.datasets.load("wine"), sherd.datasets.schema("wine")
    seen: dict[str, set[str]] = {"## Keys": set()}
    for promise in ("paper", "strict"):
        plan = sherd.Plan(method="dp-um", epsilon=1.0, k=100, guarantee=promise)
        ledger = sherd.Ledger(tmp_path / "ledger.db")
        release = sherd.protect(table, schema, plan, ledger=ledger)
        more: dict[str, Any] = {"format": "csv", "spreadsheet_safe": True}
        folder = release.save(tmp_path / promise, **(more if promise == "paper" else {}))
        saved = sherd.Release.load(folder).manifest
        seen["## Keys"] |= set(saved)
        for part in ("guarantee", "budget"):
            seen.setdefault(f"### {part}", set()).update(saved[part])
        for facts in saved["files"].values():
            seen.setdefault("### files", set()).update(facts)
        if promise == "strict":
            seen["## Strict releases"] = set(release.table.column_names)
    text = page("manifest")
    beside = {"epsilon", "delta"}  # parameters of the notion, named beside it
    for heading, keys in seen.items():
        section = _section(text, heading).split("\n### ")[0]
        assert sorted(_first_column(section)) == sorted(keys - beside), heading
    for key in beside:
        assert f"`{key}`" in text


def test_every_source_of_a_guarantee_is_in_the_bibliography(root: Path) -> None:
    """Each bibliography key in the code has its entry."""
    text = (root / "docs" / "bibliography.md").read_text(encoding="utf-8")
    found = set()
    for module in (root / "src").rglob("*.py"):
        found |= set(re.findall(r'work="([^"]+)"', module.read_text(encoding="utf-8")))
    assert "soria-comas2025" in found
    for key in found - {"sherd"}:
        assert f"\n({key})=\n## {key}\n" in text, key


def test_the_layers_of_the_architecture_page_are_those_checked(root: Path) -> None:
    """The page lists the layers of the import contract, from the top down."""
    import tomllib

    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contract = project["tool"]["importlinter"]["contracts"][0]["layers"]
    text = (root / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.+?`) \|", _section(text, "## Layers"), re.MULTILINE)
    listed = [re.findall(r"`([\w.]+)`", row) for row in rows]
    wanted = [re.findall(r"[\w.]+", layer) for layer in contract]
    assert [sorted(layer) for layer in listed] == [sorted(layer) for layer in wanted]


def test_the_project_speaks_only_of_itself(root: Path) -> None:
    """No page names a path of somebody's machine."""
    pages = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    for path in pages:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"(?<![\w.])/(?:work|opt|home|root|tmp)/", text), path
