"""The steward's home: tables on their way from a file to an audited release."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from sherd.studio import job_kinds, plan_form, steward_release
from sherd.studio.access_guard import MOST_FORM
from sherd.studio.page_rendering import JobPages, application, fragment
from sherd.studio.steward_plan import PlanPages
from sherd.studio.steward_release import ReleasePages
from sherd.studio.steward_table import TablePages
from sherd.studio.studio_jobs import Jobs
from sherd.studio.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.applications import Starlette
    from starlette.requests import Request

    from sherd.release.plan import Plan
    from sherd.studio.studio_jobs import Job
    from sherd.studio.workspace import Project

MOST_UPLOAD = 1 << 30
"""Bytes of a file that a browser may send; larger ones are opened by their path."""


class Steward:
    """What the steward's pages share: the workspace, its jobs, the ledger that is charged."""

    def __init__(
        self, folder: Path, *, ledger: Path | None, most_upload: int = MOST_UPLOAD
    ) -> None:
        self.workspace = Workspace(folder)
        self.jobs = Jobs(folder / "jobs")
        self.ledger = ledger
        self.most_upload = most_upload

    def recover(self) -> None:
        """Free what dead runs had set aside, publish what they had paid for."""
        if self.ledger is not None and self.ledger.exists():
            job_kinds.open_ledger(str(self.ledger))

    def most(self, path: str) -> int:
        """How large the body of a request to a page may be."""
        return self.most_upload + MOST_FORM if path == "/upload" else MOST_FORM

    def start(
        self,
        project: Project,
        kind: str,
        title: str,
        *,
        id: str | None = None,  # noqa: A002
        **given: Any,
    ) -> Job:
        """Start a job for a project."""
        return self.jobs.start(
            id=id or secrets.token_hex(8), kind=kind, project=project.id, title=title, **given
        )

    def latest(self, project: Project, kind: str) -> Job | None:
        """The last job of a kind that was started for a project."""
        return next(iter(self.jobs.of(project.id, kind)), None)

    def tried(self, project: Project, plan: Plan) -> Any:
        """The verdict on the last candidate by a plan on the project's own table, if any."""
        wanted = {"plan": plan.as_data(), "table": "own"}
        for job in self.jobs.of(project.id, "candidate"):
            audit = job.result("audit.json") if job.arguments == wanted else None
            if audit is not None:
                return audit["verdict"]
        return None

    def panel(self, request: Request, job: Job) -> str:
        """What a job shows now, as HTML."""
        project = self.workspace.project(job.project)
        given: dict[str, Any] = {"job": job, "project": project}
        if job.kind == "profile":
            given["profile"] = project.profile if job.state == "done" else None
        elif job.kind == "map":
            given |= _map_of(job)
        elif job.kind == "candidate":
            given |= {"audit": job.result("audit.json"), "examples": job.result("examples.json")}
            given["attacks"] = _attacks(given["audit"])
        elif job.kind == "compare":
            given["comparison"] = job.result("comparison.json")
        else:
            given |= self._released(project, job)
        return fragment(request, f"panel_{job.kind}.html", **given)

    @staticmethod
    def _released(project: Project, job: Job) -> dict[str, Any]:
        return {
            "released": job.result("released.json"),
            "checks": job.result("checks.json"),
            "audit": job.result("audit.json"),
            "command": steward_release.command_line(project, job.folder, job.arguments),
            "python": "\n\n".join(steward_release.python_code(project, job.folder, job.arguments)),
        }

    def app(self) -> Starlette:
        """The application with all pages."""
        routes = [
            *JobPages(self.jobs, self.panel).routes(),
            *TablePages(self).routes(),
            *PlanPages(self).routes(),
            *ReleasePages(self).routes(),
        ]
        return application(routes)


def _map_of(job: Job) -> dict[str, Any]:
    """The cells of a map that are known, and the plans of all."""
    from sherd.release.method import find

    plans = job.arguments["plans"]
    names = plan_form.dials(find(plans[0]["method"]))
    return {
        "cells": job.result("map.json") or [],
        "plans": plans,
        "names": [plan_form.DIALS[name] for name in names],
        "total": [[plan.get(name) for name in names] for plan in plans],
        "tuned": job_kinds.is_tuned(plans[0]),
    }


def _attacks(audit: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The attacks of an audit that give a share of successes."""
    from sherd.auditing.verdict.significance import SHARES

    measures = [] if audit is None else audit["measures"]
    return [m for m in measures if m["code"] in SHARES and m["value"] is not None]
