"""
Every page for everybody: on a phone, in the dark, from right to left, and with what axe-core looks for:
names, roles, contrast, order. axe-core comes from npm (`npm pack`), or from the file that AXE names.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import django
import pytest

from tests.browser.driving import REQUIRED, in_browser

pytestmark = in_browser

VERSION = "4.10.3"

# Django's own parts, such as the header, aren't ours to mend.
SERIOUS = """async (rules) => {
    const how = {resultTypes: ["violations"], preload: false, iframes: false};
    const found = await axe.run("#content", rules ? {...how, runOnly: rules} : how);
    return found.violations.filter((rule) => ["serious", "critical"].includes(rule.impact)).map((rule) => [
        rule.id, ...rule.nodes.map((node) => node.html.slice(0, 160)),
    ]);
}"""

SETTLED = "() => Promise.allSettled(document.getAnimations().map((one) => one.finished))"
"""Colours change gradually."""

BRIGHT = """() => [...document.querySelectorAll("body, #content *")].filter((one) => {
    const colours = getComputedStyle(one).backgroundColor.match(/[\\d.]+/g).map(Number);
    return colours.length === 3 && Math.min(...colours) > 200;
}).map((one) => one.outerHTML.slice(0, 80))"""
"""What has a ground as bright as paper."""

WIDER = """() => document.documentElement.scrollWidth <= innerWidth ? [] : [
    document.documentElement.scrollWidth,
    ...[...document.querySelectorAll("body *")]
        .map((one) => [one.getBoundingClientRect(), one])
        .filter(([box]) => box.right > innerWidth || box.left < 0)
        .map(([_, one]) => one.outerHTML.slice(0, 80)),
]"""
"""What makes a page wider than its window."""

DESK = {"width": 1280, "height": 720}
CUT = """() => [...document.querySelectorAll("#content [type=submit]")].filter((one) => {
    const {left, right} = one.getBoundingClientRect();
    const page = document.querySelector("#content-main").getBoundingClientRect();
    return left < page.left - 1 || right > page.right + 1;
}).map((one) => one.outerHTML)"""
"""Buttons that one would have to look for."""

PHONE = {"width": 390, "height": 800}
WIDE = {"width": 1920, "height": 1000}

BESIDE = """() => {
    const list = document.querySelector("#result_list").getBoundingClientRect();
    const room = document.querySelector("#result_list").parentElement.getBoundingClientRect();
    const filters = document.querySelector("#changelist-filter").getBoundingClientRect();
    return list.width <= room.width + 1 && filters.left >= room.right && filters.top < list.bottom;
}"""
"""Whether the filters stand beside the whole of the list."""


@pytest.fixture(scope="session")
def axe(tmp_path_factory) -> str:
    """The text of axe-core."""
    if os.environ.get("AXE"):
        return Path(os.environ["AXE"]).read_text("utf-8")
    folder = tmp_path_factory.mktemp("axe")
    npm = shutil.which("npm")
    if npm is None and not REQUIRED:
        pytest.skip("there is no npm to get axe-core with")
    done = subprocess.run(
        [npm or "npm", "pack", f"axe-core@{VERSION}"],
        cwd=folder,
        capture_output=True,
        timeout=120,
        check=REQUIRED,
    )
    if done.returncode:
        pytest.skip("npm could not get axe-core")
    with tarfile.open(folder / f"axe-core-{VERSION}.tgz") as packed:
        script = packed.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


def test_no_page_keeps_anybody_out(visit, ada, pages, axe, subtests):
    page = visit(ada, reduced_motion="reduce", locale="de")  # which has long words
    for name, address in pages.items():
        with subtests.test(name):
            page.emulate_media(color_scheme="light")
            answer = page.goto(address)
            assert answer.status == 200
            policy = answer.headers.get("content-security-policy", "")
            assert "default-src 'self'" in policy or django.VERSION < (6, 0)
            page.evaluate(axe)
            assert page.evaluate(SERIOUS) == []

            page.emulate_media(color_scheme="dark")
            page.evaluate(SETTLED)
            assert page.evaluate(BRIGHT) == []
            assert page.evaluate(SERIOUS, ["color-contrast"]) == []

            page.set_viewport_size(PHONE)
            assert page.evaluate(WIDER) == []
            assert page.evaluate(CUT) == []
            page.set_viewport_size(DESK)


def test_in_a_wide_window_states_and_filters_stand_beside_the_list(visit, ada, pages):
    page = visit(ada, locale="de", viewport=WIDE)
    for name in ("failed", "workers"):
        page.goto(pages[name])

        assert page.evaluate(BESIDE)
        assert page.evaluate(WIDER) == []
    page.set_viewport_size(DESK)
    assert not page.evaluate(BESIDE)


def test_all_are_mirrored_where_people_read_from_right_to_left(visit, ada, pages, subtests):
    page = visit(ada, locale="ar", viewport=PHONE, reduced_motion="reduce")
    for name, address in pages.items():
        with subtests.test(name):
            page.goto(address)

            assert page.evaluate("getComputedStyle(document.querySelector('#content')).direction") == "rtl"
            assert page.evaluate(WIDER) == []
            assert page.evaluate(CUT) == []
