"""The example project: a small photo print shop whose slow work is done by django_jobs."""
