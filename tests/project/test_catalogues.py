"""The translations: whole, fresh, and in Django's own words where Django has them."""

from __future__ import annotations

import re
import sys
from datetime import timedelta
from pathlib import Path

import django
import pytest
from babel.messages.pofile import read_po
from django.utils import timezone, translation

from django_jobs.models import Job
from tests.docs.blocks import ROOT

sys.path.insert(0, str(ROOT / "docs"))
import catalogues  # type: ignore[import-not-found]  # beside the documentation

sys.path.remove(str(ROOT / "docs"))

DJANGO = Path(django.__file__).parent


@pytest.mark.parametrize("language", catalogues.LANGUAGES)
class TestEachLanguage:
    def test_every_text_of_the_code_is_translated_and_no_other(self, language):
        assert catalogues.problems(language) == []

    def test_each_has_the_places_for_values_of_the_original(self, language):
        places = re.compile(r"%\(\w+\)[sd]|%%")
        for message in catalogues.read(language):
            for original, translated in forms(message):
                assert sorted(places.findall(translated)) == sorted(places.findall(original)), translated

    def test_what_django_says_too_is_said_in_its_words(self, language):
        """Django keeps the texts of all apps in one place, so others' pages would have ours."""
        ours = {catalogues.key_of(message): message.string for message in catalogues.read(language)}
        for path in (DJANGO / "conf", DJANGO / "contrib" / "admin"):
            with (path / "locale" / language / "LC_MESSAGES" / "django.po").open("rb") as file:
                for message in read_po(without_plurals(file.read())):
                    key = catalogues.key_of(message)
                    if message.id and message.string and key in ours:
                        assert ours[key] == message.string


def without_plurals(text):
    """Return a catalogue's lines without texts that have a plural: Django's files differ in their forms."""
    return [
        part + b"\n" for whole in re.split(rb"\n\n", text) if b"msgid_plural" not in whole
        for part in [*whole.split(b"\n"), b""]
    ]  # fmt: skip


def forms(message):
    """Yield each form of a text with the form of the translation that stands for it."""
    if isinstance(message.id, str):
        yield message.id, message.string
    else:
        for translated in message.string:
            yield message.id[-1], translated


class TestProblems:
    """That the tests above would see one."""

    @pytest.mark.parametrize(
        ("written", "instead", "told"),
        [
            ('msgid "Retry"\nmsgstr "Erneut versuchen"', "", "has a text without a translation: 'Retry'"),
            ('msgstr "Erneut versuchen"', 'msgstr ""', "has a text without a translation: 'Retry'"),
            ('msgid "Retry"', '#, fuzzy\nmsgid "Retry"', "fuzzy: 'Retry'"),
            ('msgid "Retry"', 'msgid "Retry it"', "no longer in the code: 'Retry it'"),
            ('msgstr "Erneut versuchen"', 'msgstr "Noch einmal"', "django.mo isn't made from django.po"),
        ],
    )
    def test_are_told(self, tmp_path, monkeypatch, written, instead, told):
        for name in ("django.po", "django.mo"):
            (tmp_path / name).write_bytes((catalogues.folder("de") / name).read_bytes())
        text = (tmp_path / "django.po").read_text("utf-8")
        assert written in text
        (tmp_path / "django.po").write_text(text.replace(written, instead, 1), "utf-8")
        monkeypatch.setattr(catalogues, "folder", lambda language: tmp_path)

        assert any(told in problem for problem in catalogues.problems("de"))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("language", "words"),
    [("de", "Jetzt ausführen"), ("fr", "Exécuter maintenant"), ("es", "Ejecutar ahora"), ("en", "Run now")],
)
def test_the_pages_speak_the_users_language(admin_client, language, words):
    Job.objects.create(queue_name="q", task_path="shop.later", run_after=timezone.now() + timedelta(hours=1))

    with translation.override("en"):  # Django leaves a visitor's language in force
        page = admin_client.get("/admin/django_jobs/job/", headers={"accept-language": language})

    assert f'<html lang="{language}"' in page.content.decode()
    assert words in page.content.decode()
