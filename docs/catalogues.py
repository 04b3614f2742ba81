"""
Brings the translations up to date with the code: `python docs/catalogues.py`.

For each language, new texts get an empty place in its `django.po`, texts that are no longer there go, and
`django.mo` is written anew. `--check` changes nothing and tells what is missing. Needs Babel, and no gettext
of the system's; `tests/project/test_catalogues.py` asks the same.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from babel.messages import Catalog, Message
from babel.messages.extract import extract
from babel.messages.mofile import read_mo, write_mo
from babel.messages.pofile import read_po, write_po
from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "django_jobs"
LANGUAGES = ("de", "es", "fr")
KEYWORDS = {
    "_": None,
    "gettext": None,
    "gettext_lazy": None,
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "pgettext": ((1, "c"), 2),
    "pgettext_lazy": ((1, "c"), 2),
    "npgettext": ((1, "c"), 2, 3),
}

Key = tuple[str | tuple[str, ...], str | None]
"""A text, or singular and plural, and its context."""


@dataclass(frozen=True)
class Text:
    """One text of the code, with the first place where it stands."""

    key: Key
    place: str


def texts() -> dict[Key, Text]:
    """Return what is to be translated, in the order of files and lines."""
    found: dict[Key, Text] = {}
    for path in sorted([*PACKAGE.rglob("*.py"), *(PACKAGE / "templates").rglob("*.html")]):
        if "migrations" in path.parts:
            continue
        for line, words, context in texts_of(path):
            key: Key = (fixed(words), context)
            found.setdefault(key, Text(key, f"{path.relative_to(ROOT)}:{line}"))
    return found


def texts_of(path: Path) -> Iterator[tuple[int, str | tuple[str, ...], str | None]]:
    """Yield line, text and context of what one file has translated."""
    source = path.read_text("utf-8")
    if path.suffix == ".html":
        for number, line in enumerate(source.split("\n"), 1):
            if "translate" in line or "_(" in line:
                # What isn't a call stands as XXX, so that one line is enough of Python to be read.
                calls = templatize(line).replace("\n", " ").strip()
                for _line, words, _comments, context in extract(
                    "python", io.BytesIO(calls.encode()), KEYWORDS
                ):
                    yield number, words, context
    else:
        for number, words, _comments, context in extract("python", io.BytesIO(source.encode()), KEYWORDS):
            yield number, words, context


def folder(language: str) -> Path:
    return PACKAGE / "locale" / language / "LC_MESSAGES"


def read(language: str) -> Catalog:
    """Return the translations of a language."""
    with (folder(language) / "django.po").open("rb") as file:
        return read_po(file, abort_invalid=True)


def key_of(message: Message) -> Key:
    return fixed(message.id), message.context


def fixed(words: str | list[str] | tuple[str, ...]) -> str | tuple[str, ...]:
    """Return one text, or several as a tuple: Babel has them in lists too."""
    return words if isinstance(words, str) else tuple(words)


def updated(old: Catalog) -> Catalog:
    """Return a catalogue with just the texts of the code, translated as they were in `old`."""
    kept = {key_of(message): message for message in old if message.id}
    new = Catalog()
    for key, text in texts().items():
        before = kept.get(key)
        new.add(
            key[0],
            before.string if before else ("" if isinstance(key[0], str) else ("", "")),
            locations=[(text.place.partition(":")[0], None)],  # type: ignore[list-item]
            context=key[1],
            flags=[flag for flag in (before.flags if before else ()) if flag != "python-brace-format"],
        )
    return new


def as_po(catalogue: Catalog, language: str) -> bytes:
    """Return the text of a `.po` file, with a header that doesn't change by itself."""
    found = io.BytesIO()
    write_po(found, catalogue, width=110, omit_header=True)
    header = (
        "# django_jobs in another language: kept up by docs/catalogues.py.\n"
        'msgid ""\nmsgstr ""\n'
        f'"Language: {language}\\n"\n'
        '"MIME-Version: 1.0\\n"\n'
        '"Content-Type: text/plain; charset=UTF-8\\n"\n'
        '"Content-Transfer-Encoding: 8bit\\n"\n'
        f'"Plural-Forms: {PLURALS[language]}\\n"\n\n'
    )
    return header.encode() + found.getvalue()


PLURALS = {
    "de": "nplurals=2; plural=(n != 1);",
    "es": "nplurals=2; plural=(n != 1);",
    "fr": "nplurals=2; plural=(n > 1);",
}


def as_mo(catalogue: Catalog) -> bytes:
    """Return what a `.mo` file holds; its header has nothing of the day or of Babel's version."""
    catalogue.project = catalogue.last_translator = catalogue.language_team = "django_jobs"
    catalogue.creation_date = catalogue.revision_date = datetime(2026, 1, 1, tzinfo=UTC)
    found = io.BytesIO()
    write_mo(found, catalogue)
    return found.getvalue()


def problems(language: str) -> list[str]:
    """Return what is wrong with the translations of a language, in words."""
    catalogue = read(language)
    there = {key_of(message): message for message in catalogue if message.id}
    wanted = texts()
    found = [f"{language}: {text.place} has a text without a translation: {key[0]!r}"
             for key, text in wanted.items() if not is_done(there.get(key))]  # fmt: skip
    found += [f"{language}: no longer in the code: {key[0]!r}" for key in there if key not in wanted]
    found += [f"{language}: fuzzy: {message.id!r}" for message in catalogue if message.id and message.fuzzy]
    found += [
        f"{language}: {error} in {message.id!r}" for message, errors in catalogue.check() for error in errors
    ]
    if compiled(language) != {key: fixed(message.string) for key, message in there.items()}:
        found.append(f"{language}: django.mo isn't made from django.po")
    return found


def compiled(language: str) -> dict[Key, str | tuple[str, ...]]:
    """Return the translations that Django reads."""
    with (folder(language) / "django.mo").open("rb") as file:
        return {key_of(message): fixed(message.string) for message in read_mo(file) if message.id}


def is_done(message: Message | None) -> bool:
    """Whether every form of a text has a translation."""
    if message is None:
        return False
    return bool(message.string) and all(message.string if not isinstance(message.string, str) else (True,))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing")
    if not parser.parse_args().check:
        for language in LANGUAGES:
            path = folder(language) / "django.po"
            catalogue = updated(read(language))
            path.write_bytes(as_po(catalogue, language))
            path.with_suffix(".mo").write_bytes(as_mo(read(language)))
    found = [problem for language in LANGUAGES for problem in problems(language)]
    print(*found, sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
