"""
The examples of the documentation, run: each page's blocks in order, in a module of their own.

The pages' `shop` is the example project's.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from argparse import ArgumentParser, _SubParsersAction
from pathlib import Path
from types import ModuleType

import pytest
from django.core import checks
from django.core.management import load_command_class
from django.db.models.signals import post_save
from django.dispatch import Signal

from django_jobs import conf, signals, tasks
from django_jobs.backend import JobsBackend
from example_project import shop
from example_project.shop import models as shop_models
from tests.docs.blocks import ROOT, blocks, name_of, pages

ELSEWHERE = {"tutorial.md", "testing.md", "migrate.md"}
"""Pages that have a test of their own: tests/package/test_tutorial.py, tests/test_testing.py and
tests/contract/test_moving.py."""
WITH_PYTHON = [page for page in pages() if blocks(page, "python") and page.name not in ELSEWHERE]
COMMAND = re.compile(r"manage\.py (runjobs|jobs)\b([^\n&|`]*)")


@pytest.fixture
def page_module(monkeypatch):
    """A module in which a page's blocks run, importable as workers would import it."""
    module = ModuleType("page_of_the_docs")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(sys.modules, "shop", shop)
    monkeypatch.setitem(sys.modules, "shop.models", shop_models)
    known = dict(tasks.registry)
    yield module
    tasks.registry.clear()
    tasks.registry.update(known)


@pytest.fixture
def receivers(monkeypatch):
    """Forget the receivers that a page connects."""
    kept = [
        (signal, list(signal.receivers))
        for signal in (post_save, *vars(signals).values())
        if isinstance(signal, Signal)
    ]
    yield
    for signal, connected in kept:
        signal.receivers = connected
        signal.sender_receivers_cache.clear()


def starts_worker(page: Path) -> bool:
    """Whether a page's code starts a worker, whose connections see only what is committed."""
    return "worker.start" in page.read_text("utf-8")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name_of(page), marks=pytest.mark.django_db(transaction=starts_worker(page)))
        for page in WITH_PYTHON
    ],
)
def test_the_blocks_of_a_page_run_in_order(page, page_module, receivers):
    for block in blocks(page, "python"):
        if not block.reason:
            code = "\n" * block.line + block.code  # so that a traceback tells the page's line
            exec(compile(code, str(page), "exec"), page_module.__dict__)
            settings_are_right(page_module)


def settings_are_right(module: ModuleType) -> None:
    """Check the settings that a block has set, as `manage.py check` would."""
    jobs = module.__dict__.pop("DJANGO_JOBS", {})
    assert conf.problems_of(jobs, "DJANGO_JOBS") == []
    for alias, params in module.__dict__.pop("TASKS", {}).items():
        if params["BACKEND"] == "django_jobs.backend.JobsBackend":
            found = JobsBackend(alias, params).check()
            assert [m for m in found if isinstance(m, checks.Error) and m.id != "django_jobs.E002"] == []


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_the_options_of_commands_that_a_page_shows_exist(page):
    for name, rest in COMMAND.findall(page.read_text("utf-8").replace('", "', " ")):
        parser = load_command_class("django_jobs", name).create_parser("manage.py", name)
        known = set(re.findall(r"--[a-z][a-z-]*", everything_in(parser)))
        assert set(re.findall(r"--[a-z][a-z-]*", rest)) <= known, f"{name}{rest}"


def everything_in(parser: ArgumentParser) -> str:
    """Return the help of a command and of its subcommands."""
    texts = [parser.format_help()]
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            texts += [everything_in(sub) for sub in action.choices.values()]
    return "\n".join(texts)


@pytest.mark.parametrize(
    "page", [page for page in pages() if blocks(page, "console") and page.name not in ELSEWHERE], ids=name_of
)
def test_console_blocks_run(page):
    for block in blocks(page, "console"):
        for line in block.code.splitlines():
            if line.startswith("$ "):
                assert line.endswith(" --help"), "only commands that change nothing are run"
                words = line.removeprefix("$ ").split()
                subprocess.run(
                    [sys.executable, *words[1:]],
                    cwd=ROOT,
                    env=os.environ,
                    check=True,
                    capture_output=True,
                    timeout=60,
                )


def test_what_is_not_run_says_why():
    for page in WITH_PYTHON:
        for block in blocks(page, "python"):
            assert "not run by" not in block.code or block.reason, f"{name_of(page)}:{block.line}"
