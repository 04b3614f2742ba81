"""Asking workers to drain or to stop on their pages."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.urls import reverse

from django_jobs.models import Worker
from tests.admin.conftest import WORKERS, texts
from tests.eventually import eventually
from tests.scenarios.harness import Processes

pytestmark = pytest.mark.django_db

BOTH = pytest.mark.parametrize("action", ["drain", "stop"])


def asks(worker, action):
    return f"{WORKERS}{action}/{worker.pk}/"


@pytest.fixture
def new(make_worker):
    """Create the row of a worker that can be asked."""

    def new(silent=0, **columns):
        return make_worker(silent, **{"takes_requests": True} | columns)

    return new


@pytest.fixture
def operator(client_of):
    return client_of("view_worker", "stop_worker")


def asked(worker):
    worker.refresh_from_db()
    return worker.asked_to, worker.asked_all


class TestAsking:
    @BOTH
    def test_nothing_happens_before_the_form_is_sent(self, operator, new, make_job, action):
        worker = new(name="w")
        make_job("RUNNING", worker=worker.pk)

        page = operator.get(asks(worker, action)).content.decode()

        assert "It claims nothing more" in page
        assert "It runs 1 job now." in page
        assert "It has no supervisor: it starts again only where something else" in page
        assert asked(worker) == ("", False)

    @BOTH
    def test_it_is_asked_recorded_and_told(self, operator, new, action):
        worker = new(name="w")

        page = operator.post(asks(worker, action), {"confirmed": "yes"}, follow=True)

        assert asked(worker) == (action.upper(), False)
        assert worker.asked_by == "user0"
        [text] = texts(page)
        assert text.startswith(f"Asked w #{worker.pk} to {action}")
        entry = LogEntry.objects.get()
        assert (entry.object_id, entry.change_message) == (str(worker.pk), f"Asked to {action}.")
        assert f"asked to {action}" in page.content.decode()

    def test_one_process_or_all_of_its_supervisor_may_be_meant(self, operator, new):
        one, peer = new(supervisor="a"), new(supervisor="a")
        stranger = new(supervisor="b")

        page = operator.get(asks(one, "stop"))
        assert page.context["question"].form.initial == {"scope": "one"}
        assert "Its supervisor starts another in its place at once." in page.content.decode()
        assert operator.post(asks(one, "stop"), {"confirmed": "yes"}).status_code == 200  # it must be said
        operator.post(asks(one, "stop"), {"scope": "one"})
        assert (asked(one), asked(peer)) == (("STOP", False), ("", False))

        told = texts(operator.post(asks(one, "stop"), {"scope": "all"}, follow=True))

        assert (asked(one), asked(peer), asked(stranger)) == (("STOP", True), ("STOP", True), ("", False))
        assert told[-1] == "Asked 2 processes to stop."
        assert LogEntry.objects.count() == 3

    def test_the_button_of_a_supervisor_means_all(self, operator, new):
        new(supervisor="a")
        new(supervisor="a")
        [tree] = operator.get(WORKERS).context["trees"]

        [drain, stop] = tree.buttons

        for button in (drain, stop):
            assert operator.get(button["path"]).context["question"].form.initial == {"scope": "all"}

    def test_more_may_be_asked_and_less_is_told(self, operator, new):
        worker = new(name="w")
        operator.post(asks(worker, "drain"))
        operator.post(asks(worker, "stop"))
        assert asked(worker) == ("STOP", False)

        page = operator.get(asks(worker, "drain")).content.decode()
        told = texts(operator.post(asks(worker, "drain"), follow=True))

        assert "user0 has asked it already." in page
        assert any(text.startswith(f"Skipped: user0 asked w #{worker.pk} to stop ") for text in told)

    def test_that_one_is_probably_dead_is_said_before_and_after(self, operator, new):
        worker = new(silent=3600)

        page = operator.get(asks(worker, "stop")).content.decode()
        [told] = texts(operator.post(asks(worker, "stop"), follow=True))

        for text in (page, told):
            assert "Nothing has been heard of it for 1 h 0 min: if it is dead" in text
        assert "asked to stop" in operator.get(WORKERS).content.decode()

    @pytest.mark.parametrize(
        ("columns", "says", "told"),
        [
            ({"state": "STOPPED"}, "It has ended.", "has ended."),
            ({"state": "LOST"}, "It has ended.", "was declared dead."),
            ({"state": "STOPPING"}, "It ends already.", "ends already"),
            (
                {"takes_requests": False, "host": "web-1", "pid": 42},
                "Send SIGTERM to process 42 on web-1.",
                "can’t be asked",
            ),
        ],
    )
    def test_of_one_that_can_not_be_asked_it_is_told_why(self, operator, new, columns, says, told):
        worker = new(**columns)

        page = operator.get(asks(worker, "stop"))
        [text] = texts(operator.post(asks(worker, "stop"), follow=True))

        assert says in page.content.decode()
        assert not page.context["question"].possible
        assert told in text
        assert asked(worker) == ("", False)
        assert not LogEntry.objects.exists()

    def test_one_that_is_not_there_leads_back(self, operator):
        assert operator.get(f"{WORKERS}stop/{2**62}/").status_code == 302


class TestWhoMay:
    @BOTH
    def test_who_may_only_view_is_offered_nothing_and_refused(self, viewer, new, action):
        worker = new(supervisor="a")

        for page in (WORKERS, f"{WORKERS}{worker.pk}/change/"):
            assert asks(worker, action) not in viewer.get(page).content.decode()
        assert viewer.get(asks(worker, action)).status_code == 403
        assert viewer.post(asks(worker, action), {"scope": "all"}).status_code == 403
        assert asked(worker) == ("", False)

    @BOTH
    def test_who_may_not_view_workers_may_not_ask_them(self, client_of, new, action):
        worker = new()

        assert client_of("stop_worker").post(asks(worker, action)).status_code == 403
        assert asked(worker) == ("", False)

    @BOTH
    def test_who_may_is_offered_it_on_the_list_and_on_the_page(self, operator, new, action):
        worker = new()

        for page in (WORKERS, f"{WORKERS}{worker.pk}/change/"):
            assert asks(worker, action) in operator.get(page).content.decode()

    @BOTH
    def test_a_stranger_is_sent_to_sign_in(self, client, new, action):
        worker = new()

        assert client.post(asks(worker, action)).url.startswith(reverse("admin:login"))
        assert asked(worker) == ("", False)

    @BOTH
    def test_a_forged_form_is_refused(self, client_of, new, action):
        worker = new()
        careful = client_of("view_worker", "stop_worker", enforce_csrf_checks=True)

        assert careful.post(asks(worker, action)).status_code == 403
        assert asked(worker) == ("", False)


@pytest.mark.parametrize(
    ("columns", "offered"),
    [
        ({}, ["drain", "stop"]),
        ({"asked_to": "DRAIN"}, ["stop"]),
        ({"asked_to": "STOP"}, []),
        ({"asked_to": "STOP", "supervisor": "a"}, ["drain", "stop"]),
        ({"asked_to": "STOP", "supervisor": "a", "asked_all": True}, []),
        ({"state": "STOPPED"}, []),
        ({"takes_requests": False}, []),
    ],
)
def test_only_what_would_change_something_is_offered(operator, new, columns, offered):
    worker = new(**columns)

    page = operator.get(f"{WORKERS}{worker.pk}/change/").content.decode()

    assert [action for action in ("drain", "stop") if asks(worker, action) in page] == offered


@pytest.fixture
def runjobs(transactional_db, tmp_path):
    """Starts real `runjobs` on the database of the test."""
    starter = Processes(tmp_path, {"SCENARIO_DATABASE": connection.settings_dict["NAME"]})
    yield starter
    starter.close()


@pytest.mark.django_db(transaction=True)
class TestRealProcesses:
    def test_they_stand_under_their_supervisor_and_end_with_it(self, runjobs, admin_client):
        runner = runjobs("--processes", "2", "--queue", "mail:2", "--threads", "4").is_ready(2)
        eventually(lambda: not Worker.objects.filter(memory_bytes=None).exists())

        [tree] = admin_client.get(WORKERS).context["trees"]
        assert tree.supervisor == f"{Worker.objects.latest('pk').host}:{runner.pid}"
        assert len(tree.rows) == 2
        assert tree.memory != "unknown"
        page = admin_client.get("/admin/django_jobs/queue/mail/change/").content.decode()
        assert "0/4" in page

        stop = tree.buttons[-1]["path"]
        [told] = texts(admin_client.post(stop, {"scope": "all"}, follow=True))

        assert told == "Asked 2 processes to stop."
        assert runner.ends() == 0
        page = admin_client.get(WORKERS).content.decode()
        assert "stopped, as admin asked" in page
