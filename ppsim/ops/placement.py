"""Placements: which stages each rank holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from ppsim.errors import ScheduleError

MOST_STAGES = 1_000_000
"""More are a slip, and would fill the memory before anything is checked."""

KEPT = 16
"""Placements of a shape that are kept: cases come back to a few, each asked for its ranks and stages many times."""


@dataclass(frozen=True)
class Placement:
    """Stages on ranks: ``stages_of[rank]`` is what the rank holds, in the order of its chunks."""

    name: str
    stages_of: tuple[tuple[int, ...], ...]

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return len(self.stages_of)

    @cached_property
    def stages(self) -> int:
        """How many stages the model has."""
        return 1 + max((stage for held in self.stages_of for stage in held), default=-1)

    @cached_property
    def ranks_of(self) -> tuple[tuple[int, ...], ...]:
        """The ranks that hold each stage: one, or several where a stage is replicated or runs in two directions."""
        holders: list[list[int]] = [[] for _ in range(self.stages)]
        for rank, held in enumerate(self.stages_of):
            for stage in held:
                holders[stage].append(rank)
        return tuple(tuple(ranks) for ranks in holders)

    @cached_property
    def replicated(self) -> bool:
        """Whether some stage is on more than one rank."""
        return any(len(ranks) > 1 for ranks in self.ranks_of)

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """What makes this no placement of any pipeline: a stage on no rank, a rank without a stage."""
        return tuple(self._problems())

    def _problems(self) -> Iterator[str]:
        for rank, held in enumerate(self.stages_of):
            if not held:
                yield f"rank {rank} holds no stage"
            elif min(held) < 0 or len(set(held)) < len(held):
                yield f"rank {rank} holds the stages {', '.join(map(str, held))}; each is 0 or more, and named once"
                return
        used = {stage for held in self.stages_of for stage in held}
        missing = next((stage for stage in range(len(used)) if stage not in used), None)
        if missing is not None:
            yield f"stage {missing} is on no rank, and the last stage is {max(used)}"


def problems(placement: Placement, ranks: int) -> Sequence[str]:
    """What makes this no placement of a pipeline of so many ranks."""
    if placement.ranks != ranks:
        return [f"the placement is for {placement.ranks} ranks, the pipeline has {ranks}"]
    return placement.problems


def _checked(ranks: int, per_rank: int) -> None:
    if ranks * per_rank > MOST_STAGES:
        most = MOST_STAGES // ranks
        raise ScheduleError(
            f"{per_rank:,} stages on each of {ranks:,} ranks are more than the limit of {MOST_STAGES:,} stages; "
            f"at most {most:,} per rank"
        )


@lru_cache(KEPT)
def loop(ranks: int, virtual_stages: int = 1) -> Placement:
    """Stage s on rank s mod p. Raises ScheduleError for more stages than can be meant."""
    _checked(ranks, virtual_stages)
    return Placement("loop", tuple(tuple(range(r, ranks * virtual_stages, ranks)) for r in range(ranks)))


def v_shape(ranks: int) -> Placement:
    """Chunk 0 goes up the ranks, chunk 1 comes back down: rank r holds stages r and 2p-1-r."""
    return wave(ranks, 1)


@lru_cache(KEPT)
def wave(ranks: int, waves: int) -> Placement:
    """Hanayo's placement: ``waves`` turns of the V; chunk c goes up where c is even and down where it is odd.

    Raises ScheduleError for more stages than can be meant.
    """
    _checked(ranks, 2 * waves)
    chunks = range(2 * waves)
    return Placement(
        "v" if waves == 1 else "wave",
        tuple(tuple(c * ranks + (r if c % 2 == 0 else ranks - 1 - r) for c in chunks) for r in range(ranks)),
    )


@lru_cache(KEPT)
def bidirectional(ranks: int) -> Placement:
    """Microbatches of direction 0 enter at rank 0, of direction 1 at rank p-1: rank r holds stages r and p-1-r."""
    return Placement("bidirectional", tuple((r, ranks - 1 - r) for r in range(ranks)))


def inferred(stages_of: Iterable[Iterable[int]]) -> Placement:
    """The placement that an order file implies: what each rank runs is what it holds; a known shape where it is one."""
    sets = [set(held) for held in stages_of]
    for shape in _shapes(len(sets), len(sets[0]) if sets else 0):
        if [set(held) for held in shape.stages_of] == sets:
            return shape
    return Placement("inferred", tuple(tuple(sorted(held)) for held in sets))


def _shapes(ranks: int, per_rank: int) -> Iterator[Placement]:
    """The shapes with so many stages on the first rank."""
    yield loop(ranks, per_rank)
    if per_rank % 2 == 0:
        yield wave(ranks, per_rank // 2)
    if per_rank == 2:
        yield bidirectional(ranks)
