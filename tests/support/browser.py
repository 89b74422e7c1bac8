"""Headless Chromium, and what one wants to know about a page."""

import os
import shutil
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium.common.exceptions import TimeoutException
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)
_PATIENCE_SECONDS = 180.0
_LOADED = "return performance.getEntriesByType('resource').length"
PROJECT = Path(__file__).parents[2]
_FAULTS = """
const table = arguments[0], found = [], page = document.documentElement, scroller = table.parentElement;
if (page.scrollWidth > innerWidth) found.push(`the page is ${page.scrollWidth} pixels wide`);
if (scroller.scrollWidth > scroller.clientWidth) found.push("the table has to be scrolled");
const hides = box => getComputedStyle(box).overflowX !== "visible";
for (const cell of (arguments[1] ? document : table).querySelectorAll("td, th")) {
  const right = cell.getBoundingClientRect().right, wide = cell.scrollWidth - cell.clientWidth;
  const hinted = cell.title && cell.title.startsWith(cell.innerText.split("…")[0]);
  let cut = right > innerWidth || ((table.contains(cell) ? wide > 0 : wide > 1 && hides(cell)) && !hinted);
  for (let box = cell.parentElement; box && !cut; box = box.parentElement)
    cut = hides(box) && right > box.getBoundingClientRect().right + 1;
  if (cut) found.push(`cut: ${cell.innerText}`);
}
const rows = [...table.querySelectorAll("tr")].filter(row => row.offsetHeight);
for (const row of rows) {
  const lines = [...row.cells].map(cell => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    const bottoms = [...range.getClientRects()].map(rect => rect.bottom);
    return Math.max(...bottoms) - Math.min(...bottoms);
  });
  if (lines.some(height => height > 8)) found.push(`wrapped: ${row.innerText}`);
}
if (!rows.some(row => row.closest("tbody"))) found.push("no row");
return found;
"""


@contextmanager
def chromium(profile: Path, *, width: int = 1400, height: int = 900) -> Iterator["Page"]:
    """A browser with a fresh profile; the test is left out where there is none.

    Args:
        profile: Folder for the profile.
        width: Of the window, in pixels.
        height: Of the window, in pixels.
    """
    binary = next(filter(None, map(shutil.which, _BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("there is no Chromium with chromedriver")
    options = ChromeOptions()
    options.binary_location = binary
    for flag in (*_FLAGS, f"--window-size={width},{height}", f"--user-data-dir={profile}"):
        options.add_argument(flag)
    # Selenium asks the proxy of the environment for a driver on loopback.
    os.environ["NO_PROXY"] = "127.0.0.1,localhost"
    browser = Chrome(options=options, service=ChromeService(driver))
    try:
        page = Page(browser)
        page.resize(width, height)
        yield page
    finally:
        browser.quit()


class Page:
    """What is open in the browser."""

    def __init__(self, browser: Chrome) -> None:
        self.browser = browser

    @property
    def text(self) -> str:
        """All text that can be seen."""
        return self.browser.find_element(By.TAG_NAME, "body").text

    def resize(self, width: int, height: int) -> None:
        """Give the page this size, in pixels: the window is larger by bars that a headless browser hides."""
        self.browser.set_window_size(width, height)
        inner = self.browser.execute_script("return [innerWidth, innerHeight]")
        self.browser.set_window_size(2 * width - inner[0], 2 * height - inner[1])

    def prefer(self, scheme: str) -> None:
        """Prefer "light" or "dark" colours."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def faults(self, table: str | WebElement, *, others: bool = False) -> list[str]:
        """Return what is wrong with the layout of a table, and of the page around it.

        A cell may be shortened where the whole of it shows on hover.

        Args:
            table: The table, or a CSS selector of it. It must have a row, and not need scrolling.
            others: Look for cut cells in all other tables of the page as well.
        """
        if isinstance(table, str):
            table = self.browser.find_element(By.CSS_SELECTOR, table)
        return self.browser.execute_script(_FAULTS, table, others)

    def open(self, url: str, *wanted: str) -> str:
        """Open a page and wait for some texts on it; returns all of its text."""
        self.browser.get(url)
        return self.wait_for(*wanted)

    def wait_for(self, *wanted: str) -> str:
        """Wait until the page shows all of some texts; returns all of its text."""
        return self.wait_until(lambda text: all(part in text for part in wanted), f"all of {wanted}")

    def wait_until(self, good: Callable[[str], bool], what: str) -> str:
        """Wait until the text of the page is as it has to be; returns it."""
        shown = ""

        def look(_: Chrome) -> bool:
            nonlocal shown
            shown = self.text
            return good(shown)

        try:
            self._waiting().until(look)
        except TimeoutException:
            raise AssertionError(f"{self.browser.current_url} does not show {what}, but:\n{shown}") from None
        return shown

    def find(self, xpath: str) -> WebElement:
        """Wait for an element that can be seen."""

        def visible(browser: Chrome) -> WebElement | bool:
            return next(
                (item for item in browser.find_elements(By.XPATH, xpath) if item.is_displayed()), False
            )

        try:
            return self._waiting().until(visible)
        except TimeoutException:
            raise AssertionError(f"{self.browser.current_url} has no {xpath}, but:\n{self.text}") from None

    def click(self, text: str) -> None:
        """Click what shows exactly this text."""
        self.find(f"//*[normalize-space(text())='{text}']").click()

    def is_on_first_screen(self, element: WebElement) -> bool:
        """Return whether an element is seen without scrolling."""
        script = (
            "const r = arguments[0].getBoundingClientRect(); return r.top >= 0 && r.bottom <= innerHeight"
        )
        return bool(self.browser.execute_script(script, element))

    def settle(self) -> None:
        """Wait until the page loads nothing more, icons and fonts included; at most ten seconds."""
        loaded = -1
        for _ in range(20):
            before, loaded = loaded, self.browser.execute_script(_LOADED)
            if before == loaded:
                return
            time.sleep(0.5)

    def scroll_to(self, text: str) -> None:
        """Bring what shows exactly this text to the top of the window."""
        element = self.find(f"//*[normalize-space(text())='{text}']")
        self.browser.execute_script("arguments[0].scrollIntoView()", element)

    def picture(self, name: str, first: WebElement | None = None, last: WebElement | None = None) -> None:
        """Store a picture for the documents, when `LANCE_OPS_PICTURES` names their folder; see `save`."""
        folder = os.environ.get("LANCE_OPS_PICTURES")
        if folder:
            self.settle()
            self.save(PROJECT / folder / f"{name}.png", first, last)

    def save(self, path: Path, first: WebElement | None = None, last: WebElement | None = None) -> None:
        """Store a picture of the window, or of an element down to the end of another one in it."""
        options: dict[str, object] = {"format": "png"}
        if first is not None and last is not None:
            rect = first.rect
            height = last.rect["y"] + last.rect["height"] - rect["y"]
            options["clip"] = {
                "x": rect["x"],
                "y": rect["y"],
                "width": rect["width"],
                "height": height,
                "scale": 1,
            }
        data = self.browser.execute_cdp_cmd("Page.captureScreenshot", options)["data"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b64decode(data))

    def _waiting(self) -> WebDriverWait:
        return WebDriverWait(self.browser, _PATIENCE_SECONDS, poll_frequency=0.1)
