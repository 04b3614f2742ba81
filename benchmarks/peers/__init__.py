"""
`python -m benchmarks peers`: django_jobs beside other queues, on the same machine, server and jobs.

```text
catalogue ─▶ environments ─▶ runner ──verbs──▶ client + one module per queue   (the queue's own environment)
 who, how      pip, venv        │ ───starts─▶ the queue's own worker command
                                └── marks ◀── each body writes when it began
```

The modules named after a queue import it, so only processes in that queue's environment import them. Each has
the same four functions: `prepare`, `enqueue`, `enqueue_many` and `unfinished`.
"""
