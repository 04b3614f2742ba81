"""
The code blocks of the documentation: found here, run by `test_examples`.

A block whose first line ends in a comment `# not run by the tests: reason` is not run; the reason stands
where the reader sees it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FENCE = re.compile(
    r"^(?P<fence>```|~~~)(?P<language>\w+)\n(?P<code>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL
)
NOT_RUN = re.compile(r"# not run by the tests: (\S.*)")


@dataclass(frozen=True)
class Block:
    """One block of code: where it stands, in which language, and its text."""

    page: Path
    line: int
    language: str
    code: str

    @property
    def reason(self) -> str:
        """Why it isn't run; empty when it is."""
        found = NOT_RUN.search(self.code.partition("\n")[0])
        return found[1] if found else ""


def pages() -> list[Path]:
    """Return every page that a user reads, README first."""
    found = [path for path in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in path.parts]
    return [ROOT / "README.md", *found]


def name_of(page: Path) -> str:
    """Return a page's path as tests are named."""
    return str(page.relative_to(ROOT))


def blocks(page: Path, *languages: str) -> list[Block]:
    """Return the blocks of a page in these languages, in order."""
    text = page.read_text("utf-8")
    return [
        Block(page, text[: found.start("code")].count("\n"), found["language"], found["code"])
        for found in FENCE.finditer(text)
        if found["language"] in languages
    ]
