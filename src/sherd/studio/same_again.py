"""The same release again without the studio: command line, Python, a notebook that runs."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sherd.studio.workspace import Project


def command_line(project: Project, folder: Path, given: Mapping[str, Any]) -> str:
    """The command that makes the same release from the same files."""
    words = ["sherd", "protect", project.shown]
    if project.query is not None:
        words += ["--query", project.query]
    words += ["--schema", str(folder / "schema.yaml"), "--plan", str(folder / "plan.yaml")]
    words += ["--format", given["format"]]
    if given["spreadsheet_safe"]:
        words.append("--spreadsheet-safe")
    if given["row_map"] is not None:
        words += ["--row-map", given["row_map"]]
    if given["seed"] is not None:
        words += ["--seed", str(given["seed"])]
    words += ["--ledger", given["ledger"] or "none"]
    return shlex.join([*words, "-o", f"{given['output']}-again"])


def python_code(project: Project, folder: Path, given: Mapping[str, Any]) -> list[str]:
    """The same in Python, in steps."""
    query = "" if project.query is None else f", query={project.query!r}"
    read = f"sherd.read({project.shown!r}, schema=schema{query})"
    ledger = "None" if given["ledger"] is None else f"sherd.Ledger({given['ledger']!r})"
    save = [f"{given['output'] + '-again'!r}", f"format={given['format']!r}"]
    if given["spreadsheet_safe"]:
        save.append("spreadsheet_safe=True")
    return [
        "import sherd\n"
        f"schema = sherd.Schema.load({str(folder / 'schema.yaml')!r})\n"
        f"plan = sherd.Plan.load({str(folder / 'plan.yaml')!r})\n"
        "print(plan.explain(schema))",
        f"table = {read}\n"
        f"release = sherd.protect(\n    table,\n    schema,\n    plan,\n    ledger={ledger},\n"
        f"    settings=sherd.Settings(seed={given['seed']!r}),\n)\n"
        f"release.save({', '.join(save)})",
        "report = sherd.audit(table, release)\nprint(report.verdict.headline)",
    ]


def notebook(project: Project, folder: Path, given: Mapping[str, Any]) -> str:
    """The same as a Jupyter notebook."""
    told = (
        f"# {project.name}\n\nThe plan and the schema of a release made in Sherd's studio. "
        "Running this notebook makes another release with the same plan, and charges for it."
    )
    cells: list[dict[str, Any]] = [_cell("markdown", told, 0)]
    for place, code in enumerate(python_code(project, folder, given), 1):
        cells.append(_cell("code", code, place))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def _cell(kind: str, text: str, place: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        "cell_type": kind,
        "id": f"cell-{place}",
        "metadata": {},
        "source": text.splitlines(keepends=True),
    }
    return made if kind == "markdown" else {**made, "execution_count": None, "outputs": []}
