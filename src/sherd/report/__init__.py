"""The report a person reads: one page that opens offline, and the same as JSON, Markdown, PDF.

The HTML page is self-contained: no script, no external load, plots as inline SVG in the page's
own colours, so that it follows light and dark and prints. The PDF is drawn by matplotlib alone
and needs neither a browser nor the network.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sherd.errors import OutputExistsError, UsageError
from sherd.tables.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sherd.auditing.verdict.audit_result import Audit
    from sherd.auditing.verdict.comparison import Comparison

SUFFIXES = (".html", ".json", ".md", ".pdf")


def check_outputs(paths: Sequence[Path], *, force: bool) -> None:
    """Refuse, before anything is computed, a report that could not be written."""
    for path in paths:
        if path.suffix.lower() not in SUFFIXES:
            raise UsageError(
                "the report's format is unknown",
                must="a name that ends in " + ", ".join(SUFFIXES),
                got=repr(path.name),
            )
        if path.exists() and not force:
            raise OutputExistsError(
                "the report already exists", got=str(path), do="choose another, or add --force"
            )


def write(result: Audit | Comparison, path: Path) -> Path:
    """Write an audit or a comparison in the form that the path's suffix names."""
    check_outputs([path], force=True)
    write_whole(path, _bytes(result, path.suffix.lower()))
    return path


def html(result: Audit | Comparison) -> str:
    """The page of an audit or a comparison."""
    from sherd.auditing.verdict.comparison import Comparison
    from sherd.report import page

    return page.comparison(result) if isinstance(result, Comparison) else page.audit(result)


def _bytes(result: Any, suffix: str) -> bytes:
    from sherd.auditing.verdict.comparison import Comparison

    if suffix == ".json":
        return (json.dumps(result.as_data(), indent=2, ensure_ascii=False) + "\n").encode()
    single = not isinstance(result, Comparison)
    if suffix == ".md":
        from sherd.report import markdown

        text = markdown.audit(result) if single else markdown.comparison(result)
        return text.encode()
    if suffix == ".pdf":
        from sherd.report import pdf

        return pdf.audit(result) if single else pdf.comparison(result)
    return html(result).encode()
