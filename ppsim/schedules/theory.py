"""Closed forms of the literature, each with its paper and equation. They hold for equal stages.

A schedule's file names the form that holds for it. The report prints it beside the simulated value; the tests demand
that both agree wherever the form's assumptions hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter


@dataclass(frozen=True)
class Sizes:
    """p ranks, m microbatches, v stages per rank; times of one stage op in seconds; latency of one hop."""

    p: int
    m: int
    v: int
    forward: Fraction
    backward: Fraction
    input_grad: Fraction
    weight_grad: Fraction
    latency: Fraction = Fraction(0)
    pair: Fraction | None = None
    """Time of a fused pair, where that isn't F + B."""

    @property
    def work(self) -> Fraction:
        """What every rank computes in a step."""
        return self.m * self.v * (self.forward + self.backward)


@dataclass(frozen=True)
class Form:
    """A closed form: the idle time of a rank in one step, and where it was published.

    ``bubble(sizes)`` is in seconds; None where the form doesn't hold for these sizes.
    """

    source: str
    bubble: Callable[[Sizes], Fraction | None]
    work: Callable[[Sizes], Fraction] = attrgetter("work")

    def makespan(self, sizes: Sizes) -> Fraction | None:
        """Work plus bubble, in seconds."""
        bubble = self.bubble(sizes)
        return None if bubble is None else self.work(sizes) + bubble

    def bubble_ratio(self, sizes: Sizes) -> Fraction | None:
        """Idle / (ranks x makespan)."""
        bubble = self.bubble(sizes)
        total = self.work(sizes) + (bubble or 0)
        return None if bubble is None or not total else bubble / total


def _one_at_a_time(s: Sizes) -> Fraction | None:
    return (s.p - 1) * s.work + 2 * s.m * (s.p - 1) * s.latency


def _gpipe(s: Sizes) -> Fraction | None:
    return (s.p - 1) * (s.forward + s.backward) + 2 * (s.p - 1) * s.latency


def _one_f_one_b(s: Sizes) -> Fraction | None:
    bubble = (s.p - 1) * (s.forward + s.backward)
    if not s.latency or s.p == 1:
        return bubble
    # Each further microbatch pays 2c(p-1)/p for ever; exact where p divides m.
    return None if s.m % s.p else bubble + 2 * s.latency * (Fraction(s.m * (s.p - 1), s.p) + s.p - 2)


def _eager(s: Sizes) -> Fraction | None:
    # With twice the warm-up the steady state hides a latency that is no longer than half a round.
    if s.latency and 2 * s.latency > s.forward + s.backward:
        return None
    return _gpipe(s)


def _interleaved(s: Sizes) -> Fraction | None:
    if s.m < s.p or (s.latency and (s.m % s.p or s.latency > s.forward)):
        return None
    if s.v == 1:
        return _one_f_one_b(s)
    hops = 2 * (s.p * s.v - 1) if s.p > 1 else 0
    return (s.p - 1) * (s.forward + s.backward) + hops * s.latency


def _combined(s: Sizes) -> Fraction | None:
    return _interleaved(s) if s.pair in (None, s.forward + s.backward) and (not s.latency or s.p == 1) else None


def _breadth_first(s: Sizes) -> Fraction | None:
    # A stage's last microbatches hide the way back to the first rank, where there are enough of them.
    if s.m < s.p or (s.latency and s.v > 1 and (s.m - s.p) * min(s.forward, s.backward) < s.p * s.latency):
        return None
    return _gpipe(s)


def _slices(s: Sizes) -> Fraction | None:
    return (s.p - 1) * (s.forward + s.backward) if not s.latency or s.p == 1 else None


def _zb_1p(s: Sizes) -> Fraction | None:
    # Whichever lies between a rank's first I and the next one's: F, I, or both less the W that fits in between.
    if s.latency and s.p > 1:
        return None
    if s.m < s.p:
        short = s.v == 1 and s.weight_grad <= min(s.forward, s.input_grad)
        return (s.p - 1) * (s.forward + s.input_grad) - (s.m - 1) * s.weight_grad if short else None
    return (s.p - 1) * max(s.forward, s.input_grad, s.forward + s.input_grad - s.weight_grad)


def _zb_v(s: Sizes) -> Fraction | None:
    # The fixed turns fit where F <= I and W <= I; what I is longer than F and W together is idle at the end.
    longest = max(s.forward, s.weight_grad)
    if s.m < 2 * s.p - 1 or longest > s.input_grad or (s.latency and s.p > 1):
        return None
    return (s.p - 1) * max(s.input_grad, 2 * (s.input_grad - s.weight_grad))


def _dual_pipe(s: Sizes, half: int) -> Fraction | None:
    # F&B + B - 3W where F = I; where F > I the order's own backwards are hidden, its forwards are not.
    if s.input_grad > s.forward or s.pair not in (None, s.forward + s.backward) or (s.latency and s.p > 1):
        return None
    return (half - 1) * (2 * s.forward + max(s.input_grad - s.weight_grad, Fraction(0)))


def _dual_pipe_two_way(s: Sizes) -> Fraction | None:
    return None if s.p % 2 or s.m < 2 * s.p else _dual_pipe(s, s.p // 2)


def _dual_pipe_v(s: Sizes) -> Fraction | None:
    return None if s.m < 2 * s.p else _dual_pipe(s, s.p)


def _units(s: Sizes, turn: int) -> Fraction | None:
    # Between two units of p microbatches only what backward and forward differ by is idle.
    if s.m % s.p or (s.latency and s.p > 1):
        return None
    longer, difference = max(s.forward, s.backward), abs(s.backward - s.forward)
    return turn * (longer + (s.m // s.p - 1) * difference)


def _chimera(s: Sizes) -> Fraction | None:
    return _units(s, s.p - 2) if s.p % 2 == 0 else None


def _hanayo(s: Sizes) -> Fraction | None:
    # As its figure 2 draws it. The ratio printed there has half of this idle time in its denominator, all in its
    # numerator, so that for one wave and m = p = 4 it is 6/15 where idle / all time is 6/18.
    return _units(s, 2 * (s.p - 1))


def _forward_only(s: Sizes) -> Fraction | None:
    return (s.p - 1) * (s.forward + s.latency)


ONE_AT_A_TIME = Form("model parallelism without pipelining: utilisation 1/p (GPipe, figure 2b)", _one_at_a_time)
GPIPE = Form("(p-1)(F+B): GPipe, arXiv 1811.06965, section 2.3", _gpipe)
ONE_F_ONE_B = Form("(p-1)(F+B): Megatron-LM SC'21, arXiv 2104.04473, section 2.2.1", _one_f_one_b)
EAGER = Form("(p-1)(F+B): as 1F1B; the longer warm-up hides the links' latency", _eager)
INTERLEAVED = Form("(p-1)(F+B)/v: Megatron-LM SC'21, arXiv 2104.04473, section 2.2.2", _interleaved)
COMBINED = Form("(p-1)(F+B)/v: as interleaved, where a fused pair takes F+B", _combined)
BREADTH_FIRST = Form("(p-1)(F+B)/v: Lamy-Poirier, arXiv 2211.05953, section 4", _breadth_first)
SLICES = Form("(p-1)(F+B)/k: Seq1F1B, arXiv 2406.03488, section 3 (k equal slices)", _slices)
ZB_1P = Form("(p-1)(F+I-W)/v for W <= F, I: Zero Bubble (ZB-H1), arXiv 2401.10241, table 2", _zb_1p)
ZB_V = Form("(p-1)F before a rank's span, none inside, for F = I = W: Zero Bubble, arXiv 2401.10241, section 6", _zb_v)
DUALPIPE = Form("(p/2-1)(F&B+B-3W) for F = I: deepseek-ai/DualPipe, README", _dual_pipe_two_way)
DUALPIPE_V = Form("(p-1)(F&B+B-3W) for F = I: deepseek-ai/DualPipe, README, for p devices", _dual_pipe_v)
CHIMERA = Form("(p-2)B in a unit of p microbatches: Chimera, arXiv 2107.06925, table 2", _chimera)
HANAYO = Form("(p-1)B/waves in a unit of p microbatches, B a rank's: Hanayo, arXiv 2308.15762, figure 2", _hanayo)
FORWARD_ONLY = Form("(p-1)F: pipeline of p equal steps", _forward_only, lambda s: s.m * s.v * s.forward)
