"""Building blocks: the slots of the six ops of a microbatch on each rank of a V; a microbatch starts every six slots.

Source: Qi et al. 2024 (Pipeline parallelism with controllable memory), arXiv 2405.15362, tables 8 and 9.
"""

from __future__ import annotations

from typing import NamedTuple

from ppsim.schedules.search.instance import Instance, Sequence

SLOTS = 6
"""A rank runs F, I and W of its two stages per microbatch."""


class Block(NamedTuple):
    """Slots from one rank to the next: the forward up and down the V, the gradient up and down again; then at
    the turns."""

    up: int
    down: int
    gradient_up: int
    gradient_down: int
    at_last_rank: int
    at_first_rank: int
    at_last_rank_again: int


def v_min(ranks: int) -> Block:
    """A third of 1F1B's memory: the shortest way that keeps the slots of a rank apart."""
    return Block(1, 1, 1, 1, 1, 3 if ranks % 3 == 0 else 1, 1)


def v_half(ranks: int) -> Block:
    """Half of 1F1B's memory."""
    return Block(2, 1, 2, 1, 2, 4 if ranks % 2 == 0 else 1, 1)


def repeated(instance: Instance, block: Block) -> Sequence:
    """The order that a block gives, microbatch after microbatch; W takes the first free slot after its I."""
    p, S, m = instance.ranks, instance.stages, instance.microbatches
    slots: list[tuple[int, int, int]] = []  # (slot, rank, op of microbatch 0)
    for r in range(p):
        up = r * block.up
        down = (p - 1) * block.up + block.at_last_rank + (p - 1 - r) * block.down
        first = (p - 1) * (block.up + block.down) + block.at_last_rank + block.at_first_rank
        gradient_up = first + r * block.gradient_up
        turn = first + (p - 1) * block.gradient_up + block.at_last_rank_again
        gradient_down = turn + (p - 1 - r) * block.gradient_down
        near, far = r, S - 1 - r
        slots += [(up, r, near * m), (down, r, far * m)]
        taken = {slot % SLOTS for slot in (up, down, gradient_up, gradient_down)}
        for slot, stage in sorted([(gradient_up, far), (gradient_down, near)]):
            after = next(s for s in range(slot + 1, slot + SLOTS) if s % SLOTS not in taken)
            taken.add(after % SLOTS)
            slots += [(slot, r, (S + stage) * m), (after, r, (2 * S + stage) * m)]
    return [op + k for _, _, op, k in sorted((slot + SLOTS * k, r, op, k) for slot, r, op in slots for k in range(m))]
