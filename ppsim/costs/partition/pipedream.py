"""PipeDream's planner: consecutive layers on stages, each on one or several workers that take minibatches in turn.

The workers sit on levels of links (GPUs in a server, servers in a cluster). On level k, of m_k parts that a bandwidth
B_k connects, with A(0) a layer's own time and the level's whole result A(k)(i→j, m_k) the next level's layer time:

    T(k)(i→j, m) = 1/m · max(A(k-1)(i→j, m_(k-1)), 2 (m-1)/m · Σ|w| / B_k)
    A(k)(i→j, m) = min over s, m' of max(A(k)(i→s, m-m'), 2 a_s / B_k, T(k)(s+1→j, m'))

with w a layer's weights and a_s what layer s sends on, in bytes. The second term of T is a ring all-reduce: of the
2 (m-1) Σ|w| bytes that the paper counts, each of the m workers carries its m-th.
Source: Narayanan et al. 2019 (PipeDream), SOSP'19, section 3.1; NOAM, section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppsim.costs.partition.layout import SplitError
from ppsim.units import round_half_up

PICOSECONDS = 10**12
NEVER = np.int64(2**62)
Times = NDArray[np.int64]
"""Whole picoseconds."""


class Level(NamedTuple):
    """So many parts (workers, or whole levels below), connected by a bandwidth in bytes/s; None: for nothing."""

    parts: int
    bandwidth: Fraction | None


class Stage(NamedTuple):
    """The layers ``begin`` to ``end - 1`` on so many workers."""

    begin: int
    end: int
    workers: int


class Plan(NamedTuple):
    """Stages in their order, and the seconds per minibatch that the planner expects of them."""

    stages: tuple[Stage, ...]
    period: Fraction

    @property
    def replicas(self) -> list[int]:
        """Workers of each stage."""
        return [stage.workers for stage in self.stages]

    @property
    def split(self) -> tuple[int, ...]:
        """Layers of each stage."""
        return tuple(stage.end - stage.begin for stage in self.stages)


@dataclass(frozen=True)
class Profile:
    """What the planner knows of each layer: seconds of forward and backward, bytes of weights, bytes it sends on."""

    times: Sequence[Fraction]
    weights: Sequence[Fraction]
    messages: Sequence[Fraction]

    @cached_property
    def compute(self) -> Times:
        """[i, j]: time of the layers from i to before j; NEVER where there are none."""
        before = np.array([0, *accumulate(_picoseconds(time) for time in self.times)], np.int64)
        found = before[None, :] - before[:, None]
        return np.where(np.arange(len(before))[:, None] < np.arange(len(before))[None, :], found, NEVER)

    def sync(self, copies: int, bandwidth: Fraction | None) -> Times:
        """[i, j]: time in which so many copies of the layers sum their gradients."""
        before = list(accumulate(self.weights, initial=Fraction(0)))
        factor = _per_byte(Fraction(2 * (copies - 1), copies), bandwidth)
        ends = np.array([round_half_up(size * factor) for size in before], np.int64)
        return ends[None, :] - ends[:, None]

    def sending(self, bandwidth: Fraction | None) -> Times:
        """[s]: time in which the layer before s sends its output and gets the gradient back."""
        factor = _per_byte(Fraction(2), bandwidth)
        return np.array([0, *(round_half_up(size * factor) for size in self.messages)], np.int64)

    def bytes_per_round(self, plan: Plan) -> Fraction:
        """What all workers send while each of a stage's workers does one minibatch, in gradients and outputs.

        With one minibatch in turn for each of a stage's m workers, gradients move 2 (m-1) |w|, once for all.
        Source: PipeDream, SOSP'19, figure 17 (divided by the minibatch size).
        """
        gradients = (2 * (s.workers - 1) * sum(self.weights[s.begin : s.end], Fraction(0)) for s in plan.stages)
        outputs = (2 * self.messages[s.end - 1] for s in plan.stages[:-1])
        return sum(gradients, Fraction(0)) + sum(outputs, Fraction(0))


def _picoseconds(seconds: Fraction) -> int:
    return round_half_up(seconds * PICOSECONDS)


def _per_byte(times: Fraction, bandwidth: Fraction | None) -> Fraction:
    return Fraction(0) if bandwidth is None else times * PICOSECONDS / bandwidth


@dataclass(frozen=True)
class _Solved:
    """A level: the best time of layers i to before j on m of its parts, and how: the last stage's start and parts."""

    time: dict[int, Times]
    start: dict[int, NDArray[np.int64]]
    parts: dict[int, NDArray[np.int64]]


def plan(profile: Profile, levels: Sequence[Level]) -> Plan:
    """The plan for all workers of the levels, which go from the innermost to the outermost.

    Of plans that are equally fast the one with the fewest workers on its last stage, and fewest stages.
    Raises SplitError for layers that are none, or levels without workers.
    """
    if not profile.times or not levels or min(level.parts for level in levels) < 1:
        raise SplitError("a plan needs a layer, and a worker")
    base, solved = profile.compute, []
    for depth, level in enumerate(levels):
        solved.append(_level(base, profile, level, whole=depth == len(levels) - 1))
        base = solved[-1].time[level.parts]
    layers = len(profile.times)
    stages = tuple(_unfold(solved, levels, len(levels) - 1, (0, layers), levels[-1].parts))
    return Plan(stages, Fraction(int(base[0, layers]), PICOSECONDS))


def _level(base: Times, profile: Profile, level: Level, whole: bool) -> _Solved:
    """One level; where ``whole``, for the layers from the first on alone."""
    alone = {m: _replicated(base, profile, m, level.bandwidth) for m in range(1, level.parts + 1)}
    first = 1 if whole else len(base)
    sending = profile.sending(level.bandwidth)
    time: dict[int, Times] = {}
    start: dict[int, NDArray[np.int64]] = {}
    parts: dict[int, NDArray[np.int64]] = {}
    for m in range(1, level.parts + 1):
        best = alone[m][:first].copy()
        starts = np.repeat(np.arange(first, dtype=np.int64)[:, None], len(base), axis=1)
        used = np.full(best.shape, m, np.int64)
        for last in range(1, m):
            before = np.maximum(time[m - last], sending[None, :])
            for s in range(1, len(base) - 1):
                both = np.maximum(before[:, s, None], alone[last][s][None, :])
                better = both < best
                best, starts[better], used[better] = np.where(better, both, best), s, last
        time[m], start[m], parts[m] = best, starts, used
    return _Solved(time, start, parts)


def _replicated(base: Times, profile: Profile, copies: int, bandwidth: Fraction | None) -> Times:
    """T: layers on so many parts, per minibatch."""
    longest = np.maximum(base, profile.sync(copies, bandwidth)) if copies > 1 else base
    return np.where(base < NEVER, longest // copies, NEVER)


def _unfold(
    solved: Sequence[_Solved], levels: Sequence[Level], depth: int, layers: tuple[int, int], parts: int
) -> list[Stage]:
    """The stages behind the best time of those layers on so many parts of a level."""
    begin, end = layers
    if depth < 0:
        return [Stage(begin, end, 1)]
    row = 0 if depth == len(levels) - 1 else begin
    start, last = int(solved[depth].start[parts][row, end]), int(solved[depth].parts[parts][row, end])
    below = levels[depth - 1].parts if depth else 1
    mine = [
        stage._replace(workers=stage.workers * last)
        for stage in _unfold(solved, levels, depth - 1, (start, end), below)
    ]
    return mine if start == begin else [*_unfold(solved, levels, depth, (begin, start), parts - last), *mine]


def with_replicas(
    profile: Profile, replicas: Sequence[int], syncs: Sequence[Fraction | None], links: Sequence[Fraction | None]
) -> Plan:
    """The fastest split for stages on so many workers each.

    ``syncs``: the bandwidth over which each stage's workers sum gradients; ``links``: that from each stage to the next.
    Raises SplitError for fewer layers than stages.
    """
    layers, stages = len(profile.times), len(replicas)
    if layers < stages:
        raise SplitError(f"{layers} layers are too few for {stages} stages, each of which needs one")
    time = _replicated(profile.compute, profile, replicas[0], syncs[0])[0]
    began: list[NDArray[np.int64]] = []
    for copies, sync, link in zip(replicas[1:], syncs[1:], links, strict=True):
        so_far = np.maximum(time, profile.sending(link))
        both = np.maximum(so_far[:, None], _replicated(profile.compute, profile, copies, sync))
        began.append(np.argmin(both, axis=0))
        time = np.min(both, axis=0)
    ends = [layers]
    for starts in reversed(began):
        ends.append(int(starts[ends[-1]]))
    bounds = [0, *reversed(ends)]
    found = tuple(Stage(*span, copies) for span, copies in zip(pairwise(bounds), replicas, strict=True))
    return Plan(found, Fraction(int(time[layers]), PICOSECONDS))
