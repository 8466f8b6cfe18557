"""The schedule that arguments ask for, with Megatron's own rules and what works where they refuse.

Source: Megatron-LM core 0.17, pipeline_parallel/schedules.py and transformer/transformer_config.py; sail-sg's
zero-bubble-pipeline-parallelism, megatron/core/zbpp_utils.py and pipeline_parallel/zerobubble/runtime.py;
Megatron-DeepSpeed, megatron/core/pipeline_parallel/deepspeed_zbh1_schedule.py; MindSpeed for dualpipev.
"""

from __future__ import annotations

from typing import Any

from ppsim.costs.partition.layout import Split, multiples
from ppsim.formats._launch import Sizes
from ppsim.formats.megatron.layers import LAYOUT
from ppsim.formats.megatron.options import (
    CHUNKS,
    COMBINED,
    DUALPIPE,
    DUALPIPEV,
    EXPERT,
    GLOBAL,
    GROUP,
    PENDING,
    PER_CHUNK,
    SEQUENCE_SPLITS,
    V_MEMORY,
    V_SCHEDULE,
    ZB_H1,
    ZERO_BUBBLE,
)
from ppsim.formats.megatron.stages import Stages
from ppsim.schedules.interleaved_1f1b import default_group

BY_MEMORY = {"zb": "zbv", "half": "v_half", "min": "v_min"}
HALVES = ("zb", "zbv", "v_half", "v_min", "zb_h1", "dualpipe", "dualpipev")
"""Schedules that run the two halves of a backward apart."""
OWN = (V_SCHEDULE, ZERO_BUBBLE, ZB_H1, DUALPIPEV, DUALPIPE, SEQUENCE_SPLITS)
"""Arguments that ask for a schedule other than Megatron's own."""


class Scheduled(Stages):
    """Finds the schedule."""

    def schedule(self, sizes: Sizes, split: Split) -> Any:
        """As in an experiment; None, and a mistake, where there is none."""
        own = self._asked()
        if len(own) > 1 and {*own} != {V_SCHEDULE, ZERO_BUBBLE}:
            self.arguments.wrong(own[1], f"contradicts {own[0]}")
            return None
        if not own:
            return self._megatrons(sizes, split)
        if sizes.ranks < 2:
            self.arguments.wrong(own[0], "needs a pipeline of 2 or more ranks")
            return None
        if split.chunks > (2 if own[0] in (V_SCHEDULE, DUALPIPEV) else 1):
            self.arguments.wrong(own[0], "with virtual stages isn't modelled")
            return None
        if self.arguments.has(COMBINED):
            self.arguments.wrong(COMBINED, f"contradicts {own[0]}")
        return self._own(own[0], sizes)

    def _asked(self) -> list[str]:
        return [n for n in OWN if self.arguments.has(n) and (n != SEQUENCE_SPLITS or self.number(n) != 1)]

    def _own(self, name: str, sizes: Sizes) -> Any:
        """The schedule of an argument that asks for one."""
        if name == V_SCHEDULE:
            if self.arguments.has(PENDING):
                self.said.append(f"{PENDING}: the V's memory is fixed, {V_MEMORY} chooses it")
            return BY_MEMORY[self.arguments.text(V_MEMORY) or "zb"]
        if name == ZERO_BUBBLE:
            return self._zero_bubble(sizes)
        if name == SEQUENCE_SPLITS:
            return {"name": "seq1f1b", "slices": self.number(SEQUENCE_SPLITS)}
        if name in (DUALPIPE, DUALPIPEV):
            odd = name == DUALPIPE and (sizes.ranks % 2 or sizes.microbatches % 2)
            if odd or sizes.microbatches < 2 * sizes.ranks:
                least = 2 * sizes.ranks * sizes.micro_batch * sizes.data
                even = "even numbers of ranks and microbatches, and " if name == DUALPIPE else ""
                self.arguments.wrong(
                    name,
                    f"needs {even}2 microbatches or more for each of {sizes.ranks} ranks: {GLOBAL} {least} or more",
                )
                return None
        return {ZB_H1: "zb_h1", DUALPIPE: "dualpipe", DUALPIPEV: "dualpipev"}[name]

    def _zero_bubble(self, sizes: Sizes) -> Any:
        pending = self.arguments.text(PENDING) or "auto"
        if PENDING in self.arguments.unknown:
            self.number(PENDING)
            return None
        if pending.isdigit() and int(pending) > 0:
            return {"name": "zb", "max_in_flight": int(pending)}
        if pending != "auto":
            self.arguments.wrong(PENDING, f"'{pending}', where a whole number from 1 on or auto is due")
            return None
        self.said.append(
            f"{PENDING} auto: the memory that a GPU has left isn't known; {sizes.ranks}, with which the program "
            "starts, is taken; give schedule.memory_limit for another"
        )
        return {"name": "zb", "max_in_flight": sizes.ranks}

    def _megatrons(self, sizes: Sizes, split: Split) -> Any:
        """1F1B, interleaved where there are virtual stages."""
        arguments, combined = self.arguments, self.arguments.has(COMBINED)
        if combined and sizes.expert == 1:
            arguments.wrong(COMBINED, f"needs {EXPERT} of 2 or more: it hides the experts' exchange")
        if arguments.has("--delay-wgrad-compute"):
            why = f"needs {COMBINED}, inside whose pairs it moves the weight gradients"
            if combined:
                why = "weight gradients that are put off inside a fused pair aren't modelled; leave it out"
            arguments.wrong("--delay-wgrad-compute", why)
        if split.chunks == 1:
            if combined and sizes.ranks > 1:
                arguments.wrong(COMBINED, f"needs virtual stages with a pipeline, as by {CHUNKS} 2")
            elif combined:
                self.said.append(f"{COMBINED}: one rank without virtual stages is simulated as 1f1b, unfused")
            return "1f1b"
        ways = [name for name in (PER_CHUNK, CHUNKS, LAYOUT) if arguments.has(name)]
        least = 3 if arguments.has("--no-overlap-p2p-communication") else 2
        if sizes.ranks < least:
            why = " with --no-overlap-p2p-communication" if least == 3 else ""
            arguments.wrong(ways[0], f"virtual stages need a pipeline of {least} or more ranks{why}, not {sizes.ranks}")
            return None
        group = self.number(GROUP, sizes.ranks)
        if group is not None:
            self._check_group(group, sizes)
        schedule: dict[str, Any] = {"name": "interleaved_1f1b", "virtual_stages": split.chunks}
        if group != default_group(sizes.ranks, sizes.microbatches):
            schedule["group"] = group
        return {**schedule, **({"combined": True} if combined else {})}

    def _check_group(self, group: int, sizes: Sizes) -> None:
        """Megatron's own rules: p <= group <= m, and no last group smaller than p."""
        p, m = sizes.ranks, sizes.microbatches
        blamed = GROUP if self.arguments.has(GROUP) else GLOBAL
        if m < p:
            per = sizes.micro_batch * sizes.data
            self.arguments.wrong(
                GLOBAL,
                f"makes {m} microbatches, and with virtual stages Megatron needs at least the {p} of the pipeline's "
                f"ranks: a global batch of {p * per} or more",
            )
        elif not p <= group <= m:
            self.arguments.wrong(
                blamed, f"a group of {group} microbatches is not from {p} (ranks) to {m} (microbatches)"
            )
        elif 0 < m % group < p:
            near = " or ".join(str(n * sizes.micro_batch * sizes.data) for n in multiples(m, group))
            self.arguments.wrong(
                blamed,
                f"{m} microbatches in groups of {group} leave a last group of {m % group}, fewer than the {p} ranks, "
                f"which Megatron refuses; {GROUP} {default_group(p, m)} works, or a global batch of {near}",
            )
