"""A shop with paper, photos and a folder for its files."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from PIL import Image

from example_project.shop.models import Paper, Photo, Size


def picture(width: int = 640, height: int = 480, format: str = "JPEG") -> bytes:  # noqa: A002
    """Return the file of an image with something on it."""
    written = BytesIO()
    Image.effect_noise((width, height), 60).convert("RGB").save(written, format)
    return written.getvalue()


def upload(content: bytes | None = None, name: str = "cat.jpg") -> SimpleUploadedFile:
    """Return a file as a browser would send it."""
    return SimpleUploadedFile(name, picture() if content is None else content, "image/jpeg")


@pytest.fixture(autouse=True)
def media(settings, tmp_path):
    """The folder of uploaded and made files."""
    settings.MEDIA_ROOT = tmp_path / "media"
    return settings.MEDIA_ROOT


@pytest.fixture
def paper(db) -> None:
    """A hundred sheets of each size."""
    for size in Size:
        Paper.objects.update_or_create(size=size, defaults={"sheets": 100})


@pytest.fixture
def photo(db) -> Photo:
    return Photo.objects.create(title="Cat", image=upload())


@pytest.fixture
def add_photo(db) -> Callable[..., Photo]:
    """Makes a photo from the content of a file."""
    return lambda content, title="Cat": Photo.objects.create(title=title, image=upload(content))
