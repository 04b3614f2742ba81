"""
What runs jobs: the dispatcher that turns the wheel, the slots that run bodies, and what keeps them going.

To run a worker inside another process (a test, an ASGI lifespan), use `Worker` from `process`:

    worker = Worker(WorkerOptions(threads=2))
    worker.start()
    ...
    worker.stop(timedelta(seconds=10))
"""
