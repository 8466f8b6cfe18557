"""Which layers each stage gets, and which of them run their forward again."""

from __future__ import annotations

from collections.abc import Sequence

from ppsim.costs.partition.layout import MAX_STAGES, Split, SplitError, from_layout, multiples
from ppsim.formats.megatron import layers as sharing
from ppsim.formats.megatron.layers import FIRST, LAST, LAYOUT
from ppsim.formats.megatron.options import (
    CHUNKS,
    COMBINED,
    DUALPIPEV,
    EMBEDDING,
    EXTRA,
    GRANULARITY,
    LAYERS,
    LOSS,
    METHOD,
    PADDING,
    PER_CHUNK,
    PIPELINE,
    RECOMPUTED_LAYERS,
    V_SCHEDULE,
)
from ppsim.formats.megatron.values import Values


class Stages(Values):
    """Shares layers out as Megatron does."""

    def split(self) -> Split | None:
        """Layers of each stage, or None and mistakes."""
        arguments = self.arguments
        layers, ranks, extra = self.required(LAYERS), self.number(PIPELINE, 1), self.number(EXTRA, 0)
        ways = [name for name in (PER_CHUNK, CHUNKS, LAYOUT) if arguments.names(name)]
        ends = [name for name in (FIRST, LAST) if arguments.names(name)]
        counted = [name for name in (EMBEDDING, LOSS) if arguments.has(name)]
        v_shaped = next((name for name in (V_SCHEDULE, DUALPIPEV) if arguments.has(name)), None)
        clashes = [ways[:2], [LAYOUT, *ends, *counted] if LAYOUT in ways else [], [*ends, *counted] if ends else []]
        clashes.append([*ways, v_shaped] if ways and v_shaped else [])
        if PER_CHUNK in ways and ends:
            arguments.wrong(PER_CHUNK, f"contradicts {ends[0]}; give {CHUNKS} in its place")
        for names in clashes:
            if len(names) > 1 and names != ends:
                arguments.wrong(names[0], f"contradicts {names[1]}; Megatron takes only one of them")
        for name in (*ways, *ends):
            self.number(name) if name != LAYOUT or name in arguments.unknown else None
        if layers is None or ranks is None or extra is None:
            return None
        if {*ways, *ends, PIPELINE, EXTRA} & {*arguments.spoilt, *arguments.unknown}:
            return None
        blamed = LAYOUT if LAYOUT in ways else ends[0] if ends else (ways or [LAYERS])[0]
        if layers > MAX_STAGES or ranks * (self.number(CHUNKS, 1) or 1) > MAX_STAGES:
            arguments.wrong(blamed, f"more than {MAX_STAGES:,} layers or stages")
            return None
        try:
            return self.shares(layers, ranks, extra)
        except SplitError as error:
            arguments.wrong(blamed, str(error))
            return None

    def shares(self, layers: int, ranks: int, extra: int) -> Split:
        """The layers on stages. Raises SplitError where they can't be shared out as the arguments say."""
        arguments = self.arguments
        first, last = self.number(FIRST), self.number(LAST)
        embedding, loss = arguments.has(EMBEDDING), arguments.has(LOSS)
        chunks = self.number(CHUNKS, 1) or 1
        if arguments.has(LAYOUT):
            return from_layout(arguments.text(LAYOUT).strip("'\""), layers, ranks, extra)
        if arguments.has(V_SCHEDULE) or arguments.has(DUALPIPEV):
            chunks = 2
            if layers % (2 * ranks) and not arguments.has(PADDING):
                near = " or ".join(map(str, multiples(layers, 2 * ranks)))
                raise SplitError(f"{layers} layers on {ranks} ranks with two stages each, a V: {LAYERS} {near} works")
        elif first is not None or last is not None:
            return sharing.uneven(layers, ranks, chunks, (first, last), extra)
        elif (per_chunk := self.number(PER_CHUNK)) is not None:
            chunks = sharing.chunks_of(layers, ranks, per_chunk, embedding + loss)
        if arguments.has(PADDING) and layers % (ranks * chunks):
            return self._padded(layers, ranks, chunks, extra)
        return sharing.even(layers, ranks, chunks, (embedding, loss), extra)

    def _padded(self, layers: int, ranks: int, chunks: int, extra: int) -> Split:
        """As many more layers as make it come out even; the last stage leaves one out, then those from the first on."""
        padding = -layers % ranks
        per_rank = (layers + padding) // ranks
        if per_rank % chunks:
            raise SplitError(
                f"{layers + padding} layers, padded, are {per_rank} per rank, which can't be {chunks} stages"
            )
        counts = [per_rank // chunks] * (ranks * chunks)
        for left_out in range(-1, padding - 1):
            counts[left_out] -= 1
        return Split(tuple(counts), (*(0,) * (len(counts) - 1), extra), ranks)

    def recomputed(self, held: Sequence[int]) -> list[int] | None:
        """Layers of each stage whose forward is run again; None where none is."""
        arguments = self.arguments
        granularity = self._granularity()
        if granularity == "selective":
            for name in (METHOD, RECOMPUTED_LAYERS):
                if arguments.has(name):
                    arguments.wrong(name, "contradicts selective recomputation; leave it out")
        if granularity != "full":
            return None
        self.number(METHOD) if METHOD in arguments.unknown else None
        method = arguments.text(METHOD)
        if not (arguments.names(METHOD) or arguments.has("--checkpoint-activations") or arguments.has(COMBINED)):
            arguments.wrong(GRANULARITY, "full needs --recompute-method uniform or block")
        if method in ("", "uniform"):
            return [*held]
        count = self.number(RECOMPUTED_LAYERS, 1) or 0
        if count and any(layers > count for layers in held):
            self.said.append(
                f"{METHOD} block: {count} layers of each stage are run again, as costs.recompute says; what their "
                "activations save in memory is yours to give (costs.activation, costs.stage_input)"
            )
        return [min(count, layers) for layers in held] if count else None

    def _granularity(self) -> str | None:
        arguments = self.arguments
        old = arguments.has(METHOD) and arguments.given[METHOD].spelt.startswith("--act")
        if arguments.has("--checkpoint-activations") or old:
            return "full"
        if arguments.has("--recompute-activations"):
            return "selective"
        if GRANULARITY in arguments.unknown:
            self.number(GRANULARITY)
        return arguments.text(GRANULARITY) or None
