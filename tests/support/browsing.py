"""A real browser without a window, and the accessibility checker, for tests of pages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

AXE = "axe-core@4.14.0"
"""The accessibility checker, from the npm registry; SHERD_AXE names a file that is there."""


def require_or_skip(reason: str) -> None:
    """Skip the test, or fail it where SHERD_REQUIRE=all says nothing may be skipped."""
    if os.environ.get("SHERD_REQUIRE") == "all":
        pytest.fail(f"SHERD_REQUIRE=all, but {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session", name="axe")
def axe_fixture(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core: a file that SHERD_AXE names, or fetched by npm."""
    given = os.environ.get("SHERD_AXE")
    if given:
        return Path(given).read_text()
    npm = shutil.which("npm")
    if npm is None:
        require_or_skip("npm is not installed and SHERD_AXE names no axe.min.js")
    folder = tmp_path_factory.mktemp("axe")
    made = subprocess.run(
        [str(npm), "pack", "--silent", AXE],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if made.returncode:
        require_or_skip("npm could not fetch axe-core")
    with tarfile.open(folder / made.stdout.strip().splitlines()[-1]) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


@pytest.fixture(scope="session", name="chromium")
def chromium_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium without a window, with a log of its console and its network."""
    try:
        from selenium import webdriver
    except ImportError:
        require_or_skip("selenium is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        require_or_skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = str(program)
    for flag in (
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--disable-dev-shm-usage", f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):  # fmt: skip
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=str(driver))
    found = webdriver.Chrome(options=options, service=service)
    found.set_window_size(1200, 1000)
    yield found
    found.quit()


@pytest.fixture(scope="module", name="browser")
def browser_fixture(chromium: Any) -> Any:
    """The browser of all tests, with nothing left of the module before."""
    chromium.get("about:blank")
    chromium.delete_all_cookies()
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    for log in ("browser", "performance"):
        chromium.get_log(log)
    return chromium


def visited(browser: Any, address: str, *, dark: bool = False) -> list[str]:
    """Open a page; the addresses that were asked for."""
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    browser.get_log("performance")
    browser.get(address)
    time.sleep(0.3)  # late requests, if there are any, would come now
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]


TWO = ((1280, "light"), (390, "dark"))
FOUR = (*TWO, (1280, "dark"), (390, "light"))
"""Looks of a page: its width and its colours."""


def objections(browser: Any, axe: str, looks: tuple[tuple[int, str], ...]) -> list[str]:
    """What is wrong with the page that is open: by axe-core, or wider than the screen."""
    found = []
    for wide, scheme in looks:
        size = {"width": wide, "height": 900, "deviceScaleFactor": 1, "mobile": wide < 500}
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
        across = browser.execute_script("return document.documentElement.scrollWidth")
        if across > wide:
            found.append(f"{wide} {scheme}: {across} wide")
        found += [f"{wide} {scheme}: {each}" for each in violations(browser, axe)]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    return found


def violations(browser: Any, axe: str) -> list[str]:
    """What axe-core finds wrong with the page that is open."""
    if not browser.execute_script("return Boolean(window.axe)"):
        browser.execute_script(axe)
    found = browser.execute_async_script(
        "const done = arguments[arguments.length - 1]; axe.run().then(done, e => done(String(e)));"
    )
    assert isinstance(found, dict), found
    return [f"{v['id']}: {v['nodes'][0]['html'][:120]}" for v in found["violations"]]
