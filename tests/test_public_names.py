"""What a program may rely on, listed: a name that comes, goes or moves is changed here, too, on purpose.

CONTRIBUTING.md says how a name goes: with a warning, one version before. Names in `__all__` and those that the
reference lists are public, as are the methods of the estimators and the commands; anything else may change at any time.
"""

from __future__ import annotations

import importlib
import re
from collections import defaultdict
from pathlib import Path

from typer.main import get_command

import braided
from braided.cli import app

ROOT = Path(__file__).resolve().parents[1]
#: Modules with a list of their own; what else is public, the reference lists.
WITH_LISTS = (
    "braided", "braided.combiners", "braided.datasets", "braided.evaluation", "braided.learners", "braided.plot",
    "braided.sklearn", "braided.spark", "braided.streams",
)  # fmt: skip
PUBLIC = """
braided: BraidedError Encoder Fleet History MODLClassifier MODLRegressor __version__ record
braided.capymoa: Columns MODL MODLRegressor
braided.combiners: Aggregate COMBINERS Combiner Ensemble Greedy KalmanTanh KalmanWeights MixtureOfExperts Multiplication
    ScoreSum build
braided.datasets: CATALOGUE Dataset PAPER_SETTINGS PaperSettings settings_for
braided.datasets.protocol: PaperSettings
braided.estimators.drift: DETECTORS Watch build
braided.estimators.explain: Explanation Part
braided.evaluation: Evaluation History Tally metrics record
braided.evaluation.importance: FeatureImportance
braided.fleet: KeyLearners
braided.learners: CompiledLearner ExactConfig ExactLinear Folklore FolkloreConfig ForestConfig ForestValueConfig
    FourierConfig FourierLinear
    FourierLinearConfig FourierLogistic HedgeConfig HedgeNetwork LEARNERS Learner LearnerConfig LinearConfig
    LinearRegression LogisticConfig LogisticRegression MLP MLPConfig MondrianForest MondrianForestRegressor OLVF
    OLVFConfig RecentConfig RecentLabels RecentValueConfig RecentValues RiverLearner SetConfig SetLearner StepConfig
    TorchLearner build
braided.learners.base: ArrayPlan
braided.learners.gaussian: GaussianConfig
braided.plot: availability calibration confusion coverage error failures learners shares throughput weights
braided.presets: Preset classic default get lean paper released
braided.records: Labels Predictions Records
braided.report: plot
braided.sklearn: MODLClassifier MODLRegressor
braided.spark: fleet_stream prepare read_fleet
braided.store: state_digest
braided.streams: ArrayStream IterableStream Limited MASKS Masked Peeked Rules SQLStream Stream open_stream
    read_whole shuffled
braided.encode.chunk: BadRecord Chunk
braided.encode.encoder: Encoder
braided.encode.plan: Plan
braided.encode.rules: ReadingCounts
braided.streams.open: open_stream
braided.streams.readers.arff: ARFFStream
braided.streams.readers.arrow: ArrowStream
braided.streams.readers.base: EncodedStream
braided.streams.readers.broker: BrokerStream
braided.streams.readers.csv: CSVStream
braided.streams.readers.folder: FolderStream
braided.streams.readers.follow: FollowStream
braided.streams.readers.jsonl: JSONLinesStream
braided.streams.readers.libsvm: LibsvmStream
braided.streams.readers.live: LiveStream
braided.store: state_digest
braided.zoo: ModelOptions build names_for preset_for
"""
METHODS = """
Encoder: learn_one look transform_one
History: add availability begin blocks close coverage coverage_shares curve drifts error features importance
    learners measure metrics pieces plot present records report resets restore shares skipped state throughput weights
    window windowed
MODLClassifier: braid classes coverage decide drifts expect_delay explain_one
    feature_names health learn_many learn_one learner_names load n_features
    predict_learn_many predict_many predict_one predict_proba_many predict_proba_one predict_set_many predict_set_one
    progress_many records_learned restore save sets snapshot task without_encoder
MODLRegressor: braid classes coverage drifts expect_delay explain_one feature_names
    health learn_many learn_one learner_names load n_features predict_interval_many predict_interval_one
    predict_learn_many predict_many predict_one progress_many records_learned restore save snapshot task without_encoder
"""
COMMANDS = (
    "datasets, datasets fetch, datasets list, datasets verify, feed, inspect, run, serve, "
    "serve backup, serve repair, serve restore"
)


def listed(text: str) -> dict[str, set[str]]:
    """Lines of a name, a colon and more names, which may go on in indented lines."""
    joined = re.sub(r"\n +", " ", text.strip())
    return {name: set(rest.split()) for name, _, rest in (line.partition(": ") for line in joined.splitlines())}


def found() -> dict[str, set[str]]:
    """The public names of each module."""
    names = defaultdict(set, {module: set(importlib.import_module(module).__all__) for module in WITH_LISTS})
    for page in (ROOT / "docs" / "api").glob("*.md"):
        for place in re.findall(r"^::: ([\w.]+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
            module, _, name = place.rpartition(".")
            names[module].add(name)
    return dict(names)


def methods(kind: type) -> set[str]:
    """What a class and those of ours that it comes from define, beside what is private."""
    ours = [base for base in kind.__mro__ if base.__module__.startswith("braided")]
    return {name for base in ours for name in vars(base) if not name.startswith("_")}


def test_the_names_are_those_that_are_listed() -> None:
    assert found() == listed(PUBLIC)


def test_every_name_is_there() -> None:
    for module, names in listed(PUBLIC).items():
        if module != "braided.capymoa":  # importing it starts Java
            there = importlib.import_module(module)
            for name in names:
                assert hasattr(there, name) or importlib.import_module(f"{module}.{name}"), f"{module}.{name}"


def test_the_methods_are_those_that_are_listed() -> None:
    kinds = (braided.MODLClassifier, braided.MODLRegressor, braided.Encoder, braided.History)
    assert {kind.__name__: methods(kind) for kind in kinds} == listed(METHODS)


def test_the_commands_are_those_that_are_listed() -> None:
    command = get_command(app)
    there = set()
    for name, found_ in command.commands.items():  # type: ignore[attr-defined]
        there |= {name, *(f"{name} {sub}" for sub in getattr(found_, "commands", {}))}
    assert there == set(COMMANDS.split(", "))
