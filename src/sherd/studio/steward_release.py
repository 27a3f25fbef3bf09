"""A steward's last step: release, verify, audit, and the same again without the studio."""

from __future__ import annotations

import json
import secrets
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from sherd.errors import PlanError, UsageError
from sherd.release.bundle import FORMATS, check_format, check_target
from sherd.release.private_files import PrivateFiles
from sherd.studio import plan_form
from sherd.studio.page_rendering import download, form_of, form_route, go, inside, page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from sherd.studio.steward import Steward
    from sherd.studio.studio_jobs import Job
    from sherd.studio.workspace import Project


class ReleasePages:
    """Making releases and looking at them."""

    def __init__(self, steward: Steward) -> None:
        self._steward = steward

    def routes(self) -> list[Route]:
        """Where releases are made and shown."""
        return [
            Route("/p/{project}/release", self._ask),
            form_route("/p/{project}/release", self._release),
            Route("/p/{project}/release/{job}", self._made),
            Route("/p/{project}/release/{job}/audit.html", self._audit),
            Route("/p/{project}/release/{job}/{name}", self._file),
        ]

    def _project(self, request: Request) -> Project:
        return self._steward.workspace.project(request.path_params["project"])

    def _job(self, request: Request) -> tuple[Project, Job]:
        project = self._project(request)
        job = self._steward.jobs.get(request.path_params["job"])
        if job.project != project.id or job.kind != "release":
            raise UsageError("there is no such release")
        return project, job

    async def _ask(self, request: Request) -> Response:
        project = self._project(request)
        plan, schema = project.plan, project.schema
        if plan is None or schema is None:
            return go(request, f"/p/{project.id}/promise")
        guarantee = plan.guarantee(schema)
        stem = Path(project.name).name.split(".")[0] or "table"
        return await page(
            request,
            "release.html",
            project=project,
            step="release",
            plan=plan,
            promise=plan_form.promise_lines(guarantee),
            budget=await run_in_threadpool(plan_form.budget_of, plan, schema, self._steward.ledger),
            ledger=self._steward.ledger,
            output=str(_free(Path.cwd() / f"{stem}-release")),
            formats=FORMATS[:5],
            targets=[a.name for a in schema if a.type.labelled and a.role.value != "identifier"],
            once=secrets.token_hex(8),
            verdict=await run_in_threadpool(self._steward.tried, project, plan),
            releases=await run_in_threadpool(self._steward.jobs.of, project.id, "release"),
        )

    async def _release(self, request: Request) -> Response:
        form = await form_of(request)
        project = self._project(request)
        job = await run_in_threadpool(self._start, project, form)
        return go(request, f"/p/{project.id}/release/{job.id}")

    def _start(self, project: Project, form: Mapping[str, str]) -> Job:
        """Start the job; the same form sent twice is one release."""
        plan, schema = project.plan, project.schema
        if plan is None or schema is None:
            raise UsageError("there is no plan yet", do="choose a promise first")
        plan.guarantee(schema)
        given = _settings(form)
        given["ledger"] = None if self._steward.ledger is None else str(self._steward.ledger)
        once = form.get("once", "")
        known = self._steward.jobs.known(once)
        if known is not None:
            return known
        check_format(given["format"], spreadsheet_safe=given["spreadsheet_safe"])
        check_target(Path(given["output"]), force=False)
        row_map = None if given["row_map"] is None else Path(given["row_map"])
        PrivateFiles(row_map=row_map).check([Path(given["output"])], plan, force=False)
        texts = {
            "schema.yaml": project.schema_file.read_bytes(),
            "plan.yaml": project.file("plan.yaml").read_bytes(),
        }
        return self._steward.start(
            project, "release", f"Release to {given['output']}", id=once, files=texts, **given
        )

    async def _made(self, request: Request) -> Response:
        project, job = await run_in_threadpool(self._job, request)
        return await page(
            request,
            "released.html",
            project=project,
            step="release",
            job=job,
            panel=lambda job: self._steward.panel(request, job),
        )

    async def _audit(self, request: Request) -> Response:
        _, job = await run_in_threadpool(self._job, request)
        return inside(job.folder / "audit.html")

    async def _file(self, request: Request) -> Response:
        project, job = await run_in_threadpool(self._job, request)
        name = request.path_params["name"]
        if name == "release.ipynb":
            text = notebook(project, job.folder, job.arguments)
            return download(text, name, "application/x-ipynb+json")
        if name not in ("plan.yaml", "schema.yaml"):
            raise UsageError("there is no such file")
        return download((job.folder / name).read_bytes(), name, "application/yaml")


def _free(path: Path) -> Path:
    """A path that is not taken yet."""
    for number in range(2, 1000):
        if not path.exists():
            break
        path = path.with_name(f"{path.name.rstrip('0123456789').rstrip('-')}-{number}")
    return path


def _settings(form: Mapping[str, str]) -> dict[str, Any]:
    """A filled-in form as what the job is given."""
    output = form.get("output", "").strip()
    if not output:
        raise UsageError("no folder is named", must="the folder to write the release to")
    folder = Path(output).expanduser().absolute()
    row_map = form.get("row_map", "").strip()
    private = None if not row_map else Path(row_map).expanduser().absolute()
    seed = form.get("seed", "").strip()
    if seed and not seed.lstrip("-").isdecimal():
        raise PlanError("the seed is not valid", must="a whole number", got=repr(seed))
    return {
        "output": str(folder),
        "format": form.get("format", "parquet"),
        "row_map": None if private is None else str(private),
        "seed": int(seed) if seed else None,
        "spreadsheet_safe": form.get("spreadsheet_safe") == "yes",
        "audit": form.get("audit") == "yes",
        "target": form.get("target") or None,
    }


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
    heading = (
        f"# {project.name}\n\nThe plan and the schema of a release made in Sherd's studio. "
        "Running this notebook makes another release with the same plan, and charges for it."
    )
    cells: list[dict[str, Any]] = [_cell("markdown", heading, 0)]
    for place, code in enumerate(python_code(project, folder, given), 1):
        cells.append(_cell("code", code, place))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _cell(kind: str, text: str, place: int) -> dict[str, Any]:
    cell: dict[str, Any] = {
        "cell_type": kind,
        "id": f"cell-{place}",
        "metadata": {},
        "source": text.splitlines(keepends=True),
    }
    return cell if kind == "markdown" else {**cell, "execution_count": None, "outputs": []}
