"""Every page, in every shape a person meets it: wide and narrow, light and dark, English and German."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from e2e.conftest import WATCH_POLICY
from e2e.words import word
from tests.site import Site

AXE = Path(__file__).resolve().parent.parent / "node_modules" / "axe-core" / "axe.min.js"
PATHS = ["/showcases/workers", "/inbox", "/no/such/page"]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("path", PATHS)
def test_every_page_is_accessible_and_fits_its_screen(
    browser: Browser, site: Site, path: str, language: str, width: int, theme: str
) -> None:
    context = browser.new_context(
        base_url=site.url, viewport={"width": width, "height": 900}, color_scheme=theme, bypass_csp=True
    )
    page = context.new_page()
    page.goto(path if language == "en" else f"/de{path}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    if "showcases" in path:
        expect(page.locator("[data-connection=live]")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out to the side"
    page.add_script_tag(path=AXE)
    found = page.evaluate(
        "async () => (await axe.run()).violations.map((v) => `${v.id}: ${v.nodes[0].html}`)"
    )
    assert found == []
    context.close()


def test_the_theme_is_chosen_by_a_click_and_kept(page: Page) -> None:
    page.goto("/showcases/workers")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name=word("theme_to_dark")).click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    dark = page.evaluate(background)
    assert dark != light
    page.goto("/inbox")
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert page.evaluate(background) == dark


def test_an_unknown_page_leads_back(page: Page, console: list[str]) -> None:
    response = page.goto("/no/such/page")
    assert response is not None
    assert response.status == 404
    page.get_by_role("main").get_by_role("link", name=word("not_found_workers")).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(word("workers_title"))
    console.clear()


def test_nothing_jumps_when_data_arrives(browser: Browser, site: Site) -> None:
    context = browser.new_context(base_url=site.url, viewport={"width": 1440, "height": 1000})
    context.add_init_script(
        WATCH_POLICY
        + """
        window.shift = 0;
        new PerformanceObserver((list) => {
          for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift += entry.value;
        }).observe({ type: 'layout-shift', buffered: true });
        """
    )
    page = context.new_page()
    page.goto("/showcases/workers")
    expect(page.locator("[data-connection=live]")).to_be_visible()
    page.get_by_role("button", name=word("try_hundred")).scroll_into_view_if_needed()
    page.get_by_role("button", name=word("try_hundred")).click()
    expect(page.locator("tr[data-delivery]").first).to_have_attribute("data-status", "sent")
    assert page.evaluate("window.shift") < 0.02
    context.close()


def test_the_first_script_stays_small(page: Page) -> None:
    sizes: dict[str, int] = {}
    page.on(
        "response",
        lambda response: (
            sizes.update({response.url: int(response.headers.get("content-length", 0))})
            if response.url.endswith(".js")
            else None
        ),
    )
    page.goto("/inbox")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert 0 < sum(sizes.values()) <= 90 * 1024, sizes
