"""The least that SimPy can do for 1F1B: the loop that anyone would write, as the yardstick for the engine.

A process per rank, a timeout per op, an event per message; with links, a ``simpy.Resource`` per port and a process per
transfer. No plan, no settle rule, no record of what happened: only the makespan comes back.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import simpy

Process = Generator[simpy.Event, Any, None]


def free_links(ranks: int, microbatches: int, forward: int, backward: int) -> int:
    """Makespan of 1F1B where messages take no time."""
    env = simpy.Environment()
    activations = [[env.event() for _ in range(microbatches)] for _ in range(ranks + 1)]
    gradients = [[env.event() for _ in range(microbatches)] for _ in range(ranks + 1)]

    def rank(r: int) -> Process:
        for kind, microbatch in _order(r, ranks, microbatches):
            if kind == "F":
                if r > 0:
                    yield activations[r][microbatch]
                yield env.timeout(forward)
                activations[r + 1][microbatch].succeed()
            else:
                if r < ranks - 1:
                    yield gradients[r][microbatch]
                yield env.timeout(backward)
                gradients[r - 1][microbatch].succeed()

    for r in range(ranks):
        env.process(rank(r))
    env.run()
    return int(env.now)


def links(ranks: int, microbatches: int, forward: int, backward: int, message: int) -> int:
    """Makespan of 1F1B where a message holds its sender's egress and its receiver's ingress for ``message``."""
    env = simpy.Environment()
    activations = [[env.event() for _ in range(microbatches)] for _ in range(ranks)]
    gradients = [[env.event() for _ in range(microbatches)] for _ in range(ranks)]
    egress = [simpy.Resource(env) for _ in range(ranks)]
    ingress = [simpy.Resource(env) for _ in range(ranks)]

    def transfer(src: int, dst: int, arrived: simpy.Event) -> Process:
        with egress[src].request() as sending, ingress[dst].request() as receiving:
            yield sending
            yield receiving
            yield env.timeout(message)
        arrived.succeed()

    def rank(r: int) -> Process:
        for kind, microbatch in _order(r, ranks, microbatches):
            if kind == "F":
                if r > 0:
                    yield activations[r][microbatch]
                yield env.timeout(forward)
                if r < ranks - 1:
                    env.process(transfer(r, r + 1, activations[r + 1][microbatch]))
            else:
                if r < ranks - 1:
                    yield gradients[r][microbatch]
                yield env.timeout(backward)
                if r > 0:
                    env.process(transfer(r, r - 1, gradients[r - 1][microbatch]))

    for r in range(ranks):
        env.process(rank(r))
    env.run()
    return int(env.now)


def _order(rank: int, ranks: int, microbatches: int) -> Iterator[tuple[str, int]]:
    """1F1B of one rank: forwards until it is full, then a backward and a forward in turn, then what is left."""
    warm = min(ranks - rank, microbatches)
    yield from (("F", k) for k in range(warm))
    for k in range(microbatches):
        yield "B", k
        if k + warm < microbatches:
            yield "F", k + warm
