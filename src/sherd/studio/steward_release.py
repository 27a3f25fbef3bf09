"""A steward's last step: release, verify, audit, and the same again without the studio."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from sherd.errors import PlanError, UsageError
from sherd.release.bundle import FORMATS, check_format, check_target
from sherd.release.private_files import PrivateFiles
from sherd.studio import plan_form, same_again
from sherd.studio.page_rendering import download, form_of, go, inside, page

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
        """Where these pages are."""
        return [
            Route("/p/{project}/release", self._ask),
            Route("/p/{project}/release", self._release, methods=["POST"]),
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
        from sherd.studio.steward_plan import new_id

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
            once=new_id(),
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
            text = same_again.notebook(project, job.folder, job.arguments)
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
