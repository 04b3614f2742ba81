"""What pages tell people to type is what the commands take."""

from __future__ import annotations

import shlex

import pytest
from django.core.management import load_command_class

from django_jobs.dashboard.shown import runjobs_for


@pytest.mark.parametrize("name", ["mail", "two words", "it's; rm -rf $HOME", "-x", "--processes", "ä*"])
def test_the_command_that_serves_a_queue(name):
    _program, command, *words = shlex.split(runjobs_for(name))

    parser = load_command_class("django_jobs", command).create_parser("manage.py", command)

    assert parser.parse_args(words).queue == [(name, None)]
