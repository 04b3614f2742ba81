"""
The diagram of a job's states, drawn from `core.states.MOVES`.

Where boxes stand and arrows run is laid down here; which arrows there are comes from the table. A move
without a place here, or a place without a move, is an error, so the picture can't tell another story.
"""

from __future__ import annotations

from django_jobs.core.states import MOVES, State

BOXES: dict[State | None, tuple[int, int]] = {
    None: (50, 210),
    State.READY: (240, 210),
    State.RUNNING: (520, 210),
    State.SUCCESSFUL: (830, 210),
    State.FAILED: (830, 90),
    State.CANCELLED: (830, 330),
    State.BLOCKED: (110, 390),
}
"""The middle of each state's box; `None` is where a job comes from."""

WIDTH, HEIGHT = 130, 44
"""Size of a box."""

ARROWS: dict[tuple[State | None, State], tuple[str, int, int, str]] = {
    (None, State.READY): ("M64,210 L173,210", 118, 200, "enqueue"),
    (None, State.BLOCKED): ("M50,224 C50,300 60,330 80,366", 52, 300, ""),
    (State.BLOCKED, State.READY): ("M130,368 C150,320 180,280 215,234", 0, 0, ""),
    (State.BLOCKED, State.CANCELLED): ("M175,400 C400,440 700,430 800,354", 430, 424, ""),
    (State.READY, State.RUNNING): ("M305,200 L453,200", 379, 190, "claim"),
    (State.RUNNING, State.READY): ("M455,222 L307,222", 380, 242, "to run again"),
    (State.RUNNING, State.SUCCESSFUL): ("M585,210 L763,210", 672, 200, "done"),
    (State.RUNNING, State.FAILED): ("M575,188 L765,106", 640, 136, "no attempt left"),
    (State.RUNNING, State.CANCELLED): ("M575,232 L765,314", 690, 264, "cancelled"),
    (State.READY, State.FAILED): ("M270,188 C330,110 560,80 763,84", 500, 84, "no worker knows the task"),
    (State.READY, State.CANCELLED): ("M270,232 C330,310 560,340 763,336", 480, 346, "cancelled"),
    (State.FAILED, State.READY): ("M830,68 C760,20 330,20 235,186", 520, 34, "retried by a person"),
    (State.CANCELLED, State.READY): ("M800,352 C640,400 310,400 240,234", 540, 396, "retried by a person"),
}
"""For each move: the way of its arrow, and where its words stand."""

STYLE = (
    "svg { font: 14px system-ui, sans-serif; } .paper { fill: #fff; }"
    " .box { fill: #eef3f8; stroke: #33526b; stroke-width: 1.5; }"
    " .arrow { fill: none; stroke: #33526b; stroke-width: 1.5; marker-end: url(#head); }"
    " .later { stroke-dasharray: 5 4; } .name { fill: #12222f; font-weight: 600; text-anchor: middle; }"
    " .word { fill: #12222f; text-anchor: middle; paint-order: stroke; stroke: #fff; stroke-width: 4px; }"
)


def diagram() -> str:
    """Return the picture as SVG. Raises ValueError when it and the table differ."""
    legal = {(state, following) for state, all_of_them in MOVES.items() for following in all_of_them}
    if legal != set(ARROWS) or set(BOXES) != set(MOVES):
        raise ValueError(
            f"docs/drawing.py and core.states.MOVES differ: {sorted(map(str, legal ^ set(ARROWS)))}"
        )
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 920 440" role="img">',
        "<title>The states of a job</title>",
        f"<style>{STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
        'orient="auto-start-reverse"><path d="M0,0 L10,5 L0,10 z" fill="#33526b"/></marker></defs>',
        '<rect class="paper" width="920" height="440"/>',
    ]
    for (state, following), (way, *_) in ARROWS.items():
        later = " later" if State.BLOCKED in (state, following) else ""
        parts.append(f'<path class="arrow{later}" d="{way}"/>')
    for state, (x, y) in BOXES.items():
        if state is None:
            parts.append(f'<circle cx="{x}" cy="{y}" r="10" fill="#33526b"/>')
            continue
        later = " later" if state is State.BLOCKED else ""
        parts.append(
            f'<rect class="box{later}" x="{x - WIDTH // 2}" y="{y - HEIGHT // 2}" width="{WIDTH}" '
            f'height="{HEIGHT}" rx="8"/><text class="name" x="{x}" y="{y + 5}">{state.value}</text>'
        )
    for _, x, y, words in ARROWS.values():
        if words:
            parts.append(f'<text class="word" x="{x}" y="{y}">{words}</text>')
    return "\n".join([*parts, "</svg>\n"])


def moves() -> str:
    """Return the table of moves as Markdown."""
    rows = ["| from | to |", "| --- | --- |"]
    for state, following in MOVES.items():
        names = (
            ", ".join(f"`{one.value}`" for one in State if one in following) or "(nothing: pruned in time)"
        )
        rows.append(f"| {f'`{state.value}`' if state else '(enqueueing)'} | {names} |")
    return "\n".join(rows)
