"""A customer's browser: fetches pages, sends their forms with the CSRF token, keeps cookies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape
from io import BytesIO
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urljoin
from urllib.request import HTTPCookieProcessor, ProxyHandler, Request, build_opener

from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart
from PIL import Image, ImageDraw

TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
ERRORS = re.compile(r'<ul class="errorlist[^>]*>(.*?)</ul>', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Page:
    """What the server answered, redirects followed."""

    url: str
    status: int
    text: str

    def link(self, text: str) -> str:
        """Return where the link with this text leads, or nothing without one."""
        found = re.search(rf'<a [^>]*href="([^"]+)"[^>]*>\s*{re.escape(text)}\s*</a>', self.text)
        return unescape(found[1]) if found else ""

    @property
    def complaints(self) -> list[str]:
        """The errors that a form shows."""
        return [re.sub(r"<[^>]+>", "", found).strip() for found in ERRORS.findall(self.text)]


class Browser:
    """One customer's browser, on the site at `address`."""

    def __init__(self, address: str) -> None:
        self.address = address
        # Not through a proxy: the site is on this machine.
        self.opener = build_opener(ProxyHandler({}), HTTPCookieProcessor())

    def get(self, path: str) -> Page:
        return self.open(Request(urljoin(self.address, path)))

    def send(self, path: str, fields: Mapping[str, Any]) -> Page:
        """Fetch the page with the form and send the form back, filled in; files are named `BytesIO`s."""
        form = self.get(path)
        token = TOKEN.search(form.text)
        if token is None:
            raise LookupError(f"{form.url} ({form.status}) has no form with a CSRF token")
        body = encode_multipart(BOUNDARY, {**fields, "csrfmiddlewaretoken": token[1]})
        headers = {"Content-Type": MULTIPART_CONTENT, "Referer": form.url}
        return self.open(Request(form.url, data=body, headers=headers))

    def open(self, request: Request) -> Page:
        try:
            with self.opener.open(request, timeout=60) as answer:
                return Page(answer.url, answer.status, answer.read().decode(errors="replace"))
        except HTTPError as error:
            with error:
                return Page(error.url or request.full_url, error.code, error.read().decode(errors="replace"))


def snapshot(title: str, hue: int, *, cut_off: bool = False) -> BytesIO:
    """
    Return a photo as a file: a sun over hills.

    One that is `cut_off` is what an interrupted upload leaves: its head is fine, so forms take it.
    """
    image = Image.linear_gradient("L").resize((1200, 900)).convert("RGB")
    sky = Image.new("HSV", image.size, (hue, 150, 230)).convert("RGB")
    image = Image.blend(image, sky, 0.7)
    draw = ImageDraw.Draw(image)
    draw.ellipse((780, 160, 960, 340), fill=(255, 236, 179))
    draw.polygon(
        [(0, 900), (0, 620), (400, 430), (760, 700), (980, 560), (1200, 720), (1200, 900)], "#3d4a3d"
    )
    file = BytesIO()
    image.save(file, "JPEG", quality=85)
    content = file.getvalue()
    file = BytesIO(content[: len(content) // 2] if cut_off else content)
    file.name = f"{title}.jpg"
    return file
