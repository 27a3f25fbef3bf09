"""A person at a browser, for tests that walk through the studio."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any

from selenium.common.exceptions import StaleElementReferenceException

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"


MAKING = bool(os.environ.get("SHERD_PICTURES"))
"""Whether pictures for the documentation are wanted."""


WORDS = PICTURES / "studio-words.json"
"""The headings, labels and buttons of every page when its picture was taken."""

WORDY = "h1, h2, h3, label, button, th, summary, dt"

_SHOWN = """return [...document.querySelectorAll(arguments[0])]
    .filter(e => e.checkVisibility()).map(e => e.textContent)"""


def words_on(browser: Any, of: str = WORDY) -> list[str]:
    """What a picture of the open page would be old without, but for numbers and paths."""
    found = {" ".join(text.split()) for text in browser.execute_script(_SHOWN, of)}
    return sorted({re.sub(r"/[\w./-]+", "PATH", re.sub(r"\d+", "0", text)) for text in found})


def keep_picture(
    browser: Any, page: str, top: str = "main", kind: str = "studio-", of: str = WORDY
) -> None:
    """Take a picture for the documentation, from an element on, where pictures are wanted.

    Everywhere else the page must say what it said when its picture was taken.
    """
    name = f"{kind}{page}"
    known = json.loads(WORDS.read_text()) if WORDS.exists() else {}
    if not MAKING:
        assert words_on(browser, of) == known[page], "take the pictures again: SHERD_PICTURES=1"
        return
    known[page] = words_on(browser, of)
    WORDS.write_text(json.dumps(known, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 1280, "height": 860, "deviceScaleFactor": 1, "mobile": False},
    )
    browser.execute_script(f"document.querySelector('{top}').scrollIntoView()")
    if top == "main":
        browser.execute_script("window.scrollTo(0, 0)")
    time.sleep(0.3)
    browser.save_screenshot(str(PICTURES / f"{name}.png"))
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
