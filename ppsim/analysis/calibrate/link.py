"""A link's latency and bandwidth from measured times of messages or collectives over a range of sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from ppsim.errors import FormatError
from ppsim.units import show

STEPS = {
    "all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "broadcast": 1, "reduce": 1, "alltoall": 0, "alltoallv": 0,
    "gather": 0, "scatter": 0, "sendrecv": 0,
}  # fmt: skip
"""Messages, each with a latency, that follow one another in a ring of n: so many times n-1, or 0: one.

Source: Thakur et al. 2005, section 4.
"""
ZERO = Fraction(0)
DIGITS = 4
"""Digits that a measured value is given with."""


@dataclass(frozen=True)
class LinkRuns:
    """Times of one collective, or of messages, on some devices: seconds by size in bytes."""

    times: Sequence[tuple[int, Fraction]]
    collective: str | None = None
    """Which, as ``STEPS`` names them; None where the file doesn't tell."""
    factor: Fraction = Fraction(1)
    """Bytes that each device sends over the size: 2 (n-1)/n of an all-reduce."""
    devices: int | None = None
    nodes: int | None = None

    def at_least(self, size: Fraction) -> LinkRuns:
        """The runs of that size or more."""
        return replace(self, times=[(each, seconds) for each, seconds in self.times if each >= size])


@dataclass(frozen=True)
class LinkFit:
    """What was fitted: a collective of size S takes steps · latency + factor · S / bandwidth."""

    runs: LinkRuns
    steps: int
    latency: Fraction
    """Seconds of a message."""
    bandwidth: Fraction
    """Bytes/s, one way."""

    def seconds(self, size: int) -> Fraction:
        """What the fit gives for a size."""
        return self.steps * self.latency + self.runs.factor * size / self.bandwidth

    @property
    def residuals(self) -> list[float]:
        """Fitted over measured time, less one, per size."""
        return [float(self.seconds(size) / seconds) - 1 for size, seconds in self.runs.times]

    @property
    def key(self) -> str:
        """The link of a cluster that was measured: between nodes, where there were several."""
        return "inter_node" if (self.runs.nodes or 1) > 1 else "intra_node"

    def row(self) -> dict[str, str]:
        """The link as a config's mapping."""
        return {"bandwidth": show(self.bandwidth, "bandwidth"), "latency": show(self.latency, "time")}

    def text(self, label: str) -> str:
        """The link as a config has it, and above it what it was fitted to."""
        summary = self.summary()
        sizes = [size for size, _ in self.runs.times]
        what = f"{self.runs.collective or 'a collective'}" + (f" of {self.runs.devices}" if self.runs.devices else "")
        return (
            f"# {what}, {len(sizes)} sizes from {show(Fraction(min(sizes)), 'size')} to "
            f"{show(Fraction(max(sizes)), 'size')}, {label}: residuals {summary['mean_abs_residual']:.1%} on average, "
            f"at most {summary['max_abs_residual']:.1%}\n"
            f"{self.key}: {{{', '.join(f'{key}: {value}' for key, value in self.row().items())}}}\n"
        )

    def summary(self) -> dict[str, Any]:
        """All of it as plain data; keys end in their unit."""
        residuals = self.residuals
        return {
            "collective": self.runs.collective,
            "devices": self.runs.devices,
            "nodes": self.runs.nodes,
            "steps": self.steps,
            "bytes_factor": float(self.runs.factor),
            "latency_s": float(self.latency),
            "bandwidth_bytes_per_s": float(self.bandwidth),
            "mean_abs_residual": sum(map(abs, residuals)) / len(residuals),
            "max_abs_residual": max(map(abs, residuals)),
            "sizes": [
                {
                    "bytes": size,
                    "measured_s": float(seconds),
                    "fitted_s": float(self.seconds(size)),
                    "residual": residual,
                }
                for (size, seconds), residual in zip(self.runs.times, residuals, strict=True)
            ],
        }


def fit(runs: LinkRuns) -> LinkFit:
    """Latency and bandwidth with the least squares of relative residuals; a latency below zero is zero.

    Raises FormatError where the times don't tell a bandwidth: one size alone, or times that don't grow.
    """
    if len({size for size, _ in runs.times}) < 2:
        raise FormatError(
            "one size alone doesn't tell latency from bandwidth; measure at least two, e.g. -b 8 -e 1G -f 2"
        )
    # Each time t of a size s asks that (alpha + beta s) / t = 1: the normal equations, exact.
    ones = [(1 / seconds, size / seconds) for size, seconds in runs.times]
    a1, b1 = sum((a for a, _ in ones), ZERO), sum((b for _, b in ones), ZERO)
    aa, ab, bb = (sum((x[i] * x[j] for x in ones), ZERO) for i, j in ((0, 0), (0, 1), (1, 1)))
    determinant = aa * bb - ab * ab
    alpha, beta = (a1 * bb - b1 * ab) / determinant, (aa * b1 - ab * a1) / determinant
    if alpha < 0:
        alpha, beta = Fraction(0), b1 / bb
    if beta <= 0:
        raise FormatError("the times don't grow with the size: there is no bandwidth in them; measure larger sizes")
    steps = 1
    if runs.collective in STEPS and runs.devices is not None and runs.devices > 1:
        steps = STEPS[runs.collective] * (runs.devices - 1) or 1
    return LinkFit(runs, steps, _rounded(alpha / steps), _rounded(runs.factor / beta))


def _rounded(value: Fraction) -> Fraction:
    """The value to a few digits, so that what is printed is what was fitted."""
    return Fraction(f"{float(value):.{DIGITS - 1}e}")
