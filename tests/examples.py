"""Helpers of all tests: the repository's root, and a browser for pages."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PHONE = 360
DESK = 1280


class Browser:
    """Opens pages from files. `driver` is selenium's; all queries concern the page that was opened last."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, page: Path, width: int = DESK, dark: bool = False) -> Any:
        """Load `page` in a window of `width` pixels and return the driver."""
        self._cdp("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}  # a click misses an element that scrolls
        self._cdp("Emulation.setEmulatedMedia", features=[theme, still])
        self.driver.get("about:blank")
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)  # discards earlier entries
        self.driver.get(page.as_uri())
        return self.driver

    def find(self, selector: str) -> Any:
        """Return the first element of this CSS selector."""
        return self.driver.find_element("css selector", selector)

    def find_all(self, selector: str) -> list[Any]:
        """Return all elements of this CSS selector."""
        found: list[Any] = self.driver.find_elements("css selector", selector)
        return found

    def wait_for(self, expression: str) -> Any:
        """Return the value of a JavaScript expression once it is true. Raises TimeoutException after ten seconds."""
        from selenium.webdriver.support.wait import WebDriverWait

        return WebDriverWait(self.driver, 10, 0.05).until(lambda driver: driver.execute_script(f"return {expression}"))

    def press(self, *keys: str) -> None:
        """Press keys, given by selenium's names or as characters, in the focused element."""
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.keys import Keys

        ActionChains(self.driver).send_keys(*(getattr(Keys, key, key) for key in keys)).perform()

    def errors(self) -> list[str]:
        """Return the messages of the console: errors, warnings, and violations of the content security policy."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Return the requested addresses, except that of the page itself and data URLs."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        return [url for url in sent if url != self.driver.current_url and not url.startswith(("data:", "about:"))]

    def overflow(self) -> int:
        """Return the number of pixels by which the page is wider than its window."""
        root = "document.documentElement"
        return int(self.driver.execute_script(f"return {root}.scrollWidth - {root}.clientWidth"))

    def _cdp(self, command: str, **values: Any) -> None:
        self.driver.execute_cdp_cmd(command, values)
