"""A steward's first two steps: open a table, go through its schema."""

from __future__ import annotations

import re
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.responses import HTMLResponse
from starlette.routing import Route

from sherd.errors import UsageError
from sherd.studio import schema_edit
from sherd.studio.page_rendering import (
    check_code,
    download,
    form_of,
    form_route,
    fragment,
    go,
    in_place,
    page,
)
from sherd.studio.workspace import load_json, save_json
from sherd.tables.files import write_whole
from sherd.tables.schema import Missing, Outside, Role, Schema, Type

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from sherd.studio.steward import Steward
    from sherd.studio.workspace import Project

_SUFFIXES = re.compile(
    r"\.(csv|tsv|tab|txt)(\.(gz|zst|bz2|lz4))?$|\.(parquet|pq|feather|arrow|ipc|arrows)$"
)


def open_table(
    steward: Steward, source: str, *, query: str | None = None, name: str | None = None
) -> Project:
    """A project for a table, with its first rows at once and its summaries under way."""
    from sherd import datasets
    from sherd.studio.table_survey import head
    from sherd.tables.read import redact
    from sherd.tables.sql import is_address

    if source.startswith(":"):
        datasets.path(source[1:])  # says which there are
    elif not is_address(source):
        source = str(Path(source).expanduser().absolute())
        if Path(source).is_dir():
            raise UsageError("this is a folder", must="a file", got=source, do="name a file in it")
        if not Path(source).is_file():
            raise UsageError("the file does not exist", got=source, do="check the path")
        _suffix(Path(source).name)
    shown = name or (source[1:] if source.startswith(":") else Path(redact(source)).name)
    project = steward.workspace.make(name=shown, source=source, query=query)
    try:
        names, rows = head(project)
    except BaseException:
        shutil.rmtree(project.folder)
        raise
    save_json(project.file("head.json"), {"names": names, "rows": rows})
    if project.bundled is not None:
        bundled = datasets.path(project.bundled).with_suffix(".yaml")
        schema_edit.adopt(bundled, project.schema_file, names)
        project = project.decide(*names)
    steward.start(project, "profile", f"Reading {project.name}")
    return project


def _suffix(name: str) -> str:
    """The suffix of a file's name; refused where no table is called so."""
    suffix = _SUFFIXES.search(name.lower())
    if suffix is None:
        raise UsageError(
            "the file's format is unknown",
            must="a name that ends in .csv, .tsv, .parquet, .feather or .arrow",
            got=name,
        )
    return suffix[0]


def described(project: Project) -> Schema:
    """The schema of a project's table; UsageError where it could not be drafted (yet)."""
    schema = project.schema
    if schema is None:
        raise UsageError(
            "the table has no schema yet",
            do="wait until it is read; where that failed, the first step says why",
        )
    return schema


class TablePages:
    """Opening and describing tables."""

    def __init__(self, steward: Steward) -> None:
        self._steward = steward

    def routes(self) -> list[Route]:
        """Where tables are opened, repaired and described."""
        return [
            Route("/", self._home),
            form_route("/open", self._open),
            form_route("/upload", self._upload),
            Route("/p/{project}/open", self._table),
            form_route("/p/{project}/fix", self._fix),
            Route("/p/{project}/schema", self._schema),
            form_route("/p/{project}/schema", self._change),
            form_route("/p/{project}/schema/confirm", self._confirm),
            form_route("/p/{project}/schema/population", self._population),
            form_route("/p/{project}/schema/file", self._file),
            Route("/p/{project}/schema.yaml", self._yaml),
        ]

    async def _home(self, request: Request) -> Response:
        return await page(
            request,
            "steward_home.html",
            projects=await run_in_threadpool(self._steward.workspace.projects),
            bundled=await run_in_threadpool(_bundled),
            most=self._steward.most_upload,
        )

    async def _open(self, request: Request) -> Response:
        form = await form_of(request)
        source = form.get("source", "").strip()
        if not source:
            raise UsageError("no table is named", must="a path, an address or a bundled table")
        query = form.get("query", "").strip() or None
        project = await run_in_threadpool(open_table, self._steward, source, query=query)
        return go(request, f"/p/{project.id}/open")

    async def _upload(self, request: Request) -> Response:
        """A file that the browser sent; kept under a name of ours."""
        async with request.form(max_files=1, max_fields=5) as form:
            check_code(request, str(form.get("code", "")))
            given = form.get("file")
            if not isinstance(given, UploadFile) or not given.filename:
                raise UsageError("no file was chosen", do="choose or drop one")
            shown = Path(given.filename.replace("\\", "/")).name
            suffix = _suffix(shown)
            uploads = self._steward.workspace.folder / "uploads"
            uploads.mkdir(mode=0o700, exist_ok=True)
            path = uploads / f"{secrets.token_hex(8)}{suffix}"

            def take() -> Project:
                with path.open("xb") as file:
                    path.chmod(0o600)
                    shutil.copyfileobj(given.file, file, 1 << 20)
                try:
                    return open_table(self._steward, str(path), name=shown[:80])
                except BaseException:
                    path.unlink()
                    raise

            project = await run_in_threadpool(take)
        return go(request, f"/p/{project.id}/open")

    def _project(self, request: Request) -> Project:
        return self._steward.workspace.project(request.path_params["project"])

    async def _table(self, request: Request) -> Response:
        project = self._project(request)
        return await page(
            request,
            "open.html",
            project=project,
            step="open",
            head=load_json(project.file("head.json")),
            job=self._steward.latest(project, "profile"),
            panel=lambda job: self._steward.panel(request, job),
        )

    async def _fix(self, request: Request) -> Response:
        form = await form_of(request)
        project = self._project(request)
        profile = project.profile or {"problems": []}
        place = int(form["place"]) if form.get("place", "").isdecimal() else -1
        if not 0 <= place < len(profile["problems"]) or not profile["problems"][place]["fix"]:
            raise UsageError("there is no such problem", do="look at the page again")
        one = profile["problems"].pop(place)
        settings: dict[str, Any] = dict(one["set"])
        await run_in_threadpool(schema_edit.change, project, one["attribute"], settings)
        save_json(project.file("profile.json"), profile)
        return go(request, f"/p/{project.id}/open#problems")

    def _rows(self, project: Project, schema: Schema) -> list[dict[str, Any]]:
        columns = {c["name"]: c for c in (project.profile or {"columns": []})["columns"]}
        return [
            {
                "place": place,
                "is": attribute,
                "column": columns.get(attribute.name),
                "questions": schema_edit.questions(attribute, project.decided),
                "domain": [str(end) for end in attribute.domain or ("", "")],
            }
            for place, attribute in enumerate(schema)
        ]

    async def _schema(self, request: Request) -> Response:
        project = self._project(request)
        schema = await run_in_threadpool(lambda: project.schema)
        if schema is None:
            return go(request, f"/p/{project.id}/open")
        rows = self._rows(project, schema)
        return await page(
            request,
            "schema.html",
            project=project,
            step="schema",
            schema=schema,
            rows=rows,
            undecided=sum(len(row["questions"]) for row in rows),
            **_CHOICES,
        )

    async def _change(self, request: Request) -> Response:
        form = await form_of(request)
        project = self._project(request)

        def work() -> tuple[Project, Schema]:
            before = described(project)
            attribute = before[form.get("attribute", "")]
            settings = schema_edit.settings_of(form, attribute)
            schema_edit.change(project, attribute.name, settings)
            after = project.decide(attribute.name)
            schema = after.schema
            assert schema is not None
            return after, schema

        decided, schema = await run_in_threadpool(work)
        rows = self._rows(decided, schema)
        place = list(schema.attributes).index(form["attribute"])
        if not in_place(request):
            return go(request, f"/p/{project.id}/schema#a{place}")
        text = fragment(
            request,
            "attribute.html",
            project=decided,
            row=rows[place],
            undecided=sum(len(row["questions"]) for row in rows),
            oob=True,
            **_CHOICES,
        )
        return HTMLResponse(text)

    async def _confirm(self, request: Request) -> Response:
        await form_of(request)
        project = self._project(request)
        schema = project.schema
        if schema is not None:
            project.decide(*schema.attributes)
        return go(request, f"/p/{project.id}/schema")

    async def _population(self, request: Request) -> Response:
        form = await form_of(request)
        project = self._project(request)
        described(project)
        name = form.get("population", "").strip() or None
        await run_in_threadpool(schema_edit.set_population, project, name)
        return go(request, f"/p/{project.id}/schema")

    async def _file(self, request: Request) -> Response:
        """Open a schema that exists, or save this one where it is wanted."""
        form = await form_of(request)
        project = self._project(request)
        path = Path(form.get("path", "").strip()).expanduser()
        if not form.get("path", "").strip():
            raise UsageError("no file is named", must="the path of a YAML file")
        if form.get("do") == "open":
            names = load_json(project.file("head.json"))["names"]
            await run_in_threadpool(schema_edit.adopt, path, project.schema_file, names)
            schema = project.schema
            assert schema is not None
            project.decide(*schema.attributes)
        else:
            if path.exists():
                raise UsageError("the file already exists", got=str(path), do="choose another")
            described(project)
            await run_in_threadpool(write_whole, path, project.schema_file.read_bytes())
        return go(request, f"/p/{project.id}/schema")

    async def _yaml(self, request: Request) -> Response:
        project = self._project(request)
        described(project)
        return download(project.schema_file.read_bytes(), "schema.yaml", "application/yaml")


def _bundled() -> list[tuple[str, int, int]]:
    """The tables that come with sherd: name, rows, attributes."""
    import pyarrow.parquet as pq

    from sherd import datasets

    files = {name: pq.read_metadata(datasets.path(name)) for name in datasets.names()}
    return [(name, file.num_rows, file.num_columns) for name, file in files.items()]


_CHOICES: dict[str, Any] = {
    "types": [each.value for each in Type],
    "roles": {
        Role.IDENTIFIER.value: "identifier: never released",
        Role.QUASI_IDENTIFIER.value: "quasi-identifier: protected",
        Role.SENSITIVE.value: "sensitive: protected",
        Role.WEIGHT.value: "weight: released as it is",
        Role.INSENSITIVE.value: "insensitive: released as it is",
    },
    "missing": [each.value for each in Missing],
    "outside": [each.value for each in Outside],
}
