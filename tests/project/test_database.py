"""Django's database settings from an address."""

from __future__ import annotations

from pathlib import Path

import pytest

from example_project.database import BadDatabaseUrl, from_server, from_url
from example_project.embedded import Server


def test_an_address_gives_djangos_settings():
    assert from_url("postgresql://user:secret@example.org:5433/shop") == {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "shop",
        "USER": "user",
        "PASSWORD": "secret",
        "HOST": "example.org",
        "PORT": "5433",
        "OPTIONS": {},
    }


def test_escaped_characters_are_restored():
    settings = from_url("postgres://us%40er:p%23%2Fw%3A@localhost/sh%20op")

    assert (settings["USER"], settings["PASSWORD"], settings["NAME"]) == ("us@er", "p#/w:", "sh op")


def test_what_django_has_no_key_for_becomes_an_option():
    settings = from_url("postgresql://localhost/shop?sslmode=require&connect_timeout=3")

    assert settings["OPTIONS"] == {"sslmode": "require", "connect_timeout": "3"}


def test_a_socket_folder_may_be_the_host():
    assert from_url("postgresql:///shop?host=/run/postgresql")["HOST"] == "/run/postgresql"
    assert from_url("postgresql://%2Frun%2Fpostgresql/shop")["HOST"] == "/run/postgresql"


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("mysql://localhost/shop", "'mysql': django_jobs needs PostgreSQL"),
        ("localhost/shop", "must start with postgresql://"),
        ("postgresql://localhost", "names no database"),
        ("postgresql://user:100%zz@localhost/shop", "Percent-encode"),
        ("postgresql://localhost/shop?no_such_option=1", "not a valid address"),
    ],
)
def test_a_bad_address_is_refused_with_a_hint(url, hint):
    with pytest.raises(BadDatabaseUrl, match=hint):
        from_url(url)


def test_a_refusal_does_not_repeat_the_password():
    with pytest.raises(BadDatabaseUrl) as caught:
        from_url("postgresql://user:hunter%zz@localhost/shop")

    assert "hunter" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_an_embedded_server_is_reached_through_the_engine_that_starts_it():
    server = Server(base=Path("/tmp/some where"), name="18-x", version=18, throwaway=False)

    settings = from_server(server)

    assert settings["ENGINE"] == "example_project.embedded"
    assert settings["EMBEDDED"] == server
    assert settings["HOST"] == "/tmp/some where/18-x/s"
    assert (settings["NAME"], settings["USER"]) == ("postgres", "postgres")
