"""What all tests share. The database server is in `tests/settings.py`."""

from __future__ import annotations
