"""A person at a browser, for tests that walk through the studio."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any

from selenium.common.exceptions import StaleElementReferenceException

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"


MAKING = bool(os.environ.get("SHERD_PICTURES"))
"""Whether pictures for the documentation are wanted."""


def keep_picture(browser: Any, name: str, top: str = "main") -> None:
    """Take a picture for the documentation, from an element on; where pictures are wanted."""
    if not MAKING:
        return
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 1280, "height": 860, "deviceScaleFactor": 1, "mobile": False},
    )
    browser.execute_script(f"document.querySelector('{top}').scrollIntoView()")
    if top == "main":
        browser.execute_script("window.scrollTo(0, 0)")
    time.sleep(0.3)
    browser.save_screenshot(str(PICTURES / f"studio-{name}.png"))
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


class Walker:
    """A person at the browser; finds things by their words, as a person does."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser

    def until(self, xpath: str, seconds: float = 120) -> Any:
        """Wait for an element that can be seen."""
        end = time.monotonic() + seconds
        while True:
            with contextlib.suppress(StaleElementReferenceException):  # the page was renewed
                found = [e for e in self.browser.find_elements("xpath", xpath) if e.is_displayed()]
                if found:
                    return found[0]
            assert time.monotonic() < end, (xpath, self.browser.page_source[-3000:])
            time.sleep(0.1)

    def says(self, words: str, seconds: float = 120) -> None:
        """Wait until the page says something."""
        self.until(f"//*[contains(normalize-space(.), {words!r})][not(self::script)]", seconds)

    def click(self, words: str) -> None:
        """Click on the link or button that says so, and wait for the page that it leads to."""
        what = (
            f"//a[contains(normalize-space(.), {words!r})] | "
            f"//button[contains(normalize-space(.), {words!r})]"
        )
        for _ in range(10):
            with contextlib.suppress(StaleElementReferenceException):
                there = self.until(what)
                self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", there)
                there.click()
                return
        raise AssertionError(f"{words!r} is renewed before it can be clicked")

    def write(self, label: str, text: str) -> None:
        """Fill in the field with a label."""
        there = self.browser.find_element(
            "xpath", f"//*[@id = //label[contains(normalize-space(.), {label!r})]/@for]"
        )
        there.clear()
        there.send_keys(text)

    def complaints(self) -> list[str]:
        """What the browser complains about: blocked by the policy, not found, an error."""
        bad = ("SEVERE", "WARNING")
        return [e["message"] for e in self.browser.get_log("browser") if e["level"] in bad]
