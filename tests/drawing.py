"""The house as a drawing: rooms (what lies at the top of the package), arrows (who imports whom), floors.

``python -m tests.drawing`` writes docs/house.svg, ``python -m tests.drawing COMMIT FILE`` draws an earlier state. A
room stands one floor above the highest room that it imports. An arrow that others imply isn't drawn: a → c, where
a → b → c. Long arrows are led between the rooms of the floors that they cross.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "house.svg"
Rooms = dict[str, set[str]]
"""Each room, and the rooms that it imports."""

WIDE, HIGH, GAP, FLOOR = 104, 26, 14, 64
LANE = 16
"""The width that an arrow takes on a floor that it crosses."""


def rooms(package: Path) -> Rooms:
    """The rooms of a package, with what each imports; imports inside functions count, those for types alone don't."""
    found: Rooms = {}
    for path in sorted(package.rglob("*.py")):
        room = path.relative_to(package).parts[0].removesuffix(".py")
        if not room.startswith("__"):
            found.setdefault(room, set()).update(_imported(path, package))
    return {room: {other for other in others if other in found} - {room} for room, others in found.items()}


def _imported(path: Path, package: Path) -> Iterator[str]:
    for name in _names(ast.parse(path.read_text(encoding="utf-8"))):
        top, _, rest = name.partition(".")
        if top == package.name and rest:
            yield rest.partition(".")[0]


def _names(node: ast.AST) -> Iterator[str]:
    """The dotted names that are imported; of ``from a import b`` both a and a.b, as b may be a module."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield child.module or ""
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        yield from _names(child)


def floors(house: Rooms) -> dict[str, int]:
    """The floor of each room; 0 for those that import none."""
    found: dict[str, int] = {}
    for room in TopologicalSorter(house).static_order():
        found[room] = 1 + max((found[other] for other in house[room]), default=-1)
    return found


def arrows(house: Rooms) -> list[tuple[str, str]]:
    """(room, imported room), without those that others imply."""
    reach: Rooms = {}
    for room in TopologicalSorter(house).static_order():
        reach[room] = house[room].union(*(reach[other] for other in house[room]))
    return [
        (room, other)
        for room in sorted(house)
        for other in sorted(house[room])
        if not any(other in reach[between] for between in house[room])
    ]


def drawing(house: Rooms) -> str:
    """The house as SVG, the roof at the top."""
    level = floors(house)
    stops = [_stops(arrow, level) for arrow in arrows(house)]
    rows = _ordered(level, stops)
    centre, width = _places(rows)
    height = (max(level.values()) + 1) * FLOOR
    y = {at: height - (floor + 1) * FLOOR + (FLOOR - HIGH) / 2 for floor, row in enumerate(rows) for at in row}
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" font-family="sans-serif" '
        'font-size="12">',
        '<rect width="100%" height="100%" fill="#fff"/>'
        '<marker id="head" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0 0 6 3 0 6z" fill="#666"/></marker>',
    ]
    for path in stops:
        points = [f"M{centre[path[0]]:.0f} {y[path[0]] + HIGH:.0f}"]
        for above, below in pairwise(path):
            start = y[above] + HIGH
            bend = (y[below] - start) / 2
            points.append(
                f"C{centre[above]:.0f} {start + bend:.0f} {centre[below]:.0f} {y[below] - bend:.0f} "
                f"{centre[below]:.0f} {y[below]:.0f}"
            )
            if below not in house:
                points.append(f"V{y[below] + HIGH:.0f}")
        lines.append(f'<path d="{" ".join(points)}" fill="none" stroke="#666" marker-end="url(#head)"/>')
    for room in sorted(house):
        x = centre[room] - WIDE / 2
        lines.append(
            f'<rect x="{x:.0f}" y="{y[room]:.0f}" width="{WIDE}" height="{HIGH}" rx="4" fill="#eef3fa" stroke="#35639c"/>'
            f'<text x="{centre[room]:.0f}" y="{y[room] + HIGH - 9:.0f}" text-anchor="middle">{escape(room)}</text>'
        )
    return "\n".join([*lines, "</svg>\n"])


def _stops(arrow: tuple[str, str], level: dict[str, int]) -> list[str]:
    """Where an arrow passes, from its room down: a place of its own on each floor between."""
    above, below = arrow
    return [above, *(f"{above}>{below}@{floor}" for floor in range(level[above] - 1, level[below], -1)), below]


def _ordered(level: dict[str, int], stops: list[list[str]]) -> list[list[str]]:
    """The places of each floor from left to right, next to what they are joined with: some turns of barycentres."""
    rows: list[list[str]] = [[] for _ in range(max(level.values()) + 1)]
    joined: defaultdict[str, list[str]] = defaultdict(list)
    for path in stops:
        for depth, at in enumerate(path):
            row = rows[level[path[0]] - depth] if at not in level else rows[level[at]]
            if at not in row:
                row.append(at)
        for above, below in pairwise(path):
            joined[above].append(below)
            joined[below].append(above)
    for room in level:
        if room not in rows[level[room]]:
            rows[level[room]].append(room)
    for _ in range(24):
        centre, _ = _places(rows)
        for row in rows:
            row.sort(key=lambda at: sum(centre[b] for b in joined[at]) / len(joined[at]) if joined[at] else 0)
    return rows


def _places(rows: list[list[str]]) -> tuple[dict[str, float], float]:
    """The middle of each place, and the width of all: every floor is centred."""
    wide = [[LANE if "@" in at else WIDE + GAP for at in row] for row in rows]
    width = max(map(sum, wide))
    centre: dict[str, float] = {}
    for row, widths in zip(rows, wide, strict=True):
        x = (width - sum(widths)) / 2
        for at, own in zip(row, widths, strict=True):
            centre[at] = x + own / 2
            x += own
    return centre, width


def main() -> None:
    """Draw what is here, or a commit."""
    if len(sys.argv) == 1:
        PICTURE.write_text(drawing(rooms(ROOT / "ppsim")), encoding="utf-8")
        return
    commit, target = sys.argv[1:]
    packed = subprocess.run(["git", "archive", commit, "ppsim"], cwd=ROOT, capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            tar.extractall(folder, filter="data")
        Path(target).write_text(drawing(rooms(Path(folder) / "ppsim")), encoding="utf-8")


if __name__ == "__main__":
    main()
