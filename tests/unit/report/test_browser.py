"""The page in a real browser: nothing is loaded, nothing complains, everything can be reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from browsing import violations, visited

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sherd.auditing.verdict.audit_result import Audit


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_page_in_chromium(
    browser: Any, axe: str, text: str, audit: Audit, tmp_path: Path, dark: bool
) -> None:
    """No console error, no request but the page, every plot drawn, nothing axe-core objects to."""
    path = tmp_path / "report.html"
    path.write_text(text, encoding="utf-8")
    asked = visited(browser, path.as_uri(), dark=dark)
    assert [a for a in asked if not a.startswith("data:")] == [path.as_uri()]
    assert [e for e in browser.get_log("browser") if e["level"] in ("SEVERE", "WARNING")] == []
    sizes = browser.execute_script(
        "return [...document.querySelectorAll('figure svg')].map(s => {"
        "const b = s.getBoundingClientRect(); return [b.width, b.height]})"
    )
    assert len(sizes) == 6
    assert all(width > 300 and height > 60 for width, height in sizes)
    first = browser.execute_script(
        "const h = document.querySelector('h1'), l = document.querySelector('.lights');"
        "return [h.textContent, l.getBoundingClientRect().bottom]"
    )
    assert first[0] == audit.verdict.headline
    assert first[1] < 1000, "the verdict is on the first screen"
    assert violations(browser, axe) == []


def test_comparison_in_chromium(
    browser: Any, axe: str, audit: Audit, audit_of: Callable[..., Audit], tmp_path: Path
) -> None:
    """The comparison's page passes the same."""
    from sherd.report.reporting import compare

    path = compare({"cbls": audit, "dp": audit_of("dp")}).save(tmp_path / "compare.html")[0]
    asked = visited(browser, path.as_uri())
    assert [a for a in asked if not a.startswith("data:")] == [path.as_uri()]
    assert [e for e in browser.get_log("browser") if e["level"] in ("SEVERE", "WARNING")] == []
    assert violations(browser, axe) == []


def test_page_fits_a_telephone(browser: Any, text: str, tmp_path: Path) -> None:
    """A narrow screen needs no scrolling sideways."""
    path = tmp_path / "report.html"
    path.write_text(text, encoding="utf-8")
    visited(browser, path.as_uri())
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True},
    )
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert wide <= 392


def test_a_comparison_on_a_telephone_shows_every_release(
    browser: Any, audit: Audit, audit_of: Callable[..., Audit], tmp_path: Path
) -> None:
    """Releases stand one under the other, each named: none lies beyond the edge of the screen."""
    from sherd.report.reporting import compare

    path = compare({"cbls": audit, "dp": audit_of("dp")}).save(tmp_path / "compare.html")[0]
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True},
    )
    visited(browser, path.as_uri())
    right, named = browser.execute_script(
        "const cells = [...document.querySelectorAll('table.beside tbody td')];"
        "return [Math.max(...cells.map(c => c.getBoundingClientRect().right)),"
        " cells.map(c => getComputedStyle(c, '::before').content)]"
    )
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert right <= 390
    assert any("cbls" in name for name in named)
    assert any("dp" in name for name in named)
