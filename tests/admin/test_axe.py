"""
axe-core looks for what keeps people from using the pages: names, roles, contrast, order. It comes from npm
(`npm pack`), or from the file that AXE names; without either these tests are left out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
from datetime import timedelta
from html import unescape
from pathlib import Path

import pytest
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from django_jobs.models import Attempt, Queue
from tests.admin.browsing import dom, needs_chromium, serving
from tests.admin.conftest import JOBS, OVERVIEW, QUEUES, TASKS, WORKERS, detail, one
from tests.jobs import give

VERSION = "4.10.3"

pytestmark = [pytest.mark.slow, needs_chromium, pytest.mark.django_db(transaction=True)]

# Django's own parts aren't ours to mend: the header, and the search box, which has no visible label.
RUN = """
addEventListener("load", async () => {
    const ours = {include: "#content", exclude: "#changelist-search"};
    const found = await axe.run(ours, {resultTypes: ["violations"]});
    const told = document.createElement("pre");
    told.id = "axe";
    told.textContent = JSON.stringify(found.violations.map((rule) => ({
        rule: rule.id, impact: rule.impact, where: rule.nodes.map((node) => node.html.slice(0, 160)),
    })));
    document.body.append(told);
});
"""


@pytest.fixture(scope="session")
def axe(tmp_path_factory) -> str:
    """The text of axe-core."""
    if os.environ.get("AXE"):
        return Path(os.environ["AXE"]).read_text("utf-8")
    folder = tmp_path_factory.mktemp("axe")
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm to get axe-core with")
    done = subprocess.run(
        [npm, "pack", f"axe-core@{VERSION}"], cwd=folder, capture_output=True, timeout=120, check=False
    )
    if done.returncode:
        pytest.skip("npm could not get axe-core")
    with tarfile.open(folder / f"axe-core-{VERSION}.tgz") as packed:
        script = packed.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


@pytest.fixture
def pages(make_job, make_worker, put):
    """Rows that have every part of every page shown, and the pages by name."""
    worker = make_worker(queues=["mail"], name="mailer", ending="")
    make_worker(silent=300, name="silent")
    failed = make_job("FAILED", kwargs={"a": [1]}, reason="Down: no", queue_name="mail",
                      enqueued_at=timezone.now() - timedelta(hours=1))  # fmt: skip
    Attempt.objects.create(job=failed, number=1, worker=worker.pk, kind="ERROR", decision="FAILED",
                           exception_class="shop.Down", message="no", traceback="Traceback …\nshop.Down: no",
                           started_at=timezone.now(), ended_at=timezone.now())  # fmt: skip
    waiting = make_job(queue_name="lonely", run_after=timezone.now() - timedelta(minutes=3))
    for state in ("SCHEDULED", "RETRYING", "RUNNING", "SUCCESSFUL", "CANCELLED"):
        make_job(state, worker=worker.pk)
    Queue.objects.create(name="paused", paused_at=timezone.now(), paused_by="ada", pause_reason="no")
    put(queue="mail", completed=5, failed=2, retried=1, lengths=[(1.0, 1.0)])
    return {
        "overview": OVERVIEW,
        "jobs": f"{JOBS}?tag=vip",
        "failed": f"{JOBS}?state=failed",
        "job": detail(failed),
        "waiting": detail(waiting),
        "retry": one(failed, "retry"),
        "cancel": one(waiting, "cancel"),
        "edit": one(waiting, "edit"),
        "queues": QUEUES,
        "queue": f"{QUEUES}mail/change/",
        "pause": f"{QUEUES}pause/mail/",
        "tasks": TASKS,
        "run": f"{TASKS}run/{give.module_path}/",
        "workers": WORKERS,
        "worker": f"{WORKERS}{worker.pk}/change/",
    }


NAMES = (
    "overview", "jobs", "failed", "job", "waiting", "retry", "cancel", "edit", "queues", "queue", "pause",
    "tasks", "run", "workers", "worker",
)  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_no_page_keeps_anybody_out(axe, pages, tmp_path, name, scheme):
    def files(request: HttpRequest) -> HttpResponse | None:
        scripts = {"/axe.js": axe, "/axe-run.js": RUN}
        found = scripts.get(request.path)
        return None if found is None else HttpResponse(found, content_type="text/javascript")

    def with_axe(request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if response.headers["Content-Type"].startswith("text/html"):
            tags = '<script src="/axe.js"></script><script src="/axe-run.js"></script></body>'
            response.content = response.content.decode().replace("</body>", tags)
        return response

    flags = {"light": "preferredColorScheme=1", "dark": "preferredColorScheme=0"}
    with serving(before=files, after=with_axe) as site:
        content, _complaints = dom(f"{site}{pages[name]}", tmp_path, f"--blink-settings={flags[scheme]}")

    told = re.search(r'<pre id="axe">(.*?)</pre>', content, re.DOTALL)
    assert told is not None, content[-2000:]
    found = json.loads(unescape(told[1]))
    serious = [rule for rule in found if rule["impact"] in ("serious", "critical")]
    assert serious == []
