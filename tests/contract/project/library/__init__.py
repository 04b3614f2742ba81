"""An app that enqueues jobs."""
