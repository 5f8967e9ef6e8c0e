"""Worker A: the same function on two threads, the bytes that leave, and every input a user has."""

import io
import re
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import BrowserContext, Locator, Page, expect

from e2e.words import word
from tests.vectors.palette.awkward_images import AwkwardImage, awkward_images

COFFEE = word("picker_use", photo=word("photo_coffee"))


def open_page(page: Page, path: str = "/showcases/workers") -> None:
    page.goto(path)
    expect(page.locator("[data-connection=live]")).to_be_visible()


def card(page: Page, thread: str) -> Locator:
    return page.locator(f"[data-thread={thread}]")


def longest_gap(page: Page, thread: str) -> float:
    return float(re.sub(r"[^\d.]", "", card(page, thread).locator("[data-figure=longest-gap]").inner_text()))


def run(page: Page, thread: str) -> None:
    page.get_by_role("button", name=word("run_on_main" if thread == "main" else "run_in_worker")).click()
    expect(card(page, thread)).to_have_attribute("aria-busy", "false")
    expect(card(page, thread).locator("[data-figure=longest-gap]")).not_to_have_text("–")


def swatches(page: Page) -> list[str]:
    return page.get_by_role("list", name=word("palette_label")).get_by_role("button").all_inner_texts()


def choose(page: Page, *files: Path) -> None:
    page.locator("input[type=file]").set_input_files(list(files))


def test_main_thread_and_worker_give_the_same_palette_and_only_one_stalls_the_page(page: Page) -> None:
    open_page(page)
    page.get_by_role("button", name=COFFEE).click()
    run(page, "main")
    on_main = swatches(page)
    run(page, "worker")
    assert swatches(page) == on_main
    assert len(on_main) == 6
    expect(page.get_by_text(word("palette_identical"))).to_be_visible()
    assert longest_gap(page, "main") > 3 * longest_gap(page, "worker"), (
        "the dial turns on while the worker works"
    )


def test_the_worker_is_a_module_of_the_built_page_under_the_enforced_policy(page: Page) -> None:
    workers: list[str] = []
    page.on("worker", lambda worker: workers.append(worker.url))
    response = page.goto("/showcases/workers")
    assert response is not None
    assert "worker-src 'self' blob:" in response.headers["content-security-policy"]
    page.get_by_role("button", name=COFFEE).click()
    run(page, "worker")
    assert workers
    assert all(re.search(r"/assets/[\w.-]*worker[\w.-]*\.js$", url) for url in workers)
    source = page.request.get(workers[0])
    assert "javascript" in source.headers["content-type"]


def test_a_policy_violation_would_be_seen(page: Page, console: list[str]) -> None:
    """The other tests assert that there is none, which means something only if one is noticed."""
    open_page(page)
    page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = '1'; document.head.append(s); }"
    )
    page.wait_for_function("() => window.violations.length > 0")
    assert "script-src" in page.evaluate("window.violations.shift()")
    page.evaluate("window.violations = []")
    console.clear()


def test_transferred_bytes_leave_the_page_and_cloned_ones_stay(page: Page) -> None:
    open_page(page)
    page.get_by_role("button", name=COFFEE).click()
    run(page, "worker")
    transfer, clone = page.locator("tr[data-mode=transfer]"), page.locator("tr[data-mode=clone]")
    before = transfer.locator("[data-figure=before]").inner_text()
    assert int(re.sub(r"\D", "", before)) > 1000
    expect(transfer.locator("[data-figure=after]")).to_have_text("0 bytes")
    page.get_by_role("radio", name=word("hand_off_clone"), exact=True).check()
    run(page, "worker")
    expect(clone.locator("[data-figure=before]")).to_have_text(before)
    expect(clone.locator("[data-figure=after]")).to_have_text(before)


def test_a_second_run_reads_the_file_again_and_gives_the_same(page: Page) -> None:
    open_page(page)
    page.get_by_role("button", name=COFFEE).click()
    run(page, "worker")
    first = swatches(page)
    run(page, "worker")
    assert swatches(page) == first
    expect(page.get_by_text("The file has been read 2 times.")).to_be_visible()


def test_any_input_gives_the_right_palette_or_a_clear_message(
    page: Page, picture: Callable[[str, bytes], Path]
) -> None:
    open_page(page)
    page.get_by_role("radio", name="1", exact=True).check()
    wrong = {}
    for name, image in awkward_images().items():
        choose(page, picture(image.file_name, image.content))
        expect(page.get_by_text(image.file_name, exact=True)).to_be_visible()
        page.get_by_role("button", name=word("run_in_worker")).click()
        try:
            expect_outcome(page, image)
        except AssertionError as error:
            wrong[name] = str(error)
    assert wrong == {}


def expect_outcome(page: Page, image: AwkwardImage) -> None:
    if image.error is not None:
        text = word(f"image_error_{image.error.replace('-', '_')}").split("{")[0].strip()
        expect(page.get_by_role("main").get_by_text(text)).to_be_visible()
        return
    expect(card(page, "worker").locator("[data-figure=longest-gap]")).not_to_have_text("–")
    if not image.colours:
        expect(page.get_by_text(word("palette_transparent"))).to_be_visible()
        return
    if image.size is not None:
        expect(page.get_by_text(f"{image.size[0]} × {image.size[1]} pixels")).to_be_visible()
    hexes = [text[:7] for text in swatches(page)]
    for hex_, expected in zip(hexes, image.colours, strict=False):
        found = tuple(int(hex_[place : place + 2], 16) for place in (1, 3, 5))
        assert all(abs(a - b) <= image.tolerance for a, b in zip(found, expected, strict=True)), hexes
    assert len(hexes) >= len(image.colours)


def test_after_an_error_the_next_image_works(page: Page, picture: Callable[[str, bytes], Path]) -> None:
    open_page(page)
    choose(page, picture("photo.png", b"This is a text."))
    page.get_by_role("button", name=word("run_in_worker")).click()
    expect(page.get_by_text(word("image_error_not_an_image"))).to_be_visible()
    page.get_by_role("button", name=COFFEE).click()
    run(page, "worker")
    assert len(swatches(page)) == 6
    expect(page.get_by_text(word("image_error_not_an_image"))).to_have_count(0)


def test_many_images_go_through_the_pool_and_the_rest_can_be_cancelled(
    page: Page, picture: Callable[[str, bytes], Path]
) -> None:
    files = []
    for number in range(6):
        buffer = io.BytesIO()
        Image.new("RGB", (40, 40), (40 * number, 100, 50)).save(buffer, "PNG")
        files.append(picture(f"tile-{number}.png", buffer.getvalue()))
    open_page(page)
    choose(page, *files)
    expect(page.get_by_text(word("batch_over", done=6, total=6))).to_be_visible()


def test_a_swatch_can_be_copied_and_the_palette_saved(context: BrowserContext, page: Page) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_page(page)
    page.get_by_role("button", name=COFFEE).click()
    run(page, "worker")
    first = swatches(page)[0][:7]
    page.get_by_role("list", name=word("palette_label")).get_by_role("button").first.click()
    expect(page.get_by_text(word("palette_copied", hex=first))).to_be_attached()
    assert page.evaluate("navigator.clipboard.readText()") == first
    with page.expect_download() as saved:
        page.get_by_role("button", name=word("export_gpl")).click()
    content = Path(saved.value.path()).read_text()
    assert content.startswith("GIMP Palette")


def test_a_browser_without_offscreen_canvas_is_told_and_the_page_stays_usable(
    context: BrowserContext, page: Page
) -> None:
    context.add_init_script("delete window.OffscreenCanvas; delete window.createImageBitmap;")
    open_page(page)
    expect(page.get_by_text(word("unsupported_title"))).to_be_visible()
    expect(page.get_by_role("button", name=word("run_in_worker"))).to_be_disabled()
    page.get_by_role("button", name=word("try_one")).click()
    expect(page.get_by_role("main").get_by_text(word("try_one_outcome"))).to_be_visible()


def test_it_can_be_used_by_keyboard_alone(page: Page) -> None:
    open_page(page)
    page.keyboard.press("Tab")
    expect(page.get_by_text(word("skip_to_content"))).to_be_focused()
    for name in (COFFEE, word("run_in_worker")):
        button = page.get_by_role("button", name=name)
        for _ in range(60):
            page.keyboard.press("Tab")
            if button.evaluate("element => element === document.activeElement"):
                break
        expect(button).to_be_focused()
        page.keyboard.press("Enter")
    expect(card(page, "worker").locator("[data-figure=longest-gap]")).not_to_have_text("–")


def test_the_german_page_says_the_same_in_german(page: Page) -> None:
    open_page(page, "/de/showcases/workers")
    assert page.locator("html").get_attribute("lang") == "de"
    page.get_by_role("button", name=word("picker_use", "de", photo=word("photo_coffee", "de"))).click()
    page.get_by_role("button", name=word("run_in_worker", "de")).click()
    expect(page.get_by_role("list", name=word("palette_label", "de")).get_by_role("button")).to_have_count(6)
    page.get_by_role("link", name="English").click()
    expect(page).to_have_url(re.compile(r"/showcases/workers$"))
    expect(page.get_by_role("heading", level=1)).to_have_text(word("workers_title"))
