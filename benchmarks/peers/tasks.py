"""Found by those workers that look for a module `tasks` in each app: imports the queue under measurement."""

from __future__ import annotations

import os
from importlib import import_module

import_module(os.environ["PEERS_MODULE"])
