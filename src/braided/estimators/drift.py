"""Watching for drift: a detector is fed the model's own errors, and what it finds makes the model more plastic.

River's detectors are imported where they are needed: with what they bring along, that takes longer than all of braided.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Mapping
from functools import cache
from types import MethodType
from typing import Any

from river import base

from braided import checks
from braided.errors import BraidedError

Detector = base.DriftDetector | base.BinaryDriftDetector

#: Names on the command line.
DETECTORS = ("adwin", "page-hinkley", "ddm", "eddm", "fhddm", "hddm-a", "hddm-w")

#: An error counts for no more than this many standard deviations of the target.
LARGEST = 10.0
#: Rates of the two running means of the error; a report while the errors grow fewer is not followed.
_RECENT, _USUAL = 1 / 64, 1 / 1_024
#: So many answers a restored detector is tried with.
_TRIED = 100


def build(name: str) -> Detector:
    """The detector of that name, with River's own settings; Page-Hinkley looks for growing errors alone.

    >>> type(build("adwin")).__name__
    'ADWIN'
    """
    checks.choice("drift detector", name, DETECTORS)
    from river import drift

    if name == "adwin":
        return drift.ADWIN()
    if name == "page-hinkley":
        return drift.PageHinkley(mode="up")
    made: Detector = getattr(drift.binary, name.replace("-", "").upper())()
    return made


class Watch:
    """A detector at work, and how often it was followed.

    Some detectors report any change of the error, and a model that has just learned something errs less. Two running
    means of the error, over some 64 and some 1,024 records, tell which way it went: only a report while the recent one
    is above the usual one is a drift.

    Parameters
    ----------
    detector
        Any of River's; it is copied.
    regression
        Whether it is fed absolute errors in standard deviations of the target, or 0 and 1.

    Examples
    --------
    >>> from river import drift
    >>> watch = Watch(drift.binary.DDM(), regression=False)
    >>> errors = [i % 10 == 0 for i in range(500)] + [i % 2 == 0 for i in range(100)]
    >>> [i for i, wrong in enumerate(errors) if watch.update(float(wrong))]
    [534]
    """

    def __init__(self, detector: Detector, regression: bool) -> None:
        if not isinstance(detector, base.DriftDetector | base.BinaryDriftDetector):
            raise BraidedError(
                f"drift_detector is {type(detector).__name__}: give one of River's, such as river.drift.ADWIN()"
            )
        self._binary = isinstance(detector, base.BinaryDriftDetector)
        if regression and self._binary:
            raise BraidedError(
                f"drift_detector {type(detector).__name__} takes right and wrong answers: for regression use one that "
                "takes numbers, such as river.drift.ADWIN() or PageHinkley()"
            )
        self.detector: Any = detector.clone()
        self.drifts = 0
        self.seen = 0
        self.recent = 0.0
        self.usual = 0.0

    def update(self, error: float) -> bool:
        """Take in the error of one record; whether it shows a drift to react to."""
        error = min(error, LARGEST)
        self.seen += 1
        self.recent += max(1.0 / self.seen, _RECENT) * (error - self.recent)
        self.usual += max(1.0 / self.seen, _USUAL) * (error - self.usual)
        if self._binary:
            # Of River's binary detectors this one counts what was right.
            self.detector.update(bool(error) != (type(self.detector).__name__ == "FHDDM"))
        else:
            self.detector.update(error)
        found = bool(self.detector.drift_detected) and self.recent > self.usual
        self.drifts += found
        return found

    def state(self) -> dict[str, Any]:
        """Everything, as JSON."""
        numbers = {"drifts": self.drifts, "seen": self.seen, "recent": self.recent, "usual": self.usual}
        return {"detector": pack(self.detector), **{name: pack(value) for name, value in numbers.items()}}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over a `state`."""
        detector = unpack(state.get("detector"))
        drifts, seen, recent, usual = (unpack(state.get(name)) for name in ("drifts", "seen", "recent", "usual"))
        counts = type(drifts) is int and type(seen) is int and 0 <= drifts <= seen
        means = all(type(mean) is float and 0.0 <= mean <= LARGEST for mean in (recent, usual))
        # It goes on as it is, and begins anew when the model is copied or saved.
        sound = type(detector) is type(self.detector) and _goes_on(detector) and _goes_on(detector, fresh=True)
        if not counts or not means or not sound:
            raise BraidedError("the checkpoint's watch for drift does not hold together: the file was changed")
        self.detector = detector
        self.drifts, self.seen, self.recent, self.usual = drifts, seen, recent, usual


def restored_detector(packed: Any) -> Detector:
    """The fresh detector that a checkpoint's parameters name."""
    detector = unpack(packed)
    if not isinstance(detector, Detector) or not _goes_on(detector, fresh=True):
        raise BraidedError("the checkpoint's drift detector does not hold together: the file was changed")
    return detector


def _goes_on(detector: Any, fresh: bool = False) -> bool:
    """Whether a copy, or a fresh one, takes in right and wrong answers: what a changed one does can only be tried."""
    try:
        copied = detector.clone() if fresh else unpack(pack(detector))
        for i in range(_TRIED):
            copied.update(i % 3 == 0 if isinstance(copied, base.BinaryDriftDetector) else float(i % 3 == 0))
            bool(copied.drift_detected)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic of compiled code is no Exception
        return False
    return True


@cache
def _kinds() -> dict[str, type]:
    """What a checkpoint may hold of River's objects: nothing else is written, and nothing else is made on reading."""
    from river import drift, stats
    from river.drift.binary import hddm_w

    kinds = (
        drift.ADWIN, drift.NoDrift, drift.PageHinkley, drift.binary.DDM, drift.binary.EDDM, drift.binary.FHDDM,
        drift.binary.HDDMA, drift.binary.HDDMW, hddm_w.SampleInfo, stats.EWMean, stats.Mean, stats.Var,
    )  # fmt: skip
    return {kind.__name__: kind for kind in kinds}


@cache
def _compiled() -> tuple[type, type]:
    """Parts of them in machine code, which write themselves as bytes."""
    from river import drift, stats

    return type(drift.ADWIN()._helper), type(stats.EWMean()._ewmean)


def pack(value: Any, owner: Any = None) -> Any:
    """A detector, or a part of it, as JSON that gives back the same bits."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, deque):
        return {"deque": [pack(item) for item in value], "most": value.maxlen}
    if isinstance(value, MethodType) and value.__self__ is owner:
        return {"method": value.__name__}
    if type(value) in _compiled():
        return {"bytes": base64.b64encode(value.__getstate__()).decode()}
    if _kinds().get(type(value).__name__) is type(value):
        return {"kind": type(value).__name__, "parts": {name: pack(part, value) for name, part in vars(value).items()}}
    known = ", ".join(name for name, kind in _kinds().items() if issubclass(kind, Detector))
    raise BraidedError(
        f"the drift detector holds a {type(value).__name__}, which cannot be written to a checkpoint: use one of "
        f"{known}, or pickle the model"
    )


def unpack(packed: Any) -> Any:
    """The inverse of `pack`; whatever does not hold together is refused."""
    try:
        return _unpacked(packed, None)
    except (BraidedError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # compiled detectors panic on bytes that are not theirs, and a panic is no Exception
        raise BraidedError("the checkpoint's drift detector does not hold together: the file was changed") from None


def _unpacked(packed: Any, owner: Any) -> Any:
    if not isinstance(packed, dict):
        return packed
    if "float" in packed:
        return float.fromhex(packed["float"])
    if "deque" in packed:
        items = [_unpacked(item, None) for item in packed["deque"]]
        if not all(isinstance(item, int | float) for item in items):
            raise TypeError(items)
        return deque(items, maxlen=packed["most"])
    if "method" in packed:
        method = getattr(owner, packed["method"])
        if not isinstance(method, MethodType) or method.__self__ is not owner or packed["method"].startswith("__"):
            raise BraidedError(f"the checkpoint's drift detector has no method {packed['method']!r}")
        return method
    if packed["kind"] not in _kinds():
        raise BraidedError(f"the checkpoint names a drift detector {packed['kind']!r} that this braided does not have")
    made: Any = object.__new__(_kinds()[packed["kind"]])
    for name, part in packed["parts"].items():
        if not name.isidentifier() or name.startswith("__"):
            raise BraidedError(f"the checkpoint's drift detector has a part {name!r}, which none has")
        if isinstance(part, dict) and "bytes" in part:
            # A fresh one of the same settings, which stand before it, is given the bytes.
            compiled = getattr(type(made)(**made._get_params()), name)
            compiled.__setstate__(base64.b64decode(part["bytes"]))
            setattr(made, name, compiled)
        else:
            setattr(made, name, _unpacked(part, made))
    return made
