"""The studio's folder: one project for every table that was opened, readable by its user alone."""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sherd.errors import UsageError
from sherd.tables.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema

_ID = re.compile(r"[0-9a-f]{12}")


def default_workspace() -> Path:
    """``studio`` in the folder where the ledger lies unless told otherwise."""
    from sherd.budget.storage import default_path

    return default_path().parent / "studio"


def save_json(path: Path, data: Any) -> None:
    """Write plain data for this user alone."""
    write_whole(path, json.dumps(data, ensure_ascii=False).encode(), mode=0o600)


def load_json(path: Path) -> Any:
    """What ``save_json`` wrote; None where there is nothing."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None


@dataclass(frozen=True, kw_only=True)
class Project:
    """One table on its way to a release, as files in a folder.

    ``source`` is a path, a database's address (with ``query``), or ``:adult`` for a bundled
    table. ``decided`` names the attributes whose treatment a person has confirmed.
    """

    folder: Path
    name: str
    source: str
    query: str | None = None
    created: str = ""
    decided: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """What the project is called in addresses."""
        return self.folder.name

    @property
    def bundled(self) -> str | None:
        """The name of the bundled table, None for every other source."""
        return self.source[1:] if self.source.startswith(":") else None

    @property
    def shown(self) -> str:
        """The source as a person may read it, without a password."""
        from sherd.tables.read import redact

        return redact(self.source)

    def file(self, name: str) -> Path:
        """A file of the project."""
        return self.folder / name

    def save(self) -> None:
        """Write what is known about the project."""
        saved = ("name", "source", "query", "created", "decided")
        save_json(self.file("project.json"), {key: getattr(self, key) for key in saved})

    def decide(self, *names: str) -> Project:
        """The project with the treatment of these attributes confirmed."""
        known = dict.fromkeys((*self.decided, *names))
        project = replace(self, decided=tuple(known))
        project.save()
        return project

    @property
    def profile(self) -> dict[str, Any] | None:
        """The summaries of the table, once they are made."""
        profile: dict[str, Any] | None = load_json(self.file("profile.json"))
        return profile

    @property
    def schema_file(self) -> Path:
        """The schema as the command line reads it."""
        return self.file("schema.yaml")

    @property
    def schema(self) -> Schema | None:
        """The schema, once there is one."""
        from sherd.tables.schema import Schema

        return Schema.load(self.schema_file) if self.schema_file.exists() else None

    @property
    def plan(self) -> Plan | None:
        """The plan, once there is one."""
        from sherd.release.plan import Plan

        path = self.file("plan.yaml")
        return Plan.load(path) if path.exists() else None

    def read(self, schema: Schema | None = None) -> pa.Table:
        """The whole table."""
        from sherd.datasets.sources import read

        return read(self.source, schema=schema, query=self.query)


class Workspace:
    """All projects of one user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for each in (folder, folder / "projects", folder / "jobs"):
            each.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)

    def make(self, *, name: str, source: str, query: str | None = None) -> Project:
        """A new project."""
        folder = self.folder / "projects" / secrets.token_hex(6)
        folder.mkdir(mode=0o700)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        project = Project(folder=folder, name=name, source=source, query=query, created=created)
        project.save()
        return project

    def project(self, id: str) -> Project:  # noqa: A002 - what it is called in addresses
        """A project by its id."""
        folder = self.folder / "projects" / id
        data = load_json(folder / "project.json") if _ID.fullmatch(id) else None
        if data is None:
            raise UsageError("there is no such project", do="open the table again")
        return Project(folder=folder, **{**data, "decided": tuple(data["decided"])})

    def projects(self) -> list[Project]:
        """Every project, the newest first."""
        projects = [
            self.project(path.parent.name)
            for path in (self.folder / "projects").glob("*/project.json")
        ]
        return sorted(projects, key=lambda one: one.created, reverse=True)
