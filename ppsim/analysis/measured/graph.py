"""What waits for what in a measured step, and how long the step takes when its ops take other times.

The graph has a node per op. A node starts when all nodes before it have ended. Nodes that several workers do together
(a message's two ends, a collective) end their transfer's time after the last of them has started. The times of a node
are computed for all replicas and steps at once, in the order in which nodes follow each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ppsim.errors import PpsimError

Times = NDArray[np.float64]
"""Ns, shape (nodes, replicas, steps)."""


@dataclass(frozen=True, eq=False)
class Graph:
    """``before[i]`` are the nodes that node i waits for; ``together`` are groups of nodes that end only together."""

    before: tuple[tuple[int, ...], ...]
    together: tuple[tuple[int, ...], ...] = ()
    wide: frozenset[int] = frozenset()
    """Groups, by their number, whose members in all replicas wait for each other."""

    @cached_property
    def _group_of(self) -> dict[int, int]:
        return {node: number for number, group in enumerate(self.together) for node in group}

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The nodes, each after what it waits for; of a group all that start before any ends.

        Raises PpsimError where nodes wait for each other in a circle.
        """
        after: list[list[int]] = [[] for _ in self.before]
        left = [len(nodes) for nodes in self.before]
        for node, nodes in enumerate(self.before):
            for earlier in nodes:
                after[earlier].append(node)
        ready = deque(node for node, count in enumerate(left) if not count)
        started = [0] * len(self.together)
        order: list[int] = []
        while ready:
            node = ready.popleft()
            order.append(node)
            ended: Sequence[int] = (node,)
            if (group := self._group_of.get(node)) is not None:
                started[group] += 1
                ended = self.together[group] if started[group] == len(self.together[group]) else ()
            for done in ended:
                for later in after[done]:
                    left[later] -= 1
                    if not left[later]:
                        ready.append(later)
        if len(order) < len(self.before):
            stuck = next(node for node, count in enumerate(left) if count)
            raise PpsimError(f"the trace's ops wait for each other in a circle, op number {stuck} among them")
        return tuple(order)

    def ends(self, duration: Times, lag: Times | float = 0.0) -> Times:
        """When every node ends; each begins ``lag`` after what it waits for. A group's ``duration`` is its transfer."""
        end = np.zeros_like(duration)
        start = np.zeros_like(duration)
        waiting = [len(group) for group in self.together]
        for node in self.order:
            begin = start[node]
            for earlier in self.before[node]:
                np.maximum(begin, end[earlier], out=begin)
            begin += lag if isinstance(lag, float) else lag[node]
            group = self._group_of.get(node)
            if group is None:
                np.add(begin, duration[node], out=end[node])
                continue
            waiting[group] -= 1
            if not waiting[group]:
                self._end_together(group, start, end, duration)
        return end

    def _end_together(self, group: int, start: Times, end: Times, duration: Times) -> None:
        members = list(self.together[group])
        last = start[members].max(axis=0)
        if group in self.wide:
            last = np.broadcast_to(last.max(axis=0), last.shape)
        end[members] = last + duration[members]
