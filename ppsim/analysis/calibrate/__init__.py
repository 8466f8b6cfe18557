"""Measurements into settings: constants from step times, a link from messages. Needs SciPy (extra ``fit``)."""

from ppsim.analysis.calibrate.fit import Calibration, calibrated
from ppsim.analysis.calibrate.link import LinkFit, LinkRuns

__all__ = ["Calibration", "LinkFit", "LinkRuns", "calibrated"]
