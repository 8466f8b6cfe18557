"""Real runs over real links, in network namespaces; ``python -m tests.real --netns`` (as root) makes the table."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ppsim.engine.timeline import PER_SECOND
from ppsim.metrics import Run
from tests.real import table
from tests.real.cases import FITTED_ON, Case, simulated
from tests.real.compare import errors, fitted
from tests.real.harness import Place, measured, median
from tests.real.netns import Network

MB = 1_000_000
Links = Mapping[int, Mapping[int, Mapping[str, str]]]
"""ppsim's settings of a link by the rate of its ports and the bytes of a message."""


@dataclass(frozen=True)
class LinkCase:
    """A case, the rate of every node's port in Mbit/s, and the node of every rank (by default its own)."""

    case: Case
    mbits: tuple[int, ...]
    nodes: tuple[int, ...] = ()

    def node(self, rank: int) -> int:
        """The node of a rank."""
        return self.nodes[rank] if self.nodes else rank

    def __str__(self) -> str:
        return self.case.name


def _case(name: str, schedule: str, stages: int, ranks: int, microbatches: int, mb: float) -> Case:
    """F = 50 ms and B = 100 ms on every stage."""
    return Case(name, schedule, ranks, microbatches, (50,) * stages, (100,) * stages, message=int(mb * MB))


CASES = (
    LinkCase(_case("gpipe p3 m6, 2 MB", "gpipe", 3, 3, 6, 2), (400,) * 3),
    LinkCase(_case("gpipe p3 m6, 4 MB", "gpipe", 3, 3, 6, 4), (400,) * 3),
    LinkCase(_case("gpipe p4 m8, 1 MB", "gpipe", 4, 4, 8, 1), (200,) * 4),
    LinkCase(_case("gpipe p3 m6, 2 MB, a slow link", "gpipe", 3, 3, 6, 2), (400, 400, 160)),
    LinkCase(_case("1f1b p3 m6, 2 MB", "1f1b", 3, 3, 6, 2), (400,) * 3),
    LinkCase(_case("1f1b p3 m6, 4 MB", "1f1b", 3, 3, 6, 4), (400,) * 3),
    LinkCase(_case("looped bfs p2 v2 m4, 2 MB", "looped_bfs", 4, 2, 4, 2), (400,) * 2),
    LinkCase(_case("interleaved p2 v2 m4, 2 MB", "interleaved_1f1b", 4, 2, 4, 2), (400,) * 2),
    LinkCase(_case("gpipe p4 m6, 1 MB", "gpipe", 4, 4, 6, 1), (400,) * 4),
    LinkCase(_case("gpipe p4 m6, 1 MB, two ranks per port", "gpipe", 4, 4, 6, 1), (400, 400), (0, 1, 0, 1)),
)  # fmt: skip


def bare(mbit: int, sizes: Sequence[int], repeats: int = 5) -> dict[int, dict[str, str]]:
    """By the bytes of a message, the link that a bare transfer between two ranks shows.

    A transfer goes from when both are ready to the end of the receive; the median counts.
    """
    with Network((mbit, mbit)) as network, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spec.json"
        path.write_text(json.dumps({"sizes": sizes, "repeats": repeats}))
        place = Place([network.inside(0), network.inside(1)], network.interface)
        sent, received = (np.array(found) for found in place.run("tests.real.bare", path, 2, seconds=60))
    times = received[:, 1] - np.maximum(sent[:, 0], received[:, 0])
    medians = np.median(times.reshape(len(sizes), repeats), axis=1).tolist()
    return {size: {"bandwidth": f"{size / ns * PER_SECOND:.0f} B/s"} for size, ns in zip(sizes, medians, strict=True)}


def predicted(link_case: LinkCase, links: Links, op_overhead_ns: int) -> Run:
    """The run as ppsim sees it: nodes with a port each, a slow one's link as slow as its port."""
    case, usual = link_case.case, max(link_case.mbits)
    ranks = range(case.ranks)
    per_node = case.ranks // len(link_case.mbits)
    rates = [link_case.mbits[link_case.node(rank)] for rank in ranks]
    slow = [
        {"ranks": [a, a + 1], **links[min(rates[a : a + 2])][case.message]}
        for a in ranks[:-1]
        if min(rates[a : a + 2]) < usual
    ]
    cluster: dict[str, Any] = {
        "ranks_per_node": per_node,
        "ranks_per_nic": per_node,
        "placement": sorted(ranks, key=link_case.node),
        "intra_node": "free",
        "inter_node": links[usual][case.message],
        "links": slow,
    }
    return simulated(case, op_overhead_ns, cluster=cluster, runtime={"preset": "pytorch", "transport": "gloo"})


def rows(steps: int, say: Callable[[table.Row], None], cases: Sequence[LinkCase] = CASES) -> list[table.Row]:
    """A row per case; ``op_overhead`` is fitted on a run without links, the links' constants on bare transfers."""
    with Network((1000,)) as network:
        one_node = Place([network.inside(0)] * FITTED_ON.ranks)
        alone = median(measured(FITTED_ON, simulated(FITTED_ON).plan, steps, one_node))
    overhead = fitted(alone.timeline.makespan, lambda ns: simulated(FITTED_ON, ns))
    rates = sorted({mbit for link_case in cases for mbit in link_case.mbits})
    links = {
        mbit: bare(mbit, sorted({link_case.case.message for link_case in cases if mbit in link_case.mbits}))
        for mbit in rates
    }
    found: list[table.Row] = []
    for link_case in cases:
        case = link_case.case
        with Network(link_case.mbits) as network:
            place = Place([network.inside(link_case.node(rank)) for rank in range(case.ranks)], network.interface)
            runs = measured(case, simulated(case).plan, steps, place)
        run, simulation = median(runs), predicted(link_case, links, overhead)
        found.append({
            **table.sizes(case),
            "message_bytes": case.message,
            "mbit_per_s": " ".join(map(str, link_case.mbits)),
            "ranks_per_port": case.ranks // len(link_case.mbits),
            "bare_bandwidth": links[max(link_case.mbits)][case.message]["bandwidth"],
            "measured_s": table.seconds(run.timeline.makespan),
            "measured_spread": table.spread(runs),
            "free_links_s": table.seconds(simulated(case, overhead).timeline.makespan),
            "simulated_s": table.seconds(simulation.timeline.makespan),
            **table.error_columns(errors(run, simulation)),
        })  # fmt: skip
        say(found[-1])
    return found


if __name__ == "__main__":
    made = rows(int(sys.argv[1]), lambda row: print(*row.values(), sep=", ", flush=True))
    table.write(made, table.REFERENCE / "real_links.csv")
