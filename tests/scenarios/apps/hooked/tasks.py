from __future__ import annotations

import atexit
import logging
import logging.handlers
import os
import time
from pathlib import Path

FOLDER = Path(os.environ["SCENARIO_FOLDER"])


def leave_word() -> None:
    (FOLDER / f"word-{os.getpid()}").touch()
    time.sleep(float(os.environ.get("HOOK_SECONDS", "0")))


atexit.register(leave_word)

memory = logging.handlers.MemoryHandler(
    capacity=10_000, flushLevel=logging.CRITICAL, target=logging.FileHandler(FOLDER / "held.log")
)
logging.getLogger().addHandler(memory)
logging.getLogger().setLevel(logging.INFO)
