"""What each table consists of: cells, each some seeds of one model on one stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from braided import presets
from braided.combiners import COMBINERS
from braided.datasets.catalogue import CATALOGUE
from braided.datasets.haphazard import AVAILABILITIES as OF_REVIEW
from braided.datasets.haphazard import REVIEW_SETTINGS
from braided.datasets.protocol import PAPER_SETTINGS
from braided.report import published
from reproduction import stream_models, stream_sources
from reproduction.jobs import HAPHAZARD, STREAMS, JobSpec

SMALL = ("german", "svmguide3", "magic04", "a8a")
LARGE = ("higgs", "susy")
AVAILABILITIES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
RATES = ("0.00005", "0.0001", "0.0005", "0.001", "0.005", "0.01", "0.05", "0.1")
#: A data set, the probability that a feature is available (None: the protocol's), and how many seeds.
Run = tuple[str, float | None, int]
SMALL_RUNS: list[Run] = [(name, None, 20) for name in SMALL]
#: Our fast learner among those of logistic regressions.
KALMAN = "Kalman gain"
#: Our own preset among the paper's methods.
DEFAULT = stream_models.DEFAULT
#: Ways to learn a logistic regression: a model, and its settings.
_LOGISTIC: dict[str, tuple[str, tuple[str, ...]]] = {
    "paper": ("olr", ("gain=paper",)),
    "released": ("olr", ("gain=released", "prior_variance=0.001")),
    KALMAN: ("olr", ("gain=kalman",)),
    "FOLKLORE": ("folklore", ()),
    "SGD": ("mlp", ("hidden=", "encoding=plain", "optimiser=sgd", "learning_rate=0.003")),
}
#: The same runs, answered by the balanced decision.
DEFAULT_BALANCED = "modl (default), balanced"


@dataclass(frozen=True)
class Cell:
    """One cell of a table."""

    #: Its name in the table: a model, a combiner, or `DEFAULT`.
    method: str
    #: What else is particular to it, like `learning_rate=0.001`.
    setting: str
    #: What to run, with seed 0.
    job: JobSpec
    #: How many seeds the paper has, or we want.
    seeds: int
    #: Whether it shows another cell's runs, whose failures are counted there.
    twin: bool = False

    @property
    def p_f(self) -> float:
        """Probability that a feature is available."""
        given = self.job.available
        return PAPER_SETTINGS[self.job.dataset].available if given is None else given

    def jobs(self) -> list[JobSpec]:
        """One for each seed."""
        return [replace(self.job, seed=self.job.seed + i) for i in range(self.seeds)]

    def paper(self, what: str) -> list[published.Figure]:
        """What is published for it."""
        return published.find(what, self.job.dataset, self.method, self.p_f, self.setting)


def grid(
    methods: tuple[str, ...], runs: list[Run], settings: list[tuple[str, ...]] | None = None
) -> Callable[[str], list[Cell]]:
    """From the preset's name to the cells of each method on each stream, under each of the settings if there are any.

    One of the methods may be MODL under our own preset.
    """
    return lambda preset: [
        Cell(method, " ".join(options), _job(name, method, preset, p, options), seeds)
        for name, p, seeds in runs
        for options in settings or [()]
        for method in methods
    ]


def _job(dataset: str, method: str, preset: str, available: float | None, options: tuple[str, ...]) -> JobSpec:
    model, preset = ("modl", "default") if method == DEFAULT else (method, preset)
    return JobSpec(dataset, model, preset, available=available, options=options)


def merge(preset: str) -> list[Cell]:
    """The preset's own combiner is not named: such a run is one that other tables have, too, and is done once."""
    own = presets.get(preset).combiner
    found = []
    for name, p, seeds in [*SMALL_RUNS, ("higgs", 0.5, 5), ("susy", 0.99, 5)]:
        for combiner in COMBINERS:
            job = JobSpec(name, "modl", preset, combiner=None if combiner == own else combiner, available=p)
            if published.find("merge", name, combiner):
                found.append(Cell(combiner, "", job, seeds))
    return found


def logistic(preset: str) -> list[Cell]:
    """Whatever the preset: each is alone, on the standardised values that are there."""
    return [
        Cell(method, "", JobSpec(name, model, "classic", options=options), 20)
        for name in SMALL
        for method, (model, options) in _LOGISTIC.items()
    ]


def haphazard(preset: str) -> list[Cell]:
    """The streams of the review."""
    return [cell for name in REVIEW_SETTINGS for p in OF_REVIEW for cell in _of_review(name, p, preset)]


def _of_review(name: str, p: float, preset: str) -> list[Cell]:
    """Our default, by both decisions, and the two of the review's methods that we have, as the review set them."""
    tuned = REVIEW_SETTINGS[name]
    olvf = (f"aggressiveness={tuned.olvf_aggressiveness}", "feature_rate=0", "radius=0")
    auxdrop = (
        "aux_layer=1",
        f"aux_width={tuned.auxdrop_width}",
        f"learning_rate={tuned.auxdrop_learning_rate}",
        f"dropout={tuned.auxdrop_dropout}",
        f"expected_features={CATALOGUE[name].features}",
    )
    default = JobSpec(name, "modl", "default", available=p, protocol=HAPHAZARD)
    return [
        Cell(DEFAULT, "", default, 5),
        Cell(DEFAULT_BALANCED, "", default, 5, twin=True),
        Cell("olvf", "", replace(default, model="olvf", preset=preset, options=olvf), 1),
        Cell("auxdrop-odl", "", replace(default, model="auxdrop-odl", preset=preset, options=auxdrop), 5),
    ]


def streams(preset: str) -> list[Cell]:
    """Whatever the preset: ours are `default` and `lean`, and River's have their own settings."""
    return [
        Cell(
            entry.method,
            "",
            JobSpec(source.name, entry.model, entry.preset, available=p, protocol=STREAMS),
            stream_models.runs(entry, source, p),
            twin=entry.method in stream_models.LAST,
        )
        for source in stream_sources.STREAMS.values()
        for p in stream_sources.AVAILABILITIES
        for entry in stream_models.MODELS
        if source.task in entry.tasks
    ]
