"""Days of trouble in minutes: `python -m benchmarks.soak`. An app too, for the tasks that run meanwhile."""
