"""Fixtures of the tests of the rules."""

from __future__ import annotations

import pytest

from django_jobs.core import exact_json


@pytest.fixture(params=["orjson", "standard library"])
def codec(request, monkeypatch):
    """Run a test twice: with orjson and without."""
    if request.param == "standard library":
        monkeypatch.setattr(exact_json, "orjson", None)
    elif exact_json.orjson is None:
        pytest.skip("orjson is not installed")
    return request.param
