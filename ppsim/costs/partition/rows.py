"""What people count as layers, and the rows that a model has: its embedding and its head are rows, too.

A split that people write counts transformer layers (of a profile: its rows). The embedding comes with the first stage,
multi-token prediction and the head with the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ppsim.costs.layers import LayerCosts
from ppsim.costs.partition.layout import SplitError, from_layout, layout_of, nearly_equal

EMBEDDING, PREDICTION, HEAD = "embedding", "mtp", "head"
"""Names of rows that aren't transformer layers."""
LAYERS = "the model's number of layers"


class Rows(NamedTuple):
    """The rows of a model: its embedding (0 or 1), layers, multi-token prediction layers, and head (0 or 1)."""

    embedding: int
    layers: int
    extra: int
    head: int

    @classmethod
    def of(cls, costs: LayerCosts) -> Rows:
        """Those of a model's layers."""
        names = [layer.name for layer in costs.layers]
        embedding, head = int(names[:1] == [EMBEDDING]), int(names[-1:] == [HEAD])
        extra = names.count(PREDICTION)
        return cls(embedding, len(names) - embedding - head - extra, extra, head)

    @property
    def total(self) -> int:
        """All rows."""
        return sum(self)

    def with_ends(self, layers: Sequence[int], extra: Sequence[int] | None = None) -> tuple[int, ...]:
        """Rows per stage for so many layers, and prediction layers (default: all on the last stage)."""
        counts = list(layers)
        for stage, more in enumerate(extra or [*(0,) * (len(counts) - 1), self.extra]):
            counts[stage] += more
        counts[0] += self.embedding
        counts[-1] += self.head
        return tuple(counts)

    def layers_of(self, split: Sequence[int]) -> list[int]:
        """Layers per stage, prediction layers among them, of so many rows per stage."""
        counts = list(split)
        counts[0] -= self.embedding
        counts[-1] -= self.head
        return counts

    def written(self, split: Sequence[int]) -> str:
        """A split as people write it: a list, or a layout where a list can't say it."""
        counts = self.layers_of(split)
        if not self.extra or sum(counts[:-1]) <= self.layers:
            counts[-1] -= self.extra
            return f"[{', '.join(map(str, counts))}]"
        return f"'{self.layout(split)}'"

    def layout(self, split: Sequence[int]) -> str:
        """A split as a Megatron layout."""
        layers, extra, left = [], [], self.layers
        for count in self.layers_of(split):
            layers.append(min(count, left))
            extra.append(count - layers[-1])
            left -= layers[-1]
        return layout_of(layers, extra)


def uniform(rows: Rows, stages: int) -> tuple[int, ...]:
    """As many layers on every stage. Raises SplitError, with two splits that work, where they don't divide."""
    each, more = divmod(rows.layers, stages)
    if more or not each:
        raise SplitError(uneven(rows.layers, stages))
    return rows.with_ends([each] * stages)


def uneven(layers: int, stages: int) -> str:
    """Why so many layers can't be shared out evenly, and what works."""
    if layers < stages:
        return f"{layers} layers are too few for {stages} stages, each of which needs one; at most {layers} stages"
    each, more = divmod(layers, stages)
    early = [each + (stage < more) for stage in range(stages)]
    ways = dict.fromkeys(tuple(split) for split in (early, nearly_equal(layers, stages), early[::-1]))
    splits = " or ".join(f"[{', '.join(map(str, split))}]" for split in list(ways)[:2])
    return (
        f"{layers} layers on {stages} stages: {stages} x {each} = {stages * each}, {more} would be lost; give a split, "
        f"as 'partition: {splits}', or 'partition: balanced'"
    )


def largest_v(layers: int, ranks: int, stages: int) -> str:
    """What to do where stages per rank make more stages than there are layers: the most that a rank may have."""
    if layers >= stages or stages <= ranks or layers < ranks:
        return ""
    return f": schedule.virtual_stages at most {layers // ranks}, not {stages // ranks}"


def listed(rows: Rows, counts: Sequence[int], stages: int) -> tuple[int, ...]:
    """So many layers per stage; a sum with the prediction layers counts them as the last ones."""
    text = f"[{', '.join(map(str, counts[:64]))}{', …' if len(counts) > 64 else ''}]"
    if len(counts) != stages:
        raise SplitError(f"the list has {len(counts)} values, there are {stages} stages")
    if wrong := [stage for stage, count in enumerate(counts) if count < 0]:
        raise SplitError(f"stage {wrong[0]} has {counts[wrong[0]]} layers; 0 or more")
    due = {rows.layers, rows.layers + rows.extra}
    if sum(counts) not in due:
        with_extra = f" ({rows.layers + rows.extra} with multi-token prediction)" if rows.extra else ""
        example = [rows.layers // stages + (s < rows.layers % stages) for s in range(stages)]
        raise SplitError(
            f"{text} adds up to {sum(counts)} layers, the model has {rows.layers}{with_extra}; "
            f"[{', '.join(map(str, example))}] does"
        )
    if sum(counts) == rows.layers:
        return rows.with_ends(counts)
    return rows.with_ends(counts, [0] * stages)


def laid_out(rows: Rows, layout: str, ranks: int, stages: int) -> tuple[int, ...]:
    """As a Megatron layout says."""
    split = from_layout(layout, rows.layers, ranks, rows.extra, (LAYERS, "its number of prediction layers"))
    if len(split.layers) != stages:
        raise SplitError(f"the layout has {len(split.layers)} stages, the schedule {stages} on {ranks} ranks")
    return rows.with_ends(split.layers, split.extra)
