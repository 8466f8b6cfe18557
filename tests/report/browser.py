"""A page in a real Chromium: without a screen, without a network."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


def needed() -> None:
    """Skip the test where there is no browser, and say what would bring one."""
    pytest.importorskip("selenium", reason="needs selenium: pip install selenium")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("needs Chromium: apt-get install chromium chromium-driver")


@contextmanager
def browser(width: int = 1280, scheme: str = "light") -> Iterator[Any]:
    """A Chromium that prefers light or dark pages and keeps its console and what it asks the network for."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    os.environ["SE_OFFLINE"] = "true"
    options = Options()
    options.binary_location = str(CHROMIUM)
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--window-size={width},1400"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_script_timeout(120)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        yield driver
    finally:
        driver.quit()


def opened(driver: Any, page: Path) -> None:
    """Open a page and wait until all of it is drawn."""
    driver.get(page.as_uri())
    until(driver, "window.Bokeh !== undefined && Bokeh.documents.length > 0 && Bokeh.documents[0].is_idle")


def until(driver: Any, condition: str) -> None:
    """Wait until something is so; two minutes are enough for the slowest machine."""
    for _ in range(1200):
        if driver.execute_script(f"return Boolean({condition})"):
            return
        time.sleep(0.1)
    raise AssertionError(f"never so: {condition}")


def model(name: str) -> str:
    """JavaScript for a model of the page by its name."""
    return f"Bokeh.documents[0].get_model_by_name('{name}')"
