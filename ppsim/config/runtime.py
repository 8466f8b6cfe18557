"""What the framework does, not the hardware: how it sends, when it syncs, what an op costs the host."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from ppsim import _parts
from ppsim._model import Flag, Model
from ppsim.errors import did_you_mean
from ppsim.units import Size, Time

TRANSPORTS = ["none", *_parts.names("network/transports")]


def _known_transport(name: str) -> str:
    if name not in TRANSPORTS:
        hint = did_you_mean(name, TRANSPORTS) or ";"
        raise ValueError(f"unknown transport '{name}'{hint} known: {', '.join(TRANSPORTS)}")
    return name


class Runtime(Model):
    """How the framework runs the order; a preset's name, or {preset: pytorch, …} with changes."""

    preset: Literal["ideal", "pytorch", "megatron"] = "ideal"
    """Where the values come from that aren't given."""
    send: Literal["overlapped", "blocking", "rendezvous"] = "overlapped"
    """Overlapped: buffered, the sender goes on. Blocking: its compute waits until the message has left. Rendezvous: a
    message becomes ready only when the receiver has reached its receive, too."""
    p2p: Literal["separate", "fused"] = "separate"
    """Fused: between computes a rank runs batches of sends and receives and goes on when all have arrived."""
    transport: Annotated[str, AfterValidator(_known_transport), WithJsonSchema({"enum": TRANSPORTS})] = "none"
    """What messages wait for beside that: `none`, nothing; `gloo`, what gloo's do under PyTorch."""
    receives: Literal["late", "early"] = "late"
    """Over a transport: receives are posted when they are needed, or as early as their senders' order allows."""
    eager_threshold: Size | None = None
    """Under rendezvous, messages of at most this size are buffered (default: none, be they empty)."""
    op_overhead: Time = Fraction(0)
    """What every compute op costs beside its own time."""
    grad_sync: Literal["end", "overlapped"] = "end"
    """When a stage's gradients are summed over the replicas: after the rank's last op, or right after the stage's last
    backward, beside what still runs. Of PipeDream's rounds: before the next one, or beside it."""
    barrier: Flag = True
    """Whether a step starts only when the one before has ended on every rank."""

    def for_schedule(self, before: str, after: str) -> Runtime:
        """The same runtime under another schedule: what the preset set follows the schedule, what differs stays."""
        was, becomes = preset(self.preset, before), preset(self.preset, after)
        default = {key: field.default for key, field in type(self).model_fields.items()}
        changes = {
            key: becomes[key].value if key in becomes else default[key]
            for key in was | becomes
            if getattr(self, key) == (was[key].value if key in was else default[key])
        }
        return self.model_copy(update=changes)


class Setting(NamedTuple):
    """A preset's value and what the framework does that it stands for."""

    value: object
    reason: str


# Sources: torch/distributed/pipelining/schedules.py (PyTorch 2.13); Megatron-LM core, pipeline_parallel/schedules.py,
# optimizer/optimizer.py and clip_grads.py, and megatron/training/arguments.py.
PRESETS: dict[str, dict[str, Setting]] = {
    "ideal": {},
    "pytorch": {
        "send": Setting("overlapped", "sends are posted by batch_isend_irecv and waited for when the step ends"),
        "p2p": Setting("separate", "_PipelineScheduleRuntime posts each SEND and RECV of its lowered order by itself"),
        "receives": Setting("early", "_add_send_recv puts a RECV as early as its sender's order allows"),
        "grad_sync": Setting("overlapped", "REDUCE_GRAD stands right after a stage's last backward (_add_reduce_grad)"),
        "barrier": Setting(False, "step() ends with the rank's own sends; clipping over all ranks makes it true"),
    },
    "megatron": {
        "send": Setting("overlapped", "isend and irecv are posted; overlap_p2p_comm waits for them before their use"),
        "p2p": Setting("separate", "interleaving posts receives ahead, unless --no-overlap-p2p-communication is given"),
        "grad_sync": Setting("end", "finalize_model_grads at the end, unless --overlap-grad-reduce is given"),
        "barrier": Setting(True, "the gradient norm for clipping is summed over all model-parallel ranks"),
    },
}
_OF_SCHEDULE: dict[tuple[str, str], dict[str, Setting]] = {
    ("pytorch", "gpipe"): {
        "receives": Setting("late", "ScheduleGPipe posts a receive right before its forward or backward, and waits"),
    },
    ("pytorch", "1f1b"): {
        "p2p": Setting("fused", "Schedule1F1B waits for batches: a forward's send with a backward's receive, and back"),
        "receives": Setting("late", "each is in the batch that is waited for"),
    },
    ("megatron", "1f1b"): {
        "send": Setting("overlapped", "beside the batches' own waits nothing holds a sender"),
        "p2p": Setting("fused", "without interleaving send_forward_recv_backward and its kin wait for their batch"),
    },
}


def preset(name: str, schedule: str) -> dict[str, Setting]:
    """What a preset sets where that schedule is run."""
    return {**PRESETS[name], **_OF_SCHEDULE.get((name, schedule), {})}


def expanded(value: object, schedule: str = "") -> object:
    """A preset's name, or a mapping over a preset, as settings. Raises ValueError for an unknown preset."""
    if isinstance(value, str):
        if value not in PRESETS:
            hint = did_you_mean(value, PRESETS) or ";"
            raise ValueError(f"unknown preset '{value}'{hint} known: {', '.join(PRESETS)}")
        value = {"preset": value}
    name = str(value.get("preset", "ideal")) if isinstance(value, dict) else ""
    if isinstance(value, dict) and name in PRESETS:
        return {**{key: setting.value for key, setting in preset(name, schedule).items()}, **value}
    return value


RuntimeField = Annotated[
    Runtime, BeforeValidator(expanded, json_schema_input_type=Literal["ideal", "pytorch", "megatron"] | Runtime)
]
"""A Runtime, a preset's name, or a mapping over a preset."""
