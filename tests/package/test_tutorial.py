"""
The tutorial, followed by the letter: in an empty folder and a new environment, with the wheel.

Commands and files come from docs/tutorial.md. Only the server's address, the port and the password are the
test's own, and what the reader does in the browser is done by requests.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlencode, urljoin
from urllib.request import HTTPCookieProcessor, ProxyHandler, build_opener

import psycopg
import pytest
from django.db import connection

from tests.eventually import eventually

TUTORIAL = Path(__file__).resolve().parent.parent.parent / "docs" / "tutorial.md"
STEP = re.compile(r"(?:^`(?P<file>[\w/.]+)`:\n\n)?^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.M | re.S)
NAME = "tutorial"


class Reader:
    """Someone who follows the tutorial in `folder`."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder = folder
        self.wheel = wheel
        self.env = {
            name: value for name, value in os.environ.items() if not name.startswith(("DJANGO", "PYTHON"))
        }
        self.env |= {
            "PATH": f"{folder}/.venv/bin:{os.environ['PATH']}",
            "DJANGO_SUPERUSER_PASSWORD": "secret",
        }
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.left_running: list[subprocess.Popen[bytes]] = []
        self.browser = build_opener(ProxyHandler({}), HTTPCookieProcessor(CookieJar()))

    def follow(self) -> None:
        """Do everything that the page says, in order."""
        for step in STEP.finditer(TUTORIAL.read_text("utf-8")):
            if step["file"]:
                (self.folder / step["file"]).write_text(step["code"], "utf-8")
            elif step["code"].startswith("INSTALLED_APPS"):
                self.change_settings("INSTALLED_APPS = [\n", step["code"])
            elif step["code"].startswith("DATABASES"):
                self.change_settings("# Database", f"{step['code']}\n{self.database()}\n# Database")
            elif step["language"] == "console":
                for line in step["code"].splitlines():
                    self.run(line.removeprefix("$ "))

    def change_settings(self, old: str, new: str) -> None:
        path = self.folder / "shop" / "settings.py"
        text = path.read_text("utf-8")
        if new.startswith("DATABASES"):  # replaces the one that startproject wrote
            text = re.sub(r"^DATABASES = \{.*?^\}\n", "", text, flags=re.M | re.S)
        assert old in text
        path.write_text(text.replace(old, new, 1), "utf-8")

    def database(self) -> str:
        """Return a line that puts the test's server into the settings."""
        given = connection.settings_dict
        values = {key: given[key] for key in ("USER", "PASSWORD", "HOST", "PORT")} | {"NAME": NAME}
        return f'DATABASES["default"].update({values!r})'

    def run(self, command: str) -> None:
        """Run one line of the console."""
        extras = "[binary,backport]" if sys.version_info < (3, 12) else "[binary]"
        command = command.replace('"path/to/django_jobs[binary]"', f'"{self.wheel}{extras}"')
        if command == "python3 -m venv .venv":
            command = f"{sys.executable} -m venv .venv"
        if command in {"python manage.py runserver", "python manage.py runjobs"}:
            self.leave_running(command)
            return
        command += " --noinput" if "createsuperuser" in command else ""
        done = subprocess.run(
            ["sh", "-c", command], cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        if command.endswith("--drain"):
            assert "nothing to do" in done.stdout

    def leave_running(self, command: str) -> None:
        """Start a command of another terminal, and do what the page says to do then."""
        name = command.rpartition(" ")[2]
        if name == "runserver":
            command += f" --noreload {self.port}"
        with (self.folder / f"{name}.log").open("wb") as log:
            words = command.split()
            self.left_running.append(
                subprocess.Popen(words, cwd=self.folder, env=self.env, stdout=log, stderr=subprocess.STDOUT)
            )
        if name == "runserver":
            eventually(lambda: self.answers("/"), 30)
            self.order("ada@example.com")
            assert not (self.folder / "receipts").exists()
        else:
            self.see_jobs_run()

    def see_jobs_run(self) -> None:
        """Sections 5 to 7."""
        eventually(lambda: (self.folder / "receipts/1.txt").exists(), 30)
        self.order("grace")
        log = self.folder / "runjobs.log"
        assert "tasks      1 known" in log.read_text()
        eventually(lambda: "failed in attempt 3 of 3 and waits for a person" in log.read_text(), 40)
        assert "failed in attempt 1 of 3; next attempt in" in log.read_text()
        self.send("/admin/login/", username="ada", password="secret", next="/admin/")
        self.send("/admin/orders/order/2/change/", email="grace@example.com")
        page = self.get("/admin/django_jobs/job/2/change/")
        assert page.count("ValueError") >= 3
        retry = next(link for link in re.findall(r'href="([^"]+)"', page) if "retry" in link)
        self.send(urljoin("/admin/django_jobs/job/2/change/", retry))
        eventually(lambda: (self.folder / "receipts/2.txt").exists(), 20)

    def answers(self, path: str) -> bool:
        try:
            return bool(self.get(path))
        except URLError:
            return False

    def get(self, path: str) -> str:
        with self.browser.open(f"http://127.0.0.1:{self.port}{path}", timeout=20) as answer:
            text: str = answer.read().decode()
            return text

    def send(self, path: str, **values: str) -> str:
        """Fill in the form of a page and send it."""
        page = self.get(path)
        given = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page)) | values
        address = f"http://127.0.0.1:{self.port}{path}"
        with self.browser.open(address, urlencode(given).encode(), timeout=20) as answer:
            text: str = answer.read().decode()
            return text

    def order(self, email: str) -> None:
        assert "Thank you for order" in self.send("/", email=email)


@pytest.fixture
def reader(tmp_path, db) -> Iterator[Reader]:
    (wheel,) = Path(os.environ["WHEEL_FOLDER"]).glob("*.whl")
    given = connection.get_connection_params()
    address = {name: given[name] for name in ("host", "port", "user", "password") if given.get(name)}
    with psycopg.connect(**address, dbname="postgres", autocommit=True) as server:
        server.execute(f"DROP DATABASE IF EXISTS {NAME} WITH (FORCE)")
        server.execute(f"CREATE DATABASE {NAME}")
        reader = Reader(tmp_path, wheel)
        yield reader
        for process in reader.left_running:
            process.terminate()
        for process in reader.left_running:
            process.wait(60)
        server.execute(f"DROP DATABASE {NAME} WITH (FORCE)")


def test_the_tutorial_works_as_it_is_written(reader):
    reader.follow()

    assert (reader.folder / "receipts/2.txt").read_text() == "To: grace@example.com\nThank you!\n"
    assert all(process.poll() is None for process in reader.left_running)
