"""Pictures of a history: each function draws on `ax`, or on new axes, and returns them.

Histories come from `braided.record`. Where several are taken, those of one name are seeds of one model: their mean is
drawn, and a band of one standard deviation around it. Matplotlib is an extra, and is imported when something is drawn.

Examples
--------
>>> import braided
>>> from braided import plot
>>> from river import datasets, dummy
>>> history = braided.record(braided.MODLClassifier(), datasets.Phishing(), name="modl")
>>> floor = braided.record(dummy.PriorClassifier(), datasets.Phishing(), name="prior")
>>> axes = plot.error([history, floor], windowed=True)
>>> axes.get_ylabel()
'errors in the last 100 records'
"""

from __future__ import annotations

from braided.report.plot.classes import calibration, confusion
from braided.report.plot.errors import error, learners
from braided.report.plot.over_time import availability, coverage, failures, shares, throughput
from braided.report.plot.posterior import weights

__all__ = [
    "availability", "calibration", "confusion", "coverage", "error", "failures", "learners", "shares", "throughput",
    "weights",
]  # fmt: skip
