"""What the wheel holds. `tox -e package` builds it and tells its folder in WHEEL_FOLDER."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import psycopg
import pytest
from django.db import connection

CHECKOUT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def wheel() -> Path:
    (found,) = Path(os.environ["WHEEL_FOLDER"]).glob("*.whl")
    return found


def test_the_wheel_holds_every_file_of_the_package_and_no_other(wheel):
    tracked = subprocess.run(
        ["git", "ls-files", "django_jobs"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    ).stdout.split()

    names = zipfile.ZipFile(wheel).namelist()

    assert "django_jobs/py.typed" in names
    assert {f"django_jobs/locale/{name}/LC_MESSAGES/django.mo" for name in ("de", "es", "fr")} <= set(names)
    assert sorted(name for name in names if ".dist-info/" not in name) == sorted(tracked)


SETTINGS = """
SECRET_KEY = "wheel"
INSTALLED_APPS = [
    "django_jobs",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "stranger",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ALLOWED_HOSTS = ["testserver"]
ROOT_URLCONF = "urls"
STATIC_URL = "static/"
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", **DATABASE}}
"""

TASKS = """
from django_jobs import task

@task
def double(number: int) -> int:
    return 2 * number
"""

URLS = """
from django.contrib import admin
from django.urls import path

urlpatterns = [path("admin/", admin.site.urls)]
"""

PAGE = """
from django.contrib.auth.models import User
from django.test import Client
client = Client()
client.force_login(User.objects.create_superuser("ada"))
print(client.get("/admin/django_jobs/job/", headers={"accept-language": "LANGUAGE"}).content.decode())
User.objects.all().delete()
"""
IN_LANGUAGES = {
    "de": "Alle fehlgeschlagenen erneut versuchen",
    "fr": "Réessayer tous",
    "es": "Reintentar todos",
}

ENQUEUE = "from stranger.tasks import double; print(double.enqueue(21).id)"
LOOK = "from stranger.tasks import double; print(double.get_result('%s').return_value)"


@pytest.fixture
def database(django_db_blocker):
    """The address of an empty database on the tests' server."""
    with django_db_blocker.unblock():
        given = connection.settings_dict
        address = {key: given[key] for key in ("USER", "PASSWORD", "HOST", "PORT")}
        parameters = connection.get_connection_params()
    keys = ("host", "port", "user", "password")
    parameters = {key: parameters[key] for key in keys if parameters.get(key)} | {"dbname": "postgres"}
    with psycopg.connect(**parameters, autocommit=True) as admin:
        admin.execute("CREATE DATABASE wheel_in_an_empty_environment")
        yield address | {"NAME": "wheel_in_an_empty_environment"}
        admin.execute("DROP DATABASE wheel_in_an_empty_environment WITH (FORCE)")


def test_the_wheel_runs_a_job_in_an_environment_with_nothing_else(wheel, database, tmp_path):
    python = tmp_path / "venv" / "bin" / "python"
    extras = "binary" if sys.version_info >= (3, 12) else "binary,backport"
    project = tmp_path / "project"
    (project / "stranger").mkdir(parents=True)
    (project / "stranger" / "__init__.py").touch()
    (project / "stranger" / "tasks.py").write_text(TASKS)
    (project / "urls.py").write_text(URLS)
    (project / "settings.py").write_text(f"DATABASE = {database!r}\n{SETTINGS}")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("DJANGO", "PYTHON"))
    }
    environment |= {"DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": str(project)}

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            command, cwd=project, env=environment, capture_output=True, text=True, timeout=180, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(python, "-m", "pip", "install", "--quiet", f"{wheel}[{extras}]")
    django = (python, "-m", "django")
    run(*django, "check", "--fail-level", "WARNING")
    run(*django, "migrate", "--verbosity", "0")
    run(*django, "check", "--fail-level", "WARNING", "--database", "default")
    job = run(*django, "shell", "--verbosity", "0", "--command", ENQUEUE)

    assert "1 completed" in run(*django, "runjobs", "--drain", "--timeout", "60")
    assert run(*django, "shell", "--verbosity", "0", "--command", LOOK % job) == "42"
    for language, words in IN_LANGUAGES.items():
        page = PAGE.replace("LANGUAGE", language)
        assert words in run(*django, "shell", "--verbosity", "0", "--command", page)
