"""Settings of all tests: the CPU kernels of a run, slow tests, and one headless Chromium per session."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples import Browser
from trainer.device.kernels import decide_kernels, this_processor, use_kernels

use_kernels(decide_kernels(this_processor()))  # before the first operator: oneDNN reads it once per process

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
MISSING = "Chromium, which tests the pages, is missing: install the Debian packages chromium and chromium-driver"


# Fixtures that start MindSpore or a browser: a test that uses one of them is slow.
SLOW_FIXTURES = {"stripes", "make_set", "cpu", "untrained", "browser"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests with these fixtures as slow. Files with slow tests run first, so that no worker ends with one."""
    for item in items:
        if SLOW_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files that have only slow tests if these are deselected: they would load MindSpore."""
    if config.option.markexpr == "not slow" and collection_path.match("test_*.py"):
        return "\npytestmark = pytest.mark.slow\n" in collection_path.read_text() or None
    return None


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser. Without Chromium the test is skipped, or fails if REQUIRE_CHROMIUM is set in the environment."""
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
