"""The options of `braided run` and `braided feed`, each defined once: the command line is made from these fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from braided import checks, presets, zoo
from braided.brokers.address import is_broker
from braided.combiners import COMBINERS
from braided.datasets.catalogue import CATALOGUE
from braided.datasets.protocol import PAPER_SETTINGS
from braided.encode.rules import ReadingCounts
from braided.errors import BraidedError
from braided.estimators.decision import DECISION_PARAMETERS, DECISIONS, LIKELIEST
from braided.estimators.drift import DETECTORS, build
from braided.estimators.params import CLASSIFICATION, REGRESSION, TASKS, ModelParams
from braided.evaluation.availability import MAX_NAMES
from braided.evaluation.metrics import METRICS
from braided.fleet import OLDEST, SHARES
from braided.late import MAX_COUNT, MAX_SECONDS, LateLabels
from braided.run import decision as decisions
from braided.run.weight import WeightColumn
from braided.streams import MASKS, Rules, Stream, open_stream
from braided.streams.passwords import without_password

AUTO = "auto"
#: Options that may be others when a run is resumed: they do not touch what has been learned. From there on,
#: `max_keys`, which may only be raised, and `evict`, which stays if it is left out, say which keys are forgotten.
FREE_WHEN_RESUMED = {"idle", "on_error", "metrics", "in_memory", "max_keys", "evict"}
#: Limits of the models that may be raised then: a run that has come to one goes on with more room.
RAISED_WHEN_RESUMED = ("max_features", "max_classes")

# Help that lists names: an annotation is read as text, which cannot hold such an expression.
_MODELS = f"One of {', '.join(zoo.MODELS)}. Repeatable."
_PRESETS = f"One of {', '.join(presets.PRESETS)}."
_COMBINERS = f"How scores are joined: {', '.join(COMBINERS)}; the preset's if not given."
_METRICS = f"Column of the table: one of {', '.join(METRICS)}. Repeatable. --json has all."
_DECISIONS = (
    f"How an answer is chosen from the probabilities: {', '.join(DECISIONS)} (by p over the class's frequency)."
)
_SHARES = (
    "What models of --key have in common: braid (a shared model, and for each key learners around it), start (a key "
    "starts as a copy of a shared model) or none."
)
_DRIFT = f"Learn faster for a while whenever this detector reports drift of the error: {', '.join(DETECTORS)}."


KeyOption = Annotated[
    str | None,
    Option(
        "--key", help="Column that names a machine, a customer, ...: each has a model of its own; it is no feature."
    ),
]
IDOption = Annotated[
    str | None,
    Option(
        "--id",
        help="Column of flat JSON records that names each; a label may come later with it alone. In records of x and y "
        'it is "id".',
    ),
]


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How a stream is read."""

    target: Annotated[
        str | None, Option(help="Label column: its name, or its number from 0 in a CSV file without a header.")
    ] = None
    weight: Annotated[
        str | None, Option(help="Column of numbers from 0 on that say how much each record counts; it is no feature.")
    ] = None
    drop: Annotated[tuple[str, ...], Option(help="Leave out this column. Repeatable.")] = ()
    header: Annotated[
        bool | None,
        Option(
            "--header/--no-header",
            help="Whether a CSV file's first line names its columns; if not given, told from the first lines.",
        ),
    ] = None
    delimiter: Annotated[
        str | None,
        Option(
            help="What stands between a CSV file's fields: one character or tab; if not given, told from the first "
            "lines."
        ),
    ] = None
    skip_rows: Annotated[int, Option(help="Lines at the beginning of a CSV file, such as a title, to pass over.")] = 0
    query: Annotated[str | None, Option(help="SQL, for sqlite:///FILE and postgresql://...")] = None
    categories: Annotated[
        str,
        Option(help="Text columns: onehot (a feature for each value), hash (for each of --hash-buckets) or refuse."),
    ] = "onehot"
    hash_buckets: Annotated[int, Option(help="Features that a hashed column becomes at most.")] = 64
    most_categories: Annotated[
        int,
        Option(help="Values of a text column with a feature of their own; later ones share --hash-buckets features."),
    ] = 100
    category: Annotated[
        tuple[str, ...],
        Option("--category", help="Take this column for a category, whatever its values look like. Repeatable."),
    ] = ()
    hashed: Annotated[
        tuple[str, ...],
        Option("--hash", help="Make --hash-buckets features of this column, as of an identifier. Repeatable."),
    ] = ()
    text: Annotated[
        tuple[str, ...],
        Option("--text", help="Make --text-features features of the words in this column. Repeatable."),
    ] = ()
    text_features: Annotated[int, Option(help="Features that a column of text becomes.")] = 128
    dates: Annotated[
        str,
        Option(
            help="Dates and times: parts (seconds since the first, hour, weekday, day of the year), age (the first of "
            "these) or drop."
        ),
    ] = "parts"
    day_first: Annotated[
        bool | None,
        Option("--day-first/--month-first", help="Whether 1/2/2024 is in February; if not given, told from the dates."),
    ] = None
    na: Annotated[
        tuple[str, ...],
        Option("--na", help="VALUE or COLUMN=VALUE: what stands for a missing value, beside the usual. Repeatable."),
    ] = ()
    decimal: Annotated[
        str | None,
        Option(help="A point or a comma. If not given, a comma where semicolons separate fields and no point speaks "
               "against it."),
    ] = None  # fmt: skip
    thousands: Annotated[str | None, Option(help="What stands between thousands; if not given, nothing.")] = None
    unit: Annotated[
        tuple[str, ...],
        Option("--unit", help="Take off the unit of the numbers in this column, as in $1,234 or 12.5 kg. Repeatable."),
    ] = ()
    encoding: Annotated[
        str | None, Option(help="Of a text file: utf-8, latin-1, utf-16, ...; if not given, told from its bytes.")
    ] = None
    on_error: Annotated[
        str,
        Option(
            help="A value that does not fit its column: stop the run, skip the record, or take the value as missing."
        ),
    ] = "stop"

    def rules(
        self,
        max_features: int = 10_000,
        tell: Callable[[str], None] | None = None,
        unlabelled: bool = False,
    ) -> Rules:
        """How cells become features; `unlabelled` lets records without a label pass."""
        return Rules(
            self.categories,
            self.hash_buckets,
            self.on_error,
            self.drop,
            max_features,
            unlabelled=unlabelled,
            tell=tell,
            most_categories=self.most_categories,
            dates=self.dates,
            day_first=self.day_first,
            decimal=self.decimal,
            thousands=self.thousands,
            na=self.na,
            text=self.text,
            text_features=self.text_features,
            hashed=self.hashed,
            encoding=self.encoding,
            weight=self.weight,
            category=self.category,
            unit=self.unit,
        )

    def open(self, stream: str, data_dir: Path | None, rules: Rules, **more: Any) -> Stream:
        """The stream of that name or address; `more` as of `open_stream`."""
        return open_stream(
            stream,
            data_dir,
            self.target,
            self.header,
            delimiter=self.delimiter,
            skip_rows=self.skip_rows,
            query=self.query,
            rules=rules,
            **more,
        )

    def weighted(self, stream: Stream, counts: ReadingCounts | None = None) -> Stream:
        """A stream with its weights, where a column has them."""
        return stream if self.weight is None else WeightColumn(stream, self.weight, self.on_error, counts)


@dataclass(frozen=True)
class RunOptions(ReadingOptions):
    """What is to be run; None means the stream's own protocol."""

    stream: str = "shuttle"
    models: Annotated[
        tuple[str, ...],
        Option("--model", "-m", help=_MODELS),
    ] = ("modl",)
    preset: Annotated[str, Option(help=_PRESETS)] = "default"
    key: KeyOption = None
    share: Annotated[str, Option(help=_SHARES)] = SHARES[0]
    in_memory: Annotated[
        int | None,
        Option(help="Keys in memory, those used last; the others lie on disk. 100,000, or 500 where each has a model."),
    ] = None
    max_keys: Annotated[int | None, Option(help="Refuse a stream with more keys than this; 1,000,000.")] = None
    evict: Annotated[
        str | None, Option(help="oldest: at --max-keys, forget for a new key the one that learned nothing for longest.")
    ] = None
    combiner: Annotated[
        str | None,
        Option(help=_COMBINERS),
    ] = None
    task: Annotated[
        str,
        Option(
            help="classification, regression, or auto: a target of numbers that are not whole, or of more than 20 "
            "whole ones in the first 1,000 records, is a regression."
        ),
    ] = AUTO
    delay: Annotated[
        int,
        Option(help="Learn each label this many records late: that of record t just before record t + N is predicted."),
    ] = 0
    id: IDOption = None
    late_count: Annotated[int, Option(help="Records with an ID that may wait for a label that comes later.")] = (
        MAX_COUNT
    )
    late_seconds: Annotated[float, Option(help="Seconds that they may wait, by the broker's clock.")] = MAX_SECONDS
    metrics: Annotated[
        tuple[str, ...],
        Option("--metric", help=_METRICS),
    ] = ()
    mask: Annotated[
        str,
        Option(
            help="How features go missing: iid; trapezoidal (ten chunks, each with more features); sudden (each "
            "feature has one long outage); burst (outages of random length); value (large values go missing more)."
        ),
    ] = "iid"
    available: Annotated[
        float | None, Option(help="Probability that a feature is available in a record (not for trapezoidal).")
    ] = None
    always: Annotated[int | None, Option(help="How many features, from the first on, are always available.")] = None
    shuffle: Annotated[
        bool | None, Option("--shuffle/--no-shuffle", help="Order the records by the seed, or as they come.")
    ] = None
    seed: Annotated[int, Option(help="First seed.")] = 0
    seeds: Annotated[int, Option(help="Number of seeds.")] = 1
    limit: Annotated[int | None, Option(help="Stop after this many records.")] = None
    follow: Annotated[
        bool,
        Option(
            "--follow",
            help="Wait for more lines of a CSV or JSON lines file, or files in a folder; a broker is always followed.",
        ),
    ] = False
    idle: Annotated[
        float | None,
        Option(
            help="End --follow, or a broker's stream, after this many seconds without a record; otherwise Ctrl-C or "
            "SIGTERM ends it."
        ),
    ] = None
    max_features: Annotated[int, Option(help="Refuse a stream with more features than this.")] = 10_000
    max_classes: Annotated[int, Option(help="Refuse a stream with more classes than this.")] = 1_000
    expire_after: Annotated[
        int | None,
        Option(help="At --max-features, forget for a new feature the one not seen for longest, after so many records."),
    ] = None
    options: Annotated[
        tuple[str, ...],
        Option("--option", help="NAME=VALUE: replace a setting of the learners, e.g. learning_rate=0.05. Repeatable."),
    ] = ()
    drift: Annotated[
        str | None,
        Option(help=_DRIFT),
    ] = None
    decision: Annotated[str, Option(help=_DECISIONS)] = LIKELIEST
    class_weight: Annotated[
        str | None,
        Option(help='Weights of classes when one is answered: JSON {"label": weight}, a file of it, or balanced.'),
    ] = None
    costs: Annotated[
        str | None,
        Option(
            help='Answer what costs least: JSON {"true label": {"answer": cost}} or a file of it; 1 for other errors.'
        ),
    ] = None

    def rules(
        self,
        max_features: int = 10_000,
        tell: Callable[[str], None] | None = None,
        unlabelled: bool = False,
    ) -> Rules:
        """As of `ReadingOptions`, with the key."""
        return dataclasses.replace(super().rules(max_features, tell, unlabelled), key=self.key)

    def resolved(self) -> RunOptions:
        """With the stream's protocol filled in, and checked, but for what depends on the task."""
        settings = PAPER_SETTINGS.get(self.stream)
        if settings is not None:
            available, always, shuffle = settings.available, settings.always, CATALOGUE[self.stream].shuffle
        else:
            available, always, shuffle = (0.5 if self.stream == "shuttle" else 1.0), 0, False
        options = dataclasses.replace(
            self,
            available=available if self.available is None else self.available,
            always=always if self.always is None else self.always,
            shuffle=shuffle if self.shuffle is None else self.shuffle,
            follow=self.follow or is_broker(self.stream),
            class_weight=decisions.as_json("--class-weight", self.class_weight),
            costs=decisions.as_json("--costs", self.costs),
        )
        options._check()
        return options

    def _check(self) -> None:
        assert self.available is not None
        if not 0.0 <= self.available <= 1.0:
            raise BraidedError(f"--available is {self.available}: give a probability from 0 to 1")
        checks.choice("--mask", self.mask, MASKS)
        checks.choice("--task", self.task, [AUTO, *TASKS])
        checks.choice("--share", self.share, SHARES)
        if self.evict is not None:
            checks.choice("--evict", self.evict, (OLDEST,))
        for name in self.key_limits if self.key is None else ():
            raise BraidedError(f"--{name.replace('_', '-')} is about keys: give --key COLUMN, or leave it out")
        for name in self.models:
            checks.choice("model", name, zoo.MODELS)
        for name in self.metrics:
            checks.choice("--metric", name, METRICS)
        if self.available == 1.0 and self.mask in {"sudden", "burst", "value"}:
            raise BraidedError(f"--mask {self.mask} hides nothing at --available 1: give --available below 1")
        for option, value, least in (
            ("--seeds", self.seeds, 1),
            ("--always", self.always, 0),
            ("--seed", self.seed, 0),
            ("--limit", self.limit, 1),
            ("--delay", self.delay, 0),
            ("--late-count", self.late_count, 1),
            ("--max-features", self.max_features, 1),
            ("--max-classes", self.max_classes, 1),
            ("--in-memory", self.in_memory, 1),
            ("--max-keys", self.max_keys, 1),
            ("--expire-after", self.expire_after, 1),
        ):
            if value is not None and value < least:
                raise BraidedError(f"{option} is {value}: give a whole number from {least} on")
        if not 0.0 < self.late_seconds < float("inf"):
            raise BraidedError(f"--late-seconds is {self.late_seconds}: give a number of seconds above 0")
        if self.id is not None and self.id == self.target:
            raise BraidedError(f"--id and --target are both {self.id!r}: give two columns")
        self.rules()
        if decisions.settings(self.decision, self.class_weight, self.costs) and self.task == REGRESSION:
            raise BraidedError("--decision, --class-weight and --costs are for classes: leave them out of a regression")
        if self.follow:
            if len(self.models) * self.seeds > 1:
                raise BraidedError(
                    f"{self.followed} takes one model and one seed: another would not see the same records"
                )
            if self.shuffle or self.available < 1.0 or self.mask != "iid" or self.always:
                raise BraidedError(
                    f"{self.followed} takes records as they come: leave out --shuffle, --mask, --available and --always"
                )

    def late_labels(self) -> LateLabels:
        """Where records wait whose labels come later on their own."""
        return LateLabels(self.late_count, self.late_seconds)

    @property
    def followed(self) -> str:
        """What to call a stream without an end in a message."""
        return "a broker's stream" if is_broker(self.stream) else "--follow"

    @property
    def key_limits(self) -> dict[str, Any]:
        """What is given of how many keys there may be, as `Fleet` takes it."""
        given = {"in_memory": self.in_memory, "max_keys": self.max_keys, "evict": self.evict}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def most_names(self) -> int:
        """How many features a stream may have: more than a model holds at a time, where they expire."""
        return self.max_features if self.expire_after is None else max(self.max_features, MAX_NAMES)

    def stored(self) -> dict[str, Any]:
        """The options as a checkpoint holds them: without a password."""
        return {**dataclasses.asdict(self), "stream": without_password(self.stream)}

    @property
    def as_published(self) -> bool:
        """Whether these are the records, masked and ordered, that published figures of this stream are about."""
        settings = PAPER_SETTINGS.get(self.stream)
        changed = self.limit is not None or self.options or self.combiner or self.drift or self.delay
        changed = changed or self.expire_after is not None or self.weight is not None or self.key is not None
        changed = changed or bool(decisions.settings(self.decision, self.class_weight, self.costs))
        if settings is None or changed or self.mask != "iid":
            return False
        usual = (settings.available, settings.always, CATALOGUE[self.stream].shuffle)
        return (self.available, self.always, self.shuffle) == usual

    def model_options(self, seed: int, base_features: tuple[Hashable, ...] = ()) -> zoo.ModelOptions:
        """What the models of this run are built from."""
        shared = {field.name for field in dataclasses.fields(self)} & set(ModelParams.names(CLASSIFICATION))
        params: dict[str, Any] = {name: getattr(self, name) for name in shared - set(DECISION_PARAMETERS) - {"delay"}}
        params |= decisions.settings(self.decision, self.class_weight, self.costs)
        params["preset"] = zoo.preset_for(self.preset, self.stream)
        params["drift_detector"] = None if self.drift is None else build(self.drift)
        params["seed"] = seed
        task = CLASSIFICATION if self.task == AUTO else self.task
        return zoo.ModelOptions(ModelParams(**params), task, self.stream, base_features, self.options)
