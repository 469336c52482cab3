"""The CPU kernels of a run, for all tests; and a browser for those of pages: one headless Chromium per session."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trainer.device.kernels import decide_kernels, this_processor, use_kernels

use_kernels(decide_kernels(this_processor()))  # before any test's first operator: oneDNN looks once a process

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
MISSING = "pages are tested in Chromium, which is not here: install the Debian packages chromium and chromium-driver"
PHONE = 360
DESK = 1280


# Fixtures that start MindSpore or a browser: a test that asks for one of them is slow.
SLOW_FIXTURES = {"stripes", "make_set", "cpu", "untrained", "browser"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what these fixtures make slow. Files with slow tests come first: none is left to one worker at the end."""
    for item in items:
        if SLOW_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without slow tests, do not import a file that has no others: it would load MindSpore."""
    if config.option.markexpr == "not slow" and collection_path.match("test_*.py"):
        return "\npytestmark = pytest.mark.slow\n" in collection_path.read_text() or None
    return None


class Browser:
    """Opens pages from files. `driver` is selenium's; what is asked of it concerns the page opened last."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, page: Path, width: int = DESK, dark: bool = False) -> Any:
        """Load `page` afresh in a window of this width in pixels; the driver."""
        self._cdp("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}  # or a click would miss what is being scrolled to
        self._cdp("Emulation.setEmulatedMedia", features=[theme, still])
        self.driver.get("about:blank")
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)  # what was logged before is forgotten
        self.driver.get(page.as_uri())
        return self.driver

    def find(self, selector: str) -> Any:
        """The first element of this CSS selector."""
        return self.driver.find_element("css selector", selector)

    def find_all(self, selector: str) -> list[Any]:
        """All elements of this CSS selector."""
        found: list[Any] = self.driver.find_elements("css selector", selector)
        return found

    def wait_for(self, expression: str) -> Any:
        """The value of a JavaScript expression once it is true; fails after ten seconds."""
        from selenium.webdriver.support.wait import WebDriverWait

        return WebDriverWait(self.driver, 10, 0.05).until(lambda driver: driver.execute_script(f"return {expression}"))

    def press(self, *keys: str) -> None:
        """Press keys, by selenium's names or characters, where the focus is."""
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.keys import Keys

        ActionChains(self.driver).send_keys(*(getattr(Keys, key, key) for key in keys)).perform()

    def errors(self) -> list[str]:
        """What the console holds: errors, warnings, and what the content security policy has stopped."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """The addresses that were asked for, but for the page itself and data within it."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        return [url for url in sent if url != self.driver.current_url and not url.startswith(("data:", "about:"))]

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        root = "document.documentElement"
        return int(self.driver.execute_script(f"return {root}.scrollWidth - {root}.clientWidth"))

    def _cdp(self, command: str, **values: Any) -> None:
        self.driver.execute_cdp_cmd(command, values)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Skips where no Chromium is installed, and fails there with REQUIRE_CHROMIUM in the environment."""
    driver, chromium = shutil.which("chromedriver"), shutil.which("chromium")
    if not (driver and chromium):
        if os.environ.get("REQUIRE_CHROMIUM"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield Browser(chrome)
    finally:
        chrome.quit()
