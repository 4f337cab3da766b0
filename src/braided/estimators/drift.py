"""Watching for drift: a detector is fed the model's own errors, and what it finds makes the model more plastic.

River's detectors are imported where they are needed: with what they bring along, that takes longer than all of braided.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Mapping
from functools import cache
from typing import Any

from river import base

from braided import checks
from braided.errors import BraidedError
from braided.store import REMEDY, checked, pack_name, unpack_name

Detector = base.DriftDetector | base.BinaryDriftDetector

#: Names on the command line.
DETECTORS = ("adwin", "page-hinkley", "ddm", "eddm", "fhddm", "hddm-a", "hddm-w")

#: An error counts for no more than this many standard deviations of the target.
LARGEST = 10.0
#: Rates of the two running means of the error; a report while errors become fewer is not followed.
_RECENT, _USUAL = 1 / 64, 1 / 1_024
#: A restored detector is tried on this many answers; it may allocate as many numbers as a setting of it says.
_TRIED, _MAX_SETTING = 100, 1_000_000
_WHAT = "the checkpoint's watch for drift"


@cache
def _kinds() -> dict[str, Any]:
    """Those that have a name: a checkpoint holds no others, and no others are made on reading."""
    from river import drift
    from river.drift.binary import DDM, EDDM, FHDDM, HDDMA, HDDMW

    kinds = (drift.ADWIN, drift.PageHinkley, DDM, EDDM, FHDDM, HDDMA, HDDMW)
    return dict(zip(DETECTORS, kinds, strict=True))


def build(name: str) -> Detector:
    """The detector of that name, with River's own settings; Page-Hinkley looks for growing errors alone.

    >>> type(build("adwin")).__name__
    'ADWIN'
    """
    checks.choice("drift detector", name, DETECTORS)
    made: Detector = _kinds()[name](**({"mode": "up"} if name == "page-hinkley" else {}))
    return made


class Watch:
    """A detector at work, and how often it was followed.

    `detector` is any of River's, and is copied. For `regression` it is fed absolute errors in standard deviations of
    the target, else 0 and 1. Some detectors report any change of the error, and a model that has just learned something
    errs less. Two running means of the error, over some 64 and some 1,024 records, show which way it went: only a
    report while the recent one is above the usual one is a drift.

    Examples
    --------
    >>> from river import drift
    >>> watch = Watch(drift.binary.DDM(), regression=False)
    >>> errors = [i % 10 == 0 for i in range(500)] + [i % 2 == 0 for i in range(100)]
    >>> [i for i, wrong in enumerate(errors) if watch.update(float(wrong))]
    [534]
    """

    def __init__(self, detector: Detector, regression: bool) -> None:
        name, self._binary = type(detector).__name__, isinstance(detector, base.BinaryDriftDetector)
        if not isinstance(detector, Detector):
            raise BraidedError(f"drift_detector is {name}: give one of River's, such as river.drift.ADWIN()")
        if regression and self._binary:
            raise BraidedError(
                f"drift_detector {name} takes right and wrong answers: for regression use one that takes numbers, such "
                "as river.drift.ADWIN() or PageHinkley()"
            )
        self.detector: Any = detector.clone()
        self.drifts = self.seen = 0
        self.recent = self.usual = 0.0

    def update(self, error: float) -> bool:
        """Take in the error of one record; whether it shows a drift to react to."""
        error = min(error, LARGEST)
        self.seen += 1
        self.recent += max(1.0 / self.seen, _RECENT) * (error - self.recent)
        self.usual += max(1.0 / self.seen, _USUAL) * (error - self.usual)
        # Of River's binary detectors FHDDM counts what was right.
        self.detector.update(bool(error) != (type(self.detector).__name__ == "FHDDM") if self._binary else error)
        found = bool(self.detector.drift_detected) and self.recent > self.usual
        self.drifts += found
        return found

    def state(self) -> dict[str, Any]:
        """Everything, as JSON."""
        numbers = {"drifts": self.drifts, "seen": self.seen, "recent": self.recent, "usual": self.usual}
        return {"detector": pack(self.detector), **numbers}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over a `state`."""
        detector = restored_detector(state.get("detector"))
        if type(detector) is not type(self.detector):
            raise BraidedError(f"{_WHAT} has a detector of another kind than its model: {REMEDY}")
        self.seen = checked(_WHAT, state, "seen", int)
        self.drifts = checked(_WHAT, state, "drifts", int, 0, self.seen)
        self.recent, self.usual = (checked(_WHAT, state, name, float, 0, LARGEST) for name in ("recent", "usual"))
        self.detector = detector


def pack(detector: Detector) -> dict[str, Any]:
    """A detector as JSON that gives back the same bits."""
    names = {kind: name for name, kind in _kinds().items()}
    if type(detector) not in names:
        raise BraidedError(
            f"the drift detector is a {type(detector).__name__}, which cannot be written to a checkpoint: use one of "
            f"{', '.join(kind.__name__ for kind in names)}, or pickle the model"
        )
    return {"kind": names[type(detector)], "parts": _packed(detector)}


def _packed(part: Any) -> Any:
    if hasattr(part, "__dict__"):  # methods among its parts are the constructor's to set
        return {name: _packed(own) for name, own in vars(part).items() if not callable(own)}
    if hasattr(part, "__setstate__"):  # compiled
        return base64.b64encode(part.__getstate__()).decode()
    if isinstance(part, float):  # a least error so far may be infinite
        return {"float": part.hex()}
    return pack_name(tuple(part) if isinstance(part, deque) else part)


def restored_detector(packed: Any) -> Detector:
    """The inverse of `pack`; whether a changed file gives a detector that works can only be tried."""
    try:
        found: Detector = _unpacked(packed)
        for tried in (_unpacked(packed), found.clone()):
            for i in range(_TRIED):
                tried.update(i % 3 == 0)
                bool(tried.drift_detected)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # compiled detectors panic on bytes that are not theirs, and a panic is no Exception
        raise BraidedError(f"the checkpoint's drift detector cannot be used: {REMEDY}") from None
    return found


def _unpacked(packed: Any) -> Any:
    with_settings = _fill(_kinds()[packed["kind"]](), packed["parts"])
    if any(isinstance(value, int) and value > _MAX_SETTING for value in with_settings._get_params().values()):
        raise ValueError(packed)
    return _fill(with_settings.clone(), packed["parts"])


def _fill(owner: Any, parts: Mapping[str, Any]) -> Any:
    """A fresh object with these parts; it has all of them already, and takes no others."""
    for name, part in parts.items():
        fresh = vars(owner)[name]
        if hasattr(fresh, "__dict__"):
            _fill(fresh, part)
        elif hasattr(fresh, "__setstate__"):
            fresh.__setstate__(base64.b64decode(part))
        elif isinstance(part, dict) and "float" in part:
            setattr(owner, name, float.fromhex(part["float"]))
        else:
            found: Any = unpack_name(part)  # a deque is of right and wrong answers
            setattr(owner, name, deque(map(bool, found), fresh.maxlen) if isinstance(fresh, deque) else found)
    return owner
