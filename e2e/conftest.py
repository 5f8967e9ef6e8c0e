"""The built app behind the real server, in a real browser; nothing on the console may go unseen."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from e2e.browser import launch
from pillarbox.web import WEB_ROOT
from tests.conftest import copied_database, module_database_url, server_url, template
from tests.site import Site

__all__ = ["module_database_url", "server_url", "template"]

expect.set_options(timeout=15_000)

WATCH_POLICY = """
window.violations = [];
document.addEventListener('securitypolicyviolation', (event) =>
  window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
"""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def built() -> None:
    assert (WEB_ROOT / "index.html").is_file(), "the front end is not built: npm run build"


@pytest.fixture(scope="module")
def site(built: None, module_database_url: str) -> Iterator[Site]:
    site = Site(module_database_url)
    site.start()
    yield site
    site.close()


@pytest.fixture
def database_url(server_url: str, template: str) -> Iterator[str]:
    """A database for a site of the test's own."""
    with copied_database(server_url, template) as url:
        yield url


@pytest.fixture
def context(browser: Browser, site: Site) -> Iterator[BrowserContext]:
    context = browser.new_context(
        base_url=site.url,
        locale="en-GB",
        viewport={"width": 1440, "height": 1000},
        reduced_motion="no-preference",
    )
    context.add_init_script(WATCH_POLICY)
    yield context
    context.close()


@pytest.fixture
def console() -> list[str]:
    """Everything the page complained of; a test that expects complaints empties it."""
    return []


@pytest.fixture
def page(context: BrowserContext, console: list[str]) -> Iterator[Page]:
    page = context.new_page()
    page.set_default_timeout(15_000)

    def hear(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            console.append(f"{message.type}: {message.text}")

    page.on("console", hear)
    page.on("pageerror", lambda error: console.append(f"uncaught: {error}"))
    yield page
    if not page.is_closed():
        assert page.evaluate("window.violations ?? []") == []
    assert console == []


@pytest.fixture
def picture(tmp_path: Path) -> Callable[[str, bytes], Path]:
    """Writes a file to hand to the page."""

    def write(name: str, content: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write
