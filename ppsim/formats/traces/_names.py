"""What a span's name says: PyTorch's ``PP:2F0``, or what a user's own pattern finds."""

from __future__ import annotations

import re
from collections.abc import Callable

from ppsim.errors import FormatError, did_you_mean, printable
from ppsim.ops import NONE, Kind, Op, parse_cell

PYTORCH = "PP:"
WORDS = {
    Kind.F: "f fwd forward forward_step forward_compute fw fp",
    Kind.B: "b bwd backward backward_step backward_compute bw bp full_backward",
    Kind.I: "i input_grad backward_input dgrad bwd_input",
    Kind.W: "w wgrad weight_grad backward_weight bwd_weight",
    Kind.R: "r recompute",
    Kind.SEND_F: "send_f send_forward forward_send",
    Kind.RECV_F: "recv_f recv_forward forward_recv",
    Kind.SEND_B: "send_b send_backward backward_send",
    Kind.RECV_B: "recv_b recv_backward backward_recv",
    Kind.REDUCE_GRAD: "reduce_grad grad_reduce reduce_scatter all_reduce grads_reduce_scatter",
    Kind.OPTIM: "optim optimizer optimizer_step",
    Kind.UNSHARD: "unshard all_gather params_all_gather",
    Kind.RESHARD: "reshard",
}
KIND_OF = {word: kind for kind, words in WORDS.items() for word in words.split()}
"""What else a kind is called, in lower case with '_'."""
SINGLE_STAGE = re.compile(r"(?P<kind>Forward|Backward) (?P<microbatch>\d{1,9})", re.ASCII)
"""The spans of PyTorch's schedules with one stage per rank (Schedule1F1B, ScheduleGPipe)."""
Namer = Callable[[str], tuple[Op, ...] | None]
"""From a span's name to its ops (two of a fused pair), or None where it is no op. A stage of -1 is the rank's own."""


def pytorch(name: str) -> tuple[Op, ...] | None:
    """``PP:2F0``, ``PP:1RECV_F0``, ``PP:(7F4;0B0)OVERLAP_F_B``; an optimizer's own span."""
    if name.startswith(PYTORCH):
        try:
            return parse_cell(name[len(PYTORCH) :])
        except FormatError:
            return None
    if name.startswith("Optimizer.step#"):
        return (Op(Kind.OPTIM, NONE),)
    return None


def single_stage(name: str) -> tuple[Op, ...] | None:
    """``Forward 3``, ``Backward 3``: one stage per rank, which its rank is."""
    if match := SINGLE_STAGE.fullmatch(name):
        return (Op(Kind.F if match["kind"] == "Forward" else Kind.B, NONE, int(match["microbatch"])),)
    return None


def pattern(text: str) -> Namer:
    """A namer of a user's regular expression with groups kind, stage and microbatch, the last two optional.

    Raises FormatError where it is none, or lacks its group kind; a kind that isn't known is an error when it is met.
    """
    try:
        found = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise FormatError(f"--name: not a regular expression: {error}") from None
    if "kind" not in found.groupindex:
        raise FormatError(
            "--name: needs a group called kind, as in '(?P<kind>fwd|bwd) s(?P<stage>\\d+) m(?P<microbatch>\\d+)'"
        )
    if unknown := sorted({*found.groupindex} - {"kind", "stage", "microbatch"}):
        raise FormatError(f"--name: unknown group '{unknown[0]}'; the groups are kind, stage, microbatch")

    def name_of(name: str) -> tuple[Op, ...] | None:
        match = found.search(name)
        if match is None:
            return None
        groups = match.groupdict()
        return (Op(_kind(groups["kind"], name), _number(groups, "stage", name), _number(groups, "microbatch", name)),)

    return name_of


def _kind(word: str | None, name: str) -> Kind:
    key = (word or "").strip().lower().replace("-", "_").replace(" ", "_")
    if key not in KIND_OF:
        hint = did_you_mean(key, KIND_OF) or ";"
        raise FormatError(
            f"--name: its group kind finds '{printable(key[:40])}' in '{printable(name[:60])}'{hint} known: "
            "F, B, I, W, forward, backward, fwd, bwd, dgrad, wgrad, send_f, recv_f, …"
        )
    return KIND_OF[key]


def _number(groups: dict[str, str | None], key: str, name: str) -> int:
    text = groups.get(key)
    if text is None:
        return NONE
    if not (text.isdecimal() and len(text) < 8):
        raise FormatError(
            f"--name: its group {key} finds '{printable(text[:40])}' in '{printable(name[:60])}', not a number"
        )
    return int(text)
