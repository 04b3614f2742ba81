"""
Writes the parts of the documentation that are read off the code: `python docs/generate.py`.

A page marks such a part with two comments; what stands between them is replaced. `--check` changes nothing
and ends with status 1 when something would change; `tests/docs/test_generated.py` does the same. Texts come
from the source itself (names, types, defaults and the docstring under each), so none has to be kept twice.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import cleandoc
from pathlib import Path
from textwrap import fill

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent), str(DOCS)]

from drawing import diagram, moves  # noqa: E402  (beside this file, so its folder comes first)

PACKAGE = DOCS.parent / "django_jobs"
BLOCK = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
WIDTH = 110


@dataclass(frozen=True)
class Described:
    """One name of the source with what stands around it."""

    name: str
    type: str
    value: str
    text: str


def main() -> int:
    """Write all generated parts, or with --check say which are out of date."""
    parser = argparse.ArgumentParser(description="Write the parts of the docs that are made from the code.")
    parser.add_argument("--check", action="store_true", help="change nothing; status 1 if something is stale")
    check = parser.parse_args().check
    stale = [path for path, text in generated() if not path.exists() or path.read_text("utf-8") != text]
    if check:
        for path in stale:
            print(f"{path.relative_to(DOCS.parent)} is out of date. Run: python docs/generate.py")
        return 1 if stale else 0
    for path, text in generated():
        if path in stale:
            path.write_text(text, "utf-8")
            print(f"wrote {path.relative_to(DOCS.parent)}")
    return 0


def generated() -> Iterator[tuple[Path, str]]:
    """Yield each file that has generated parts, with the text that it should have."""
    yield DOCS / "explanation" / "states.svg", diagram()
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text("utf-8")
        if BLOCK.search(text):
            yield path, BLOCK.sub(lambda found: found[1] + "\n" + PARTS[found[2]]() + "\n\n" + found[3], text)


def described(file: str, owner: str | None = None) -> list[Described]:
    """Return the documented attributes of the class `owner` in `file`, or of the module itself."""
    body: list[ast.stmt] = ast.parse((PACKAGE / file).read_text("utf-8")).body
    if owner is not None:
        body = next(node.body for node in body if isinstance(node, ast.ClassDef) and node.name == owner)
    found = []
    for node, following in zip(body, [*body[1:], None], strict=True):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                kind = ast.unparse(annotation)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                kind = ""
            case _:
                continue
        text = ""
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            text = cleandoc(str(following.value.value))
        found.append(Described(name, kind, "" if value is None else plain(ast.unparse(value)), text))
    return found


def plain(value: str) -> str:
    """Return a default as a user would write it."""
    names = {"DEFAULT": "Exponential()", "field(default_factory=dict)": "{}"}
    written = names.get(value, value).replace("'", '"')
    return re.sub(r"\d{5,}", lambda number: f"{int(number[0]):_}", written)


def entries(found: list[Described], where: Callable[[Described], str]) -> str:
    """Return a heading for each name, with its type, its default and its text."""
    return "\n\n".join(f"### `{one.name}`\n\n{where(one)}\n\n{one.text}".rstrip() for one in found)


def settings() -> str:
    """Return every setting."""
    return entries(described("conf.py", "Settings"), lambda one: f"`{one.type}`, by default `{one.value}`")


def task_options() -> str:
    """Return the options that are ours."""

    def where(one: Described) -> str:
        kind = one.type.replace("Unset | ", "").replace(" | Unset", "")
        if one.value == "UNSET":
            return f"`{kind}`, by default [as the settings say](settings.md#{one.name})"
        return f"`{kind}`, by default `{one.value}`"

    return entries(described("tasks.py", "JobTask"), where)


def policies() -> str:
    """Return the backoff policies with their fields."""
    texts = []
    for name in ("Exponential", "Linear", "Constant"):
        fields = described("core/backoff.py", name)
        call = ", ".join(f"{one.name}={one.value}" for one in fields)
        texts.append(f"### `{name}`\n\n`{name}({call})`\n\n{docstring('core/backoff.py', name)}")
    return "\n\n".join(texts)


def worker_options() -> str:
    """Return what an embedded worker may be told."""
    return entries(
        described("worker/options.py", "WorkerOptions"), lambda one: f"`{one.type}`, by default `{one.value}`"
    )


def docstring(file: str, owner: str) -> str:
    """Return the docstring of a class or function in `file`; overloads, which come first, have none."""
    for node in ast.parse((PACKAGE / file).read_text("utf-8")).body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name != owner:
            continue
        if text := ast.get_docstring(node):
            return text
    raise LookupError(f"{owner} in {file} has no docstring")


def signals() -> str:
    """Return our own signals."""
    return "\n\n".join(f"### `{one.name}`\n\n{one.text}" for one in described("signals.py"))


def exceptions() -> str:
    """Return the exceptions, with what they derive from."""
    texts = []
    for node in ast.parse((PACKAGE / "exceptions.py").read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef):
            bases = ", ".join(f"`{ast.unparse(base)}`" for base in node.bases)
            texts.append(f"### `{node.name}`\n\nA {bases}. {ast.get_docstring(node) or ''}")
    return "\n\n".join(texts)


def public_names() -> str:
    """Return what `from django_jobs import …` offers."""
    names = []
    for node in ast.parse((PACKAGE / "__init__.py").read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("django_jobs."):
            file = str(node.module).removeprefix("django_jobs.").replace(".", "/") + ".py"
            names += [(alias.name, first_sentence(docstring(file, alias.name))) for alias in node.names]
    rows = [f"| `{name}` | {text} |" for name, text in sorted(names, key=lambda pair: pair[0].casefold())]
    return "\n".join(["| name | what it is |", "| --- | --- |", *rows])


def methods(file: str, owner: str) -> str:
    """Return the public methods and properties of a class, each with its docstring."""
    texts = []
    body = next(
        node.body
        for node in ast.parse((PACKAGE / file).read_text("utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name == owner
    )
    for node in body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node)
        if text is None or node.name.startswith("_") or node.name in HIDDEN:
            continue
        is_property = any(ast.unparse(one) == "property" for one in node.decorator_list)
        texts.append(f"`{node.name}{'' if is_property else call_of(node)}`\n: {indented(text)}")
    return "\n\n".join(texts)


HIDDEN = frozenset(
    {"in_batches", "operate", "wake", "tell", "waiting", "check_name", "jobs_backend", "get_backend"}
)
"""Methods that only the package itself calls."""


def call_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return the parameters of a method without `self` and types."""
    given = ast.unparse(node.args)
    for argument in [*node.args.args, *node.args.kwonlyargs]:
        if argument.annotation is not None:
            given = given.replace(f"{argument.arg}: {ast.unparse(argument.annotation)}", argument.arg)
    given = re.sub(r"^self(, )?", "", given).replace("/, ", "")
    return f"({given})".replace("'", '"')


def indented(text: str) -> str:
    """Return a docstring as the text of a definition."""
    return "\n".join(f"  {line}" if line else "" for line in text.splitlines()).strip()


def first_sentence(text: str) -> str:
    """Return the first sentence of a docstring on one line."""
    return " ".join(text.partition("\n\n")[0].split())


def runjobs() -> str:
    """Return the options of `runjobs` that are ours, and what its help ends with."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
    django.setup()
    from django.core.management.base import BaseCommand

    from django_jobs.management.commands.runjobs import Command

    theirs = {
        option
        for action in BaseCommand().create_parser("manage.py", "x")._actions
        for option in action.option_strings
    }
    parser = Command().create_parser("manage.py", "runjobs")
    lines = []
    for action in parser._actions:
        if theirs & set(action.option_strings):
            continue
        value = action.metavar or ("|".join(action.choices) if action.choices else "")
        options = ", ".join(f"`{option}{' ' if value else ''}{value}`" for option in action.option_strings)
        help_text = str(action.help)
        lines.append(f"{options}\n: {fill(help_text[0].upper() + help_text[1:] + '.', WIDTH - 2)}")
    return "\n\n".join(lines).replace("fork|spawn|forkserver", "METHOD") + (
        f"\n\n```text\n{(parser.epilog or '').rstrip()}\n```"
    )


PARTS: dict[str, Callable[[], str]] = {
    "settings": settings,
    "task-options": task_options,
    "policies": policies,
    "worker-options": worker_options,
    "signals": signals,
    "exceptions": exceptions,
    "public-names": public_names,
    "job": lambda: methods("models.py", "Job"),
    "jobs": lambda: methods("models.py", "JobQuerySet"),
    "capture": lambda: methods("captures.py", "Capture"),
    "queue": lambda: methods("serving.py", "Queue"),
    "operations": lambda: methods("operations.py", "Operations"),
    "task-methods": lambda: methods("tasks.py", "JobTask"),
    "context": lambda: methods("context.py", "JobContext"),
    "runjobs": runjobs,
    "moves": moves,
}
"""What may be asked for in a page, by name."""

if __name__ == "__main__":
    sys.exit(main())
