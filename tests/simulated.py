"""Short hands for tests: an experiment from a few words, and its result."""

from __future__ import annotations

from typing import Any

import ppsim


def experiment(schedule: Any, ranks: int, microbatches: int, **sections: Any) -> ppsim.Experiment:
    """An experiment with F = 1 ms, B = 2 ms per stage, an activation of 1 byte and free links, unless told otherwise.

    ``costs``, ``pipeline``, ``cluster``, ``runtime`` add to or replace those.
    """
    costs = {"per": "stage", "forward": "1 ms", "backward": "2 ms", "activation": "1 B", **sections.pop("costs", {})}
    if "input_grad" in costs and "backward" not in sections:
        costs.pop("backward")
    pipeline = {"ranks": ranks, "microbatches": microbatches, **sections.pop("pipeline", {})}
    return ppsim.Experiment(schedule=schedule, pipeline=pipeline, costs=costs, **sections)


def simulate(schedule: Any, ranks: int, microbatches: int, engine: Any = "simpy", **sections: Any) -> ppsim.Result:
    """The result of ``experiment(...)``."""
    return ppsim.simulate(experiment(schedule, ranks, microbatches, **sections), engine=engine)


def ms(result: ppsim.Result) -> float:
    """The makespan in ms, exact to the nanosecond."""
    return result.timeline.makespan / 1e6


def between_nodes(**link: Any) -> dict[str, Any]:
    """A cluster with one rank on each node, connected by that link."""
    return {"ranks_per_node": 1, "inter_node": link}
