"""
The two tables that `benchmarks.storage` compares, and how each gets its history.

`Plain` is one table with autovacuum settings of its own. `Split` is one table partitioned by state into live
and finished rows, the finished ones by day. Both are created in the first schema of the connection's
search path, are named `job`, and answer the same statements, but that the claim names the partition of live
rows (`live`): a condition on the state would prune the others as well, but also let the planner look for the
claimed ids in the index of ready rows, through all its dead entries.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from psycopg import Connection, sql

COLUMNS = """
    id bigint NOT NULL DEFAULT nextval('job_id_seq'),
    queue_name text NOT NULL, task_path text NOT NULL, args text NOT NULL, kwargs text NOT NULL,
    priority smallint NOT NULL, state text NOT NULL, run_after timestamptz NOT NULL,
    attempt int NOT NULL DEFAULT 0, max_attempts int NOT NULL DEFAULT 5, worker bigint,
    enqueued_at timestamptz NOT NULL DEFAULT clock_timestamp(), started_at timestamptz,
    last_attempted_at timestamptz, finished_at timestamptz, return_value jsonb,
    cancel_requested_at timestamptz, meta jsonb NOT NULL DEFAULT '{{}}'
"""
AUTOVACUUM = """autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
                autovacuum_vacuum_cost_delay = 0"""
FINISHED = "('successful', 'failed', 'cancelled')"
READY_INDEX = """
    CREATE INDEX job_ready ON {table} (queue_name, priority DESC, run_after, id) WHERE state = 'ready'
"""
# Were its condition plainly "state = 'running'", the guard of the finish would imply it, and the planner,
# which believes this index to be empty, would walk all its dead entries instead of looking up a hundred ids.
RUNNING_INDEX = "CREATE INDEX job_running ON {table} (worker) WHERE state || '' = 'running'"
HISTORY = """
    INSERT INTO {table} (queue_name, task_path, args, kwargs, priority, state, run_after, attempt, worker,
                    enqueued_at, started_at, last_attempted_at, finished_at, return_value)
    SELECT 'default', 'shop.tasks.send_receipt', '[' || n || ', "someone@example.com"]', '{{}}', 0,
           'successful', at, 1, 1, at, at, at, at, '{{"sent": true}}'
      FROM (SELECT n, {start}::timestamptz + {span}::interval * (n::float8 / {rows}) AS at
              FROM generate_series(0, {rows} - 1) AS n) AS past
"""
DAYS = 10
"""The history is spread evenly over so many days, one partition each in `Split`."""


def run(connection: Connection, statement: str, table: str = "job", **values: object) -> None:
    """Execute a statement of definition, which takes no parameters, with its table and literals filled in."""
    literals = {name: sql.Literal(value) for name, value in values.items()}
    connection.execute(sql.SQL(statement).format(table=sql.Identifier(table), **literals))


class Plain:
    """One plain table."""

    name = "plain"
    live = "job"
    hot_tables = ("job",)

    def create(self, connection: Connection, finished: int) -> None:
        """Create the table with `finished` rows of history in id order, then its indexes."""
        self.origin = datetime.now(UTC) - timedelta(days=DAYS)
        run(connection, "CREATE SEQUENCE job_id_seq")
        run(connection, f"CREATE TABLE job ({COLUMNS}) WITH ({AUTOVACUUM}, autovacuum_enabled = off)")
        run(connection, HISTORY, start=self.origin, span=timedelta(days=DAYS), rows=finished)
        run(connection, "ALTER TABLE job ADD PRIMARY KEY (id)")
        run(connection, READY_INDEX)
        run(connection, RUNNING_INDEX)
        run(connection, f"CREATE INDEX job_finished ON job (finished_at) WHERE state IN {FINISHED}")
        run(connection, "VACUUM (FREEZE, ANALYZE) job")

    def prune_oldest_day(self, connection: Connection) -> int:
        """Delete the oldest tenth of the history in batches of 5,000 and return how many rows went."""
        deleted = 0
        until = self.origin + timedelta(days=1)
        while count := connection.execute(
            f"""DELETE FROM job WHERE id = ANY(ARRAY(
                    SELECT id FROM job WHERE finished_at < %s AND state IN {FINISHED}
                     ORDER BY finished_at LIMIT 5000 FOR UPDATE SKIP LOCKED))""",
            [until],
        ).rowcount:
            deleted += count
        self.origin = until
        return deleted


class Split:
    """Live and finished rows in partitions of one table, the finished ones by day."""

    name = "split"
    live = "job_live"
    hot_tables = ("job_live", "job_finished_now")

    def create(self, connection: Connection, finished: int) -> None:
        """
        Create the partitions with `finished` rows of history, each with keys and indexes of its own.

        The parent has no primary key: one would have to hold `finished_at`, which is null in live rows.
        """
        origin = datetime.now(UTC) - timedelta(days=DAYS)
        run(connection, "CREATE SEQUENCE job_id_seq")
        run(connection, f"CREATE TABLE job ({COLUMNS}) PARTITION BY LIST (state)")
        run(
            connection,
            f"""CREATE TABLE job_live PARTITION OF job (PRIMARY KEY (id))
                FOR VALUES IN ('ready', 'running', 'blocked')
                WITH ({AUTOVACUUM}, autovacuum_enabled = off)""",
        )
        run(connection, READY_INDEX, "job_live")
        run(connection, RUNNING_INDEX, "job_live")
        run(
            connection,
            f"""CREATE TABLE job_finished PARTITION OF job FOR VALUES IN {FINISHED}
                PARTITION BY RANGE (finished_at)""",
        )
        self.days = [f"job_finished_{day}" for day in range(DAYS)]
        for day, table in enumerate([*self.days, "job_finished_now"]):
            start = origin + timedelta(days=day)
            run(
                connection,
                "CREATE TABLE {table} PARTITION OF job_finished FOR VALUES FROM ({start}) TO ({end})",
                table,
                start=start,
                end=start + timedelta(days=1),
            )
            if table in self.days:
                run(connection, HISTORY, table, start=start, span=timedelta(days=1), rows=finished // DAYS)
            run(connection, "ALTER TABLE {table} ADD PRIMARY KEY (id)", table)
            run(connection, "CREATE INDEX ON {table} (finished_at)", table)
        run(connection, "VACUUM (FREEZE, ANALYZE) job")

    def prune_oldest_day(self, connection: Connection) -> int:
        """Drop the oldest partition and return how many rows went with it."""
        table = self.days.pop(0)
        estimate = "SELECT reltuples::bigint FROM pg_class WHERE oid = %s::regclass"
        rows = connection.execute(estimate, [table]).fetchone()
        run(connection, "DROP TABLE {table}", table)
        return rows[0] if rows else 0
