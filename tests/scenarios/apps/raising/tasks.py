from __future__ import annotations

raise ImportError("ModuleOfTheDay is not installed")
