"""What people may send in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from uuid import uuid4

from django import forms
from django.forms.boundfield import BoundField

from example_project.shop.models import PRICE_CENTS, Photo, Size

MAX_BYTES = 10 * 1024 * 1024
MAX_PIXELS = 50_000_000
MIN_PIXELS_A_SIDE = 200
MAX_COPIES = 99

SUFFIXES = {"JPEG": "jpg", "PNG": "png", "WEBP": "webp"}
"""Formats that are taken, and what their files are called."""


class PhotoForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable at run time
    """A photo to upload."""

    class Meta:
        model = Photo
        fields = ["title", "image"]
        widgets = {"image": forms.FileInput(attrs={"accept": "image/jpeg,image/png,image/webp"})}
        help_texts = {"image": f"JPEG, PNG or WebP, at most {MAX_BYTES // 1024**2} MB."}

    def clean_image(self) -> Any:
        """Return the file under a name of ours: what people call their files is their business."""
        file: Any = self.cleaned_data["image"]
        if file.size > MAX_BYTES:
            raise forms.ValidationError(f"This file is larger than {MAX_BYTES // 1024**2} MB.")
        # Django's field has opened the image already; that reads its head only.
        if file.image.format not in SUFFIXES:
            raise forms.ValidationError(f"{file.image.format} is not taken: use JPEG, PNG or WebP.")
        width, height = file.image.size
        if min(width, height) < MIN_PIXELS_A_SIDE:
            raise forms.ValidationError(
                f"{width} × {height} pixels are too few to print: at least {MIN_PIXELS_A_SIDE} each way."
            )
        if width * height > MAX_PIXELS:
            raise forms.ValidationError(f"{width} × {height} pixels are too many: at most 50 million.")
        file.name = f"{uuid4().hex}.{SUFFIXES[file.image.format]}"
        return file


class OrderForm(forms.Form):
    """An order of prints: who, which size, and how many copies of each of some photos."""

    name = forms.CharField(max_length=80, label="Your name", widget=forms.TextInput({"autocomplete": "name"}))
    email = forms.EmailField(
        label="Mail address for the receipt", widget=forms.EmailInput({"autocomplete": "email"})
    )
    size = forms.ChoiceField(
        choices=[(size.value, f"{size.label}, {PRICE_CENTS[size] / 100:.2f} € each") for size in Size],
        initial=Size.SMALL,
    )

    def __init__(self, photos: Iterable[Photo], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.photos = {f"copies_{photo.pk}": photo for photo in photos}
        for name, photo in self.photos.items():
            self.fields[name] = forms.IntegerField(
                label=f"Copies of {photo.title}", min_value=0, max_value=MAX_COPIES, initial=0, required=False
            )

    def about(self) -> list[BoundField]:
        """The fields that aren't copies of a photo."""
        return [self[name] for name in ("name", "email", "size")]

    def choices(self) -> Iterator[tuple[Photo, BoundField]]:
        """Each photo with its field."""
        for name, photo in self.photos.items():
            yield photo, self[name]

    def clean(self) -> dict[str, Any]:
        """Gather the wanted copies in `copies`, a dict by photo."""
        found = super().clean() or self.cleaned_data
        found["copies"] = {photo: found[name] for name, photo in self.photos.items() if found.get(name)}
        if not found["copies"] and not any(name in self.errors for name in self.photos):
            raise forms.ValidationError("Choose at least one print.")
        return found
