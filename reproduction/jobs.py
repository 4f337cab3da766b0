"""One job: one model, one seed, over one stream; what it is, its key, how it is done, and where its result is kept."""

from __future__ import annotations

import hashlib
import json
import math
import time
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

from braided import __version__, zoo
from braided.datasets.catalogue import CATALOGUE
from braided.datasets.haphazard import haphazard_stream
from braided.datasets.locate import load, locate
from braided.errors import BraidedError
from braided.estimators.decision import BALANCED, LIKELIEST
from braided.files import write_atomically
from braided.run import RunOptions
from braided.run.options import AUTO
from braided.streams import ArrayStream, Limited, Stream
from braided.streams.fingerprint import fingerprint
from braided.streams.transform import scaled
from reproduction import runs, stream_sources

#: Whose streams: the MODL paper's; those of the review of haphazard inputs; and these with german read whole.
PAPER, HAPHAZARD, HAPHAZARD_WHOLE = "paper", "haphazard", "haphazard, german whole"
#: The streams of `stream_sources`.
STREAMS = "streams"
#: Under which a result has the seconds of the whole job.
TIME = "wall_seconds"
#: Ranges to which each feature may be scaled, over the whole file.
SCALES = {"-1,1": (-1.0, 1.0), "0,1": (0.0, 1.0)}
#: What no result depends on. A change in anything else of the package makes finished jobs stale.
_NOT_DECIDING = {
    *("__main__.py", "brokers", "capymoa.py", "cli", "fleet", "late.py", "plot.py", "report", "serve", "sklearn.py"),
    *("spark", "__pycache__"),
}
#: What decides results of one protocol besides, in the folder of this file.
_DECIDING = {
    PAPER: ("runs.py",),
    HAPHAZARD: ("runs.py",),
    HAPHAZARD_WHOLE: ("runs.py",),
    STREAMS: ("runs.py", "stream_sources.py"),
}
#: Packages whose release decides a result as well.
_LIBRARIES = ("numpy", "river", "scikit-learn")


@dataclass(frozen=True)
class JobSpec:
    """What one job runs: fields as of `RunOptions`, whose stream it is, and one of `SCALES`."""

    dataset: str
    model: str
    preset: str
    seed: int = 0
    combiner: str | None = None
    available: float | None = None
    limit: int | None = None
    options: tuple[str, ...] = ()
    protocol: str = PAPER
    scale: str | None = None

    def key(self, data: str) -> str:
        """Names the result: the same job on the same data by the same code, presets included, has the same key."""
        text = json.dumps([asdict(self), data, code_digest(self.protocol)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def plain(self) -> dict[str, Any]:
        """As a file of JSON holds it."""
        return {**asdict(self), "options": list(self.options)}

    def run_options(self) -> RunOptions:
        """As `braided run` would have it; all streams but the paper's are shuffled and masked already."""
        made = self.protocol != PAPER
        source = stream_sources.STREAMS.get(self.dataset) if self.protocol == STREAMS else None
        return RunOptions(
            stream=self.dataset,
            models=(self.model,),
            preset=self.preset,
            combiner=self.combiner,
            task=AUTO if source is None else source.task,
            available=1.0 if made else self.available,
            always=0 if made else None,
            shuffle=False if made else None,
            decision=BALANCED if self.protocol in {HAPHAZARD, HAPHAZARD_WHOLE} else LIKELIEST,
            seed=self.seed,
            limit=self.limit,
            options=self.options,
        )


@cache
def code_digest(protocol: str = PAPER) -> str:
    """A digest of every source file that decides a result, and of the releases of what they are built on."""
    versions = [__version__, *(f"{name} {version(name)}" for name in _LIBRARIES)]
    digest = hashlib.sha256(repr(versions).encode())
    package, here = Path(str(resources.files("braided"))), Path(__file__).parent
    parts = [path for path in sorted(package.iterdir()) if path.name not in _NOT_DECIDING]
    for part in (*parts, *(here / name for name in _DECIDING[protocol])):
        for file in sorted(part.rglob("*.py")) if part.is_dir() else [part]:
            digest.update(file.relative_to(part.parent).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()[:16]


@cache
def data_digest(dataset: str, data_dir: Path | None) -> str:
    """Name, length and first megabyte of the data set's files."""
    if dataset not in CATALOGUE:
        return stream_sources.data_digest(dataset, data_dir)
    names = [path.name for path in locate(dataset, data_dir).paths]
    return f"{', '.join(names)}: {fingerprint(dataset, data_dir)}"


@cache
def _in_memory(dataset: str, data_dir: Path | None) -> ArrayStream | None:
    """The small sets are read once a process."""
    stream = load(dataset, data_dir)
    return stream if isinstance(stream, ArrayStream) else None


def perform(spec: JobSpec, data_dir: Path | None, begun: Path | None = None) -> dict[str, Any]:
    """Run the job; what went wrong comes back as a result with an `error`, so that the other jobs go on.

    A run over a file that is too large for memory writes its checkpoint into the folder `begun` and goes on from
    there when it was killed.
    """
    start = time.time()
    try:
        result = _RUNS[spec.protocol](spec, data_dir, begun)
    except Exception as error:  # shown as a failed cell, with its reason
        reason = str(error) if isinstance(error, BraidedError) else f"{type(error).__name__}: {error}"
        return {"spec": spec.plain(), "error": reason}
    # Of a run in parts only the last one was timed here: its records took `seconds` in all of them.
    return {"spec": spec.plain(), **result, TIME: max(time.time() - start, result["seconds"])}


def is_whole(spec: JobSpec, result: dict[str, Any]) -> bool:
    """Whether what was kept of a job has all that `perform` gives, in figures that can be counted with."""
    numbers = [result.get(name) for name in ("records", "seconds", TIME)]
    if spec.protocol == PAPER:
        parts = [result.get("learners"), result.get("curve")]
        numbers += [result.get("errors"), result.get("majority_errors")]
    else:
        parts = [result.get("metrics")]
    finite = all(isinstance(number, int | float) and math.isfinite(number) for number in numbers)
    return finite and all(isinstance(part, dict) for part in parts) and "error" not in result


def _of_review(spec: JobSpec, data_dir: Path | None, begun: Path | None) -> dict[str, Any]:
    """One run on a stream of the review of haphazard inputs: the seed is the model's alone."""
    assert spec.available is not None
    whole = haphazard_stream(spec.dataset, spec.available, data_dir, spec.protocol == HAPHAZARD_WHOLE)
    stream: Stream = whole if spec.limit is None else Limited(whole, spec.limit)
    model = zoo.build(spec.model, spec.run_options().resolved().model_options(spec.seed))
    return runs.haphazard(model, stream)


def _of_streams(spec: JobSpec, data_dir: Path | None, begun: Path | None) -> dict[str, Any]:
    """One run on a stream of `stream_sources`: the seed is the mask's and the model's, without time the order's too."""
    assert spec.available is not None
    source = stream_sources.STREAMS[spec.dataset]
    model = zoo.build(spec.model, spec.run_options().resolved().model_options(spec.seed))
    return runs.streams(model, source.stream(spec.available, spec.seed, data_dir, spec.limit))


def _of_paper(spec: JobSpec, data_dir: Path | None, begun: Path | None) -> dict[str, Any]:
    """One run as `braided run` does it."""
    source = _in_memory(spec.dataset, data_dir)
    if spec.scale is not None:
        if source is None:
            raise BraidedError(f"{spec.dataset} is too large to be scaled as a whole: leave out --scale")
        source = scaled(source, *SCALES[spec.scale])
    checkpoint = None
    if begun is not None and source is None:
        begun.mkdir(parents=True, exist_ok=True)
        checkpoint = begun / spec.key(data_digest(spec.dataset, data_dir))
    return runs.paper(spec.run_options(), data_dir, source, checkpoint)


_RUNS = {PAPER: _of_paper, HAPHAZARD: _of_review, HAPHAZARD_WHOLE: _of_review, STREAMS: _of_streams}


class Store:
    """A folder of results by key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, key: str) -> dict[str, Any] | None:
        """The result under that key; a file that is not one counts as absent and is written again."""
        try:
            result = json.loads((self.folder / f"{key}.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError, RecursionError):
            return None
        return result if isinstance(result, dict) else None

    def put(self, key: str, result: dict[str, Any]) -> None:
        """Keep a result."""
        write_atomically(self.folder / f"{key}.json", (json.dumps(result) + "\n").encode())
