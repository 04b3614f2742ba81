"""The settings: defaults, what is refused, and by which words."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings

from django_jobs import conf
from django_jobs.core.backoff import Constant
from django_jobs.exceptions import UnknownSetting
from tests import jobs

DAY = timedelta(days=1)

GOOD: list[tuple[str, Any]] = [
    ("database", None),
    ("database", "jobs"),
    ("max_attempts", None),
    ("max_attempts", 1),
    ("max_attempts", 2**31 - 1),
    ("backoff", Constant()),
    ("backoff", jobs.watched_backoff),
    ("timeout", None),
    ("timeout", DAY),
    ("queue_timeouts", {"mail": DAY}),
    ("keep_successful", None),
    ("keep_successful", timedelta(0)),
    ("keep_failed", timedelta(days=36_500)),
    ("channel", "é" * 31),
    ("lock_class", -(2**31)),
    ("notify", False),
    ("shutdown_seconds", 0),
    ("sensitive_names", ["a", "b"]),
]

BAD: list[tuple[str, Any]] = [
    ("database", ""),
    ("database", 7),
    ("max_attempts", 0),
    ("max_attempts", 2**31),
    ("max_attempts", "5"),
    ("max_attempts", True),
    ("backoff", 30),
    ("backoff", Constant),
    ("timeout", 30),
    ("timeout", timedelta(0)),
    ("timeout", timedelta.max),
    ("queue_timeouts", {"mail": 30}),
    ("queue_timeouts", {"": DAY}),
    ("queue_timeouts", [DAY]),
    ("transactional_timeout", None),
    ("keep_successful", -DAY),
    ("keep_failed", timedelta.max),
    ("keep_workers", None),
    ("max_argument_bytes", 0),
    ("max_error_chars", 999),
    ("capture_lines", 0),
    ("capture_bytes", 10),
    ("capture_bytes", 2**28),
    ("capture_level", "LOUD"),
    ("capture_level", 10),
    ("poll_seconds", 0),
    ("poll_seconds", float("nan")),
    ("poll_seconds", float("inf")),
    ("poll_seconds", True),
    ("poll_seconds", 1e300),
    ("dead_after_seconds", 10**400),
    ("notify", 1),
    ("channel", ""),
    ("channel", "x" * 64),
    ("channel", "a\0b"),
    ("channel", "\ud800" * 64),
    ("notify_per_second", 0),
    ("lock_class", 2**31),
    ("lock_class", True),
    ("lock_class", 1.0),
    ("threads", 0),
    ("threads", 2.0),
    ("shutdown_seconds", -1),
    ("shutdown_seconds", False),
    ("shutdown_seconds", 1e300),
    ("sensitive_names", "password"),
    ("sensitive_names", [7]),
    ("log_arguments", "yes"),
]


def test_without_a_setting_the_defaults_hold():
    assert conf.current() == conf.Settings()
    assert conf.current().max_attempts == 5


def test_the_defaults_keep_to_the_rules():
    values = dataclasses.asdict(conf.Settings()) | {"backoff": conf.Settings().backoff}

    assert conf.problems_of(values, "DJANGO_JOBS") == []


def test_settings_can_be_overridden_and_come_back(settings):
    settings.DJANGO_JOBS = {"threads": 3}
    assert conf.current().threads == 3

    with override_settings(DJANGO_JOBS={"threads": 4}):
        assert conf.current().threads == 4

    assert conf.current().threads == 3


def test_settings_can_not_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        conf.current().threads = 5  # type: ignore[misc]


@pytest.mark.parametrize(("name", "value"), GOOD, ids=[name for name, _ in GOOD])
def test_a_value_that_makes_sense_is_taken(settings, name, value):
    settings.DJANGO_JOBS = {name: value}

    assert getattr(conf.current(), name) == value


@pytest.mark.parametrize(("name", "value"), BAD, ids=[name for name, _ in BAD])
def test_one_that_does_not_is_refused_by_its_name(settings, name, value):
    settings.DJANGO_JOBS = {name: value}

    with pytest.raises(UnknownSetting, match=rf"DJANGO_JOBS\['{name}'\] must be .*, not "):
        conf.current()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"max_atempts": 5}, "no setting 'max_atempts'. Did you mean 'max_attempts'?"),
        ({"xyzzy": 5}, "no setting 'xyzzy'. Known are: "),
        ({7: 5}, "no setting 7. Known are: "),
        (["threads"], "must be a dict, not ['threads']"),
        (None, "must be a dict, not None"),
    ],
)
def test_a_key_that_there_is_not_is_refused_with_a_suggestion(given, told):
    [problem] = conf.problems_of(given, "DJANGO_JOBS")

    assert told in problem


def test_the_database_is_that_of_the_setting_or_of_the_routers(settings):
    assert conf.database() == "default"

    class Router:
        def db_for_write(self, model, **hints):
            return "elsewhere" if model._meta.app_label == "django_jobs" else None

    settings.DATABASE_ROUTERS = [Router()]
    assert conf.database() == "elsewhere"

    settings.DJANGO_JOBS = {"database": "chosen"}
    assert conf.database() == "chosen"
