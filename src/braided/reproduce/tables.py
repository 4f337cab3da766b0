"""What each table of the paper consists of: cells, each some seeds of one model on one stream."""

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
from braided.reproduce import stream_models, stream_sources
from braided.reproduce.jobs import HAPHAZARD, STREAMS, JobSpec

SMALL = ("german", "svmguide3", "magic04", "a8a")
LARGE = ("higgs", "susy")
AVAILABILITIES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
RATES = ("0.00005", "0.0001", "0.0005", "0.001", "0.005", "0.01", "0.05", "0.1")
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
    """One cell of a table.

    Attributes
    ----------
    method
        Its name in the table: a model, a combiner, or `DEFAULT`.
    setting
        What else is particular to it, like `learning_rate=0.001`.
    job
        What to run, with seed 0.
    seeds
        How many seeds the paper has, or we want.
    """

    method: str
    setting: str
    job: JobSpec
    seeds: int

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


@dataclass(frozen=True)
class TableSpec:
    """A table of the paper.

    Attributes
    ----------
    title, about
        Heading, and what a reader should know.
    cells
        From the preset's name to the cells.
    quick
        Whether a cell belongs to `--quick`.
    compare
        The method that others are compared with, pairwise over seeds (Wilcoxon).
    timed
        Whether the time per record stands in each cell.
    """

    title: str
    about: str
    cells: Callable[[str], list[Cell]]
    quick: Callable[[Cell], bool] = lambda cell: True
    compare: str | None = None
    timed: bool = False


def _job(dataset: str, method: str, preset: str, available: float | None = None) -> JobSpec:
    """The job of a method, of which one is MODL under our own preset."""
    model, preset = ("modl", "default") if method == DEFAULT else (method, preset)
    return JobSpec(dataset, model, preset, available=available)


def _table1(preset: str) -> list[Cell]:
    methods = ("olvf", "auxdrop-odl", "auxdrop-ogd", "modl", DEFAULT)
    return [Cell(method, "", _job(name, method, preset), 20) for name in SMALL for method in methods]


def _availabilities(methods: tuple[str, ...]) -> Callable[[str], list[Cell]]:
    return lambda preset: [
        Cell(method, "", JobSpec(name, method, preset, available=p), 5)
        for name in LARGE
        for p in AVAILABILITIES
        for method in methods
    ]


def _table3(preset: str) -> list[Cell]:
    """Two seeds of I-MNIST, a million records each, where the paper has five."""
    methods = ("auxdrop-odl", "modl", DEFAULT)
    runs = [("cifar10", 5), ("imnist", 2)]
    return [Cell(method, "", _job(name, method, preset), seeds) for name, seeds in runs for method in methods]


def _merge(preset: str) -> list[Cell]:
    """The preset's own combiner is not named: such a run is one that other tables have, too, and is done once."""
    own = presets.get(preset).combiner
    return [
        Cell(combiner, "", JobSpec(name, "modl", preset, combiner=_other_than(own, combiner), available=p), seeds)
        for name, p, seeds in [*((name, None, 20) for name in SMALL), ("higgs", 0.5, 5), ("susy", 0.99, 5)]
        for combiner in COMBINERS
        if published.find("merge", name, combiner)
    ]


def _other_than(own: str, combiner: str) -> str | None:
    return None if combiner == own else combiner


def _pair(methods: tuple[str, str], large: bool) -> Callable[[str], list[Cell]]:
    return lambda preset: [
        Cell(method, "", JobSpec(name, method, preset, available=0.99 if name in LARGE else None), seeds)
        for name, seeds in [*((n, 20) for n in SMALL), *((n, 5) for n in LARGE if large)]
        for method in methods
    ]


def _rates(preset: str) -> list[Cell]:
    return [
        Cell(m, f"learning_rate={r}", JobSpec(name, m, preset, available=0.99, options=(f"learning_rate={r}",)), 5)
        for name in LARGE
        for r in RATES
        for m in ("auxdrop-odl", "modl")
    ]


def _depth(preset: str) -> list[Cell]:
    return [
        Cell(
            method,
            f"layers={layers} width={width}",
            JobSpec(name, method, preset, available=0.5, options=(f"layers={layers}", f"width={width}")),
            5,
        )
        for name in LARGE
        for layers in (5, 11, 20)
        for width in (25, 50, 100)
        for method in ("auxdrop-odl", "auxdrop-fodl")
    ]


def _curves(preset: str) -> list[Cell]:
    runs = [(name, None, 20) for name in SMALL] + [("higgs", 0.5, 5), ("susy", 0.5, 5)]
    return [
        Cell(method, "", _job(name, method, preset, available=p), seeds)
        for name, p, seeds in runs
        for method in ("auxdrop-odl", "modl", DEFAULT)
    ]


def _logistic(preset: str) -> list[Cell]:
    """Whatever the preset: each is alone, on the standardised values that are there."""
    return [
        Cell(method, "", JobSpec(name, model, "classic", options=options), 20)
        for name in SMALL
        for method, (model, options) in _LOGISTIC.items()
    ]


def _haphazard(preset: str) -> list[Cell]:
    return [cell for name in REVIEW_SETTINGS for p in OF_REVIEW for cell in _haphazard_cells(name, p, preset)]


def _haphazard_cells(name: str, p: float, preset: str) -> list[Cell]:
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
        Cell(DEFAULT_BALANCED, "", default, 5),
        Cell("olvf", "", replace(default, model="olvf", preset=preset, options=olvf), 1),
        Cell("auxdrop-odl", "", replace(default, model="auxdrop-odl", preset=preset, options=auxdrop), 5),
    ]


def _streams(preset: str) -> list[Cell]:
    """Whatever the preset: ours are `default` and `lean`, and River's have their own settings."""
    return [
        Cell(
            entry.method,
            "",
            JobSpec(source.name, entry.model, entry.preset, available=p, protocol=STREAMS),
            stream_models.runs(entry, source, p),
        )
        for source in stream_sources.STREAMS.values()
        for p in stream_sources.AVAILABILITIES
        for entry in stream_models.MODELS
        if source.task in entry.tasks
    ]


TABLES: dict[str, TableSpec] = {
    "table1": TableSpec(
        "Four small sets",
        "The seed fixes order, mask and weights. Below Aux-Drop's published figure stands its own paper's. OLVF has "
        "the C of its published grid that is best on each set here.",
        _table1,
        compare="modl",
    ),
    "table2": TableSpec(
        "HIGGS and SUSY by availability",
        "Each feature is there with that probability, but for the first five of HIGGS and two of SUSY, which always "
        "are.",
        _availabilities(("auxdrop-odl", "modl")),
        quick=lambda cell: cell.p_f in {0.1, 0.5, 0.99},
        compare="modl",
    ),
    "table3": TableSpec(
        "Images",
        "Error in percent of the records: five seeds of CIFAR-10's 50,000 images, two of I-MNIST's million. MODL has "
        "the learning rate that the paper gives, .00005; on I-MNIST a larger one [comes nearer the published "
        "figure](docs/baselines.md#beside-the-published-figures).",
        _table3,
        compare="modl",
    ),
    "merge": TableSpec(
        "Ways to combine learners",
        "MODL's three learners under each combiner. HIGGS at availability .5, SUSY at .99.",
        _merge,
        compare="score-sum",
    ),
    "ablation": TableSpec(
        "Which learners",
        "The fast learner with the MLP, with the set learner, and with both.",
        _availabilities(("modl-olr+mlp", "modl-olr+set", "modl")),
        quick=lambda cell: cell.p_f in {0.1, 0.5, 0.99},
        compare="modl",
    ),
    "glr": TableSpec(
        "The fast learner in closed form, and by gradient",
        "HIGGS and SUSY at availability .99.",
        _pair(("modl-glr", "modl"), large=True),
        compare="modl",
    ),
    "five": TableSpec(
        "Three learners or five",
        "Two more MLPs, of one and two more layers than the medium learner's.",
        _pair(("modl", "modl-5"), large=False),
        compare="modl",
    ),
    "lr": TableSpec(
        "Learning rates",
        "Availability .99.",
        _rates,
        quick=lambda cell: cell.setting.endswith(("=0.0001", "=0.01", "=0.1")),
        compare="modl",
    ),
    "depth": TableSpec(
        "Depth and width of Aux-Drop, on ODL and Fast ODL",
        "Availability .5. The two forms compute the same weights, so their errors agree up to rounding; what differs "
        "is time, here processor time, the median over seeds.",
        _depth,
        quick=lambda cell: "width=50" in cell.setting,
    ),
    "logistic": TableSpec(
        "Ways to learn a logistic regression online",
        "Each learner alone, on standardised values of the available features: the closed form by the gains of the "
        "paper, of its released code (with its first variance of .001, which is better on all four than the .1 of the "
        "others) and of the Kalman filter (which the default has); FOLKLORE, which the paper sets aside as iterative, "
        "with one solution by Newton's method per record; and plain gradient steps at the rate .003, of .001, .003 and "
        ".01 the best over all four. Time is processor time, the median over seeds.",
        _logistic,
        compare=KALMAN,
        timed=True,
    ),
    "curves": TableSpec(
        "Learning curves",
        "Errors so far as a share of the records so far, mean and 95% band over seeds. HIGGS and SUSY at "
        "availability .5.",
        _curves,
        quick=lambda cell: cell.job.dataset in SMALL,
    ),
    "haphazard": TableSpec(
        "Haphazard inputs",
        "The streams of the review of learning with haphazard inputs (Agarwal et al. 2024, arXiv 2404.04903): 13 of "
        "its 20 data sets, those that are small files anyone can get. One order and one mask for all, each "
        "feature available with probability .25, .5 or .75, none always; predict, then learn; five runs that differ in "
        "the model's seed alone. Accuracies and areas in percent. Published are the review's nine methods, tuned for "
        "each set, and what later papers report for the same sets and availabilities; ours is the default, the same "
        "everywhere. packetLSTM's figures are read off a chart, to within 0.7. German has the 959 records that the "
        "review's way of reading leaves.",
        _haphazard,
        quick=lambda cell: CATALOGUE[cell.job.dataset].records < 700,
    ),
    "streams": TableSpec(
        "Beside River, on streams",
        "What a user would compare first: the default and `lean` beside River's models, each as its own users would "
        "run it ([how](docs/baselines.md#rivers-models)), and beside guesses that look at no feature. One pass, "
        "predict then learn, from the first record on; errors as a share of the records, log loss of the "
        "probabilities, mean absolute error where targets are numbers. Half missing: each value is there with "
        "probability .5, and all models see the same. Phishing, segments, bananas, phoneme and shuttle (10,000 of its "
        "records) are shuffled by the seed; the other streams are in time and keep their order. Streams of fewer than "
        "10,000 records are run five times, longer ones once, and one run is enough where neither records nor model "
        "can differ. The best of River's models is the best in each cell, which nobody knows beforehand. Time is the "
        "processor's, per record: ours in compiled chunks, as `braided run` learns, River's one record at a time, as "
        "theirs do; one record at a time ours [take longer](docs/default.md#cost).",
        _streams,
        quick=lambda cell: cell.job.dataset in stream_sources.QUICK,
    ),
}
