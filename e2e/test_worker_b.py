"""Worker B: the live outbox, the incidents, the inbox; and what happens when the server goes away."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from e2e.test_worker_a import open_page
from e2e.words import word
from pillarbox.notifications.outbox import CLAIM
from tests.site import Site


def depth(page: Page, status: str) -> Locator:
    return page.locator(f"[data-depth={status}] dd")


def number(page: Page, status: str) -> int:
    expect(depth(page, status)).to_have_text(re.compile(r"\d"))
    return int(re.sub(r"\D", "", depth(page, status).inner_text()))


def test_depth_follows_an_enqueue_and_its_delivery_without_a_reload(page: Page) -> None:
    open_page(page)
    sent = number(page, "sent")
    page.get_by_role("button", name=word("try_one")).click()
    expect(depth(page, "sent")).to_have_text(f"{sent + 1:,}")
    expect(page.locator("tr[data-delivery]").first).to_have_attribute("data-status", "sent")
    page.get_by_role("button", name=word("try_hundred")).click()
    expect(depth(page, "sent")).to_have_text(f"{sent + 101:,}")


@pytest.mark.parametrize("channel", ["channel_email", "channel_webhook"])
def test_poison_is_failed_and_flaky_is_retrying(page: Page, channel: str) -> None:
    open_page(page)
    failed, retrying = number(page, "failed"), number(page, "retrying")
    page.get_by_role("radio", name=word(channel), exact=True).check()
    page.get_by_role("button", name=word("try_poison")).click()
    expect(depth(page, "failed")).to_have_text(str(failed + 1))
    page.get_by_role("button", name=word("try_flaky")).click()
    expect(depth(page, "retrying")).to_have_text(str(retrying + 1))
    row = page.locator("tr[data-delivery]").first
    expect(row).to_have_attribute("data-status", "retrying")
    expect(row).to_contain_text("1/5")


def test_the_claim_and_the_numbers_are_those_of_the_server(page: Page) -> None:
    open_page(page)
    shown = page.get_by_label(word("claim_label")).inner_text()
    assert re.sub(r"\s+", " ", shown).strip() == re.sub(r"\s+", " ", CLAIM).strip()
    expect(page.get_by_text("5 waves × 10 s + 30 s margin").first).to_be_attached()


@pytest.mark.parametrize(
    ("kind", "actions", "end"),
    [
        ("kill", ["incident_action_kill", "incident_action_lapse"], "delivered"),
        ("freeze", ["incident_action_freeze", "incident_action_lapse", "incident_action_thaw"], "discarded"),
    ],
)
def test_an_incident_is_played_to_its_end(page: Page, kind: str, actions: list[str], end: str) -> None:
    open_page(page)
    page.get_by_role("button", name=word(f"incident_{kind}_start")).click()
    for action in actions:
        label = re.compile("^" + re.escape(word(action)).replace(re.escape("{pid}"), r"\d+") + "$")
        page.get_by_role("button", name=label).click()
    stage = page.locator(f"[data-kind={kind}]")
    expect(stage).to_have_attribute("data-incident", end)
    expect(stage.get_by_text(word(f"incident_state_{end}"))).to_be_visible()
    page.get_by_role("button", name=word("incident_dismiss")).click()
    expect(stage).to_have_attribute("data-incident", "none")


def test_what_was_sent_stands_in_the_inbox_which_fills_while_one_looks(
    browser: Browser, page: Page, site: Site
) -> None:
    page.goto("/inbox")
    open_elsewhere = browser.new_context(base_url=site.url).new_page()
    open_page(open_elsewhere)
    open_elsewhere.get_by_role("button", name=word("try_one")).click()
    expect(page.get_by_role("list", name=word("inbox_list"))).to_be_visible()
    expect(page.get_by_text("Hello", exact=True).first).to_be_visible()
    open_elsewhere.context.close()
    page.get_by_role("button", name=word("inbox_clear")).click()
    expect(page.get_by_text(word("inbox_empty_title"))).to_be_visible()


@pytest.fixture
def mortal(database_url: str) -> Iterator[Site]:
    site = Site(database_url)
    site.start()
    yield site
    site.close()


def test_the_stream_comes_back_after_a_restart_of_the_server(browser: Browser, mortal: Site) -> None:
    page = browser.new_context(base_url=mortal.url).new_page()
    open_page(page)
    assert mortal.stop() == 0
    expect(page.locator("[data-connection=reconnecting]")).to_be_visible()
    page.get_by_role("button", name=word("try_one")).click()
    expect(page.get_by_text(word("problem_unreachable"), exact=True).first).to_be_visible()
    mortal.start()
    expect(page.locator("[data-connection=live]")).to_be_visible()
    page.get_by_role("button", name=word("try_one")).click()
    expect(depth(page, "sent")).to_have_text("1")
    page.context.close()


def test_a_dormant_process_says_why(browser: Browser, database_url: str) -> None:
    site = Site(database_url, PILLARBOX_PLATFORM="serverless")
    site.start()
    try:
        page = browser.new_context(base_url=site.url).new_page()
        open_page(page)
        expect(page.locator("[data-platform=serverless]")).to_be_visible()
        expect(page.get_by_text(word("platform_dormant_why"))).to_be_visible()
        page.get_by_role("button", name=word("try_one")).click()
        expect(depth(page, "pending")).to_have_text("1")
        page.context.close()
    finally:
        site.close()
