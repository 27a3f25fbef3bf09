"""Whole public tables from their files to an audited release, step by step by the pages' forms."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from studio_process import start_studio

import sherd
from sherd.tables.schema import Schema

if TYPE_CHECKING:
    from pathlib import Path

ACS = {
    "age": (0, 120), "citizenship": (1, 5), "family_size": (1, 30), "children": (0, 30),
    "education_level": (0, 24), "english_level": (0, 4), "salary": (-20000, 2000000),
    "hours_worked": (0, 99), "weeks_worked": (0, 52),
}  # fmt: skip
"""The ranges of the survey's code book."""


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["adult.csv", "acs2018_gov.csv.gz"])
def test_from_file_to_audited_release(name: str, data_dir: Path, tmp_path: Path) -> None:
    """Read, described, promised, released, verified and audited; the files are what is shown."""
    studio = start_studio(tmp_path / "w", str(data_dir / name), ledger=str(tmp_path / "l.db"))
    try:
        visitor = studio.enter()
        found = re.search(r'href="/\w+(/p/\w+)/open"', visitor.get("/").text)
        assert found is not None
        project = found[1]
        visitor.until(f"{project}/open", "Attributes as they were read", 300)
        (tmp_path / "draft.yaml").write_text(visitor.get(f"{project}/schema.yaml").text)
        for attribute in Schema.load(tmp_path / "draft.yaml"):
            given = {"attribute": attribute.name, "known": "yes", "type": attribute.type.value,
                     "role": attribute.role.value}  # fmt: skip
            if attribute.type.measured:
                low, high = ACS.get(attribute.name, (0, 2000000))
                given |= {"low": str(low), "high": str(high)}
            elif attribute.values is not None:
                given["values"] = "\n".join(attribute.values)
            else:
                given["role"] = "identifier"
            assert visitor.post(f"{project}/schema", given).status_code == 200, attribute.name
        assert "Everything is decided" in visitor.get(f"{project}/schema").text
        visitor.post(f"{project}/promise", {"method": "dp-um", "epsilon": "1", "k": "100"})
        once = re.search(r'name="once" value="(\w+)"', visitor.get(f"{project}/release").text)
        assert once is not None
        visitor.post(
            f"{project}/release",
            {"once": once[1], "output": str(tmp_path / "out"), "audit": "yes"},
        )
        page = f"{project}/release/{once[1]}"
        text = visitor.until(page, "The audit of this release", 900)
        assert re.search(r"Verified: \d+ checks passed</h2>", text)
        assert "<h1" in visitor.get(f"{page}/audit.html").text
        assert sherd.verify(tmp_path / "out").passed
    finally:
        studio.stop()
