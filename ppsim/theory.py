"""Closed forms of the literature, each with its paper and equation. They hold for equal stages.

A schedule's file names the form that holds for it. The report prints it beside the simulated value; the tests demand
that both agree wherever the form's assumptions hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction


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

    def makespan(self, sizes: Sizes) -> Fraction | None:
        """Work plus bubble, in seconds."""
        bubble = self.bubble(sizes)
        return None if bubble is None else sizes.work + bubble

    def bubble_ratio(self, sizes: Sizes) -> Fraction | None:
        """Idle / (ranks x makespan)."""
        bubble = self.bubble(sizes)
        total = sizes.work + (bubble or 0)
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


ONE_AT_A_TIME = Form("model parallelism without pipelining: utilisation 1/p (GPipe, figure 2b)", _one_at_a_time)
GPIPE = Form("(p-1)(F+B): GPipe, arXiv 1811.06965, section 2.3", _gpipe)
ONE_F_ONE_B = Form("(p-1)(F+B): Megatron-LM SC'21, arXiv 2104.04473, section 2.2.1", _one_f_one_b)
EAGER = Form("(p-1)(F+B): as 1F1B; the longer warm-up hides the links' latency", _eager)
INTERLEAVED = Form("(p-1)(F+B)/v: Megatron-LM SC'21, arXiv 2104.04473, section 2.2.2", _interleaved)
