"""One door: `sherd.verify`, `sherd verify` and `sherd audit` say the same of a release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import sherd
from sherd.auditing.case.case import Limits
from sherd.cli import cli
from sherd.errors import FormatError
from sherd.release import bundle
from sherd.verifying import verification

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = sherd.Schema.from_data(
    {
        "attributes": {
            "age": {"type": "integer", "domain": ["0", "100"]},
            "pay": {"type": "number", "domain": ["0", "1000"], "grid": "1"},
        }
    }
)
QUICK = Limits(attacked=50, runs=200)


def table(rows: int = 80) -> pa.Table:
    """A small table."""
    rng = np.random.default_rng(3)
    return pa.table({"age": rng.integers(0, 100, rows), "pay": rng.integers(0, 1000, rows) * 1.0})


def release() -> sherd.Release:
    """A release whose promise rests on assumptions."""
    plan = sherd.Plan(method="idp-ls", epsilon=1.0, k=5, guarantee="paper")
    return sherd.protect(table(), SCHEMA, plan)


def rewrite(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a written manifest."""
    path = folder / "manifest.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n")


FALSIFIED: dict[str, Callable[[dict[str, Any]], object]] = {
    "covers": lambda m: m["guarantee"].update(covers="everything that is released"),
    "assumes": lambda m: m["guarantee"].update(assumes=[]),
    "words": lambda m: m["guarantee"].update(words="Safe."),
}


@pytest.mark.parametrize("name", FALSIFIED)
def test_the_audit_fails_exactly_where_verify_does(name: str, tmp_path: Path) -> None:
    """A manifest that promises more than its plan fails both, by the same check."""
    folder = release().save(tmp_path / "out")
    rewrite(folder, FALSIFIED[name])
    verified = sherd.verify(folder)
    audited = sherd.audit(table(), folder, alternatives=False, limits=QUICK)
    assert verified.failed[-1].name == "promise"
    assert audited.checks == verified.checks
    assert audited.verdict.promise == "fails"
    command = CliRunner().invoke(cli, ["verify", str(folder), "--json"], standalone_mode=False)
    assert command.return_value == 4
    assert json.loads(command.stdout) == json.loads(json.dumps(verified.as_data()))


def test_a_release_in_memory_is_verified_like_its_files(tmp_path: Path) -> None:
    """Contents and promise are checked before anything is written."""
    made = release()
    loaded = {
        check.name: check.passed for check in sherd.verify(made.save(tmp_path / "out")).checks
    }
    inside = {check.name: check.passed for check in sherd.verify(made).checks}
    assert inside.items() <= loaded.items()
    assert inside["promise"] is True
    assert inside["facts"] is True
    false = {**made.manifest["guarantee"], "assumes": []}
    changed = sherd.Release(tables=made.tables, manifest={**made.manifest, "guarantee": false})
    assert [check.name for check in sherd.verify(changed).failed] == ["promise"]
    audited = sherd.audit(table(), changed, alternatives=False, limits=QUICK)
    assert audited.verdict.promise == "fails"


def test_an_audit_reads_the_manifest_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One reading: nobody can swap the manifest between the checks and the measures."""
    folder = release().save(tmp_path / "out")
    reads: list[Path] = []
    real = bundle.read_manifest

    def counted(path: Path) -> dict[str, Any]:
        reads.append(path)
        return real(path)

    monkeypatch.setattr(bundle, "read_manifest", counted)
    monkeypatch.setattr(verification, "read_manifest", counted)
    opened: list[str] = []
    read_text = Path.read_text

    def noted(path: Path, **more: Any) -> str:
        opened.append(path.name)
        return read_text(path, **more)

    monkeypatch.setattr(Path, "read_text", noted)
    sherd.audit(table(), folder, alternatives=False, limits=QUICK)
    assert len(reads) == 1
    assert opened.count("manifest.json") == 1


def test_an_audit_refuses_a_folder_without_a_readable_manifest(tmp_path: Path) -> None:
    """There is nothing to audit; `verify` fails its only check."""
    (tmp_path / "manifest.json").write_text("{")
    assert [check.name for check in sherd.verify(tmp_path).failed] == ["manifest"]
    with pytest.raises(FormatError, match="manifest"):
        sherd.audit(table(), tmp_path)


def test_an_audit_shows_itself_in_a_notebook() -> None:
    """`_repr_html_` is the report in a frame; without the report there is none."""
    made = sherd.audit(table(), release(), alternatives=False, limits=QUICK)
    shown = made._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "&lt;!doctype html&gt;" in shown.lower()
    from sherd.auditing.run import audit
    from sherd.errors import UsageError

    with pytest.raises(UsageError, match="without a report"):
        audit(table(), release(), alternatives=False, limits=QUICK).save("x.html")
