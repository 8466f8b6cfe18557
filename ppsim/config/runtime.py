"""What the framework does, not the hardware: how it sends, when it syncs, what an op costs the host."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator

from ppsim.errors import did_you_mean
from ppsim.model import Flag, Model
from ppsim.units import Size, Time


class Runtime(Model):
    """How the framework runs the order; a preset's name, or {preset: pytorch, …} with changes."""

    preset: Literal["ideal", "pytorch", "megatron"] = "ideal"
    """Where the values come from that aren't given."""
    send: Literal["overlapped", "blocking", "rendezvous"] = "overlapped"
    """Overlapped: buffered, the sender goes on. Blocking: its compute waits until the message has left. Rendezvous: a
    message becomes ready only when the receiver has reached its receive, too."""
    p2p: Literal["separate", "fused"] = "separate"
    """Fused: between computes a rank runs batches of sends and receives and goes on when all have arrived."""
    eager_threshold: Size = Fraction(0)
    """Under rendezvous, messages of at most this size are buffered."""
    op_overhead: Time = Fraction(0)
    """What every compute op costs beside its own time."""
    grad_sync: Literal["end", "overlapped"] = "end"
    """When a stage's gradients are summed over the replicas: after the rank's last op, or right after the stage's last
    backward, beside what still runs."""
    barrier: Flag = True
    """Whether a step starts only when the one before has ended on every rank."""


class Setting(NamedTuple):
    """A preset's value and what the framework does that it stands for."""

    value: object
    reason: str


PRESETS: dict[str, dict[str, Setting]] = {
    "ideal": {},
    "pytorch": {
        "send": Setting("overlapped", "schedules.py posts batch_isend_irecv and goes on; sends are waited for at the end"),
        "p2p": Setting("separate", "_PipelineScheduleRuntime posts each lowered RECV and SEND by itself"),
        "grad_sync": Setting("overlapped", "DDP's reducer fires buckets in the last backward of a stage"),
        "barrier": Setting(True, "step() returns after the last backward; the optimizer runs next"),
    },
    "megatron": {
        "send": Setting("overlapped", "p2p_communication.py uses isend/irecv in one batch"),
        "p2p": Setting("fused", "send_forward_recv_backward and its kin wait for every request of the batch"),
        "grad_sync": Setting("overlapped", "--overlap-grad-reduce starts a bucket when its last gradient is ready"),
        "barrier": Setting(True, "finalize_model_grads and the optimizer end a step on every rank"),
    },
}


def _expand(value: object) -> object:
    if isinstance(value, str):
        if value not in PRESETS:
            hint = did_you_mean(value, PRESETS) or ";"
            raise ValueError(f"unknown preset '{value}'{hint} known: {', '.join(PRESETS)}")
        value = {"preset": value}
    if isinstance(value, dict):
        preset = PRESETS.get(str(value.get("preset", "ideal")), {})
        return {**{key: setting.value for key, setting in preset.items()}, **value}
    return value


RuntimeField = Annotated[
    Runtime, BeforeValidator(_expand, json_schema_input_type=Literal["ideal", "pytorch", "megatron"] | Runtime)
]
"""A Runtime, a preset's name, or a mapping over a preset."""
