"""What requests and answers look like, for the OpenAPI document. Records themselves are read by `records`."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

Value = str | bool | int | float
Weight = Annotated[float, Field(ge=0, description="How much the record counts; 1 if left out, and 0 to learn nothing.")]
Level = Annotated[float, Field(gt=0, lt=1)]
Features = dict[str, float | bool | str | None]
_strict = with_config(ConfigDict(extra="forbid"))


class ProblemDocument(TypedDict):
    """A refusal (RFC 9457); `detail` is one sentence: the thing, the value, the remedy."""

    title: str
    status: int
    detail: str


@_strict
class Record(TypedDict):
    """Feature names to numbers; an absent name and null both mean missing. Text is for models made with `encode`."""

    x: Features


@_strict
class LabelledRecord(Record):
    """A record to learn."""

    y: Value
    w: NotRequired[Weight]


class _Sure(TypedDict):
    interval: NotRequired[Annotated[Level, Field(description="Of numbers: bounds that hold it with this probability.")]]
    set: NotRequired[Annotated[Level, Field(description="Of classes: labels that hold the right one with it.")]]


@_strict
class PredictOne(_Sure):
    """A record to predict. With an `id` it waits for its label, which may come later under that ID."""

    x: Features
    id: NotRequired[Annotated[str, Field(min_length=1)]]


@_strict
class PredictSeveral(_Sure):
    """Several records to predict."""

    records: Annotated[list[Record], Field(min_length=1)]


class _Idempotent(TypedDict):
    client: NotRequired[Annotated[str, Field(description="With a sequence number, a retry does not teach twice.")]]
    sequence: NotRequired[Annotated[int, Field(ge=0, description="Number of the first record, counted by the client.")]]


@_strict
class LearnOne(_Idempotent):
    """One record to learn."""

    x: Features
    y: Value
    w: NotRequired[Weight]


@_strict
class LearnSeveral(_Idempotent):
    """Several records to learn, in this order, all or none."""

    records: Annotated[list[LabelledRecord], Field(min_length=1)]


@_strict
class Label(TypedDict):
    """The label of a record that was observed."""

    id: str
    y: Value
    w: NotRequired[Weight]


@_strict
class Restore(TypedDict):
    """The moment to go back to: a number of records, or a time in ISO 8601 (UTC if it has no offset) or in seconds."""

    record: NotRequired[Annotated[int, Field(ge=0)]]
    time: NotRequired[str | float]


class Prediction(TypedDict):
    """A label with the probabilities of all, or a value; `version` is how many records the model had learned."""

    version: int
    label: NotRequired[Value | None]
    probabilities: NotRequired[list[float | None]]
    value: NotRequired[float | None]
    interval: NotRequired[list[float | None]]
    set: NotRequired[list[Value]]


class Predictions(TypedDict):
    """One prediction per record; probabilities are in the order of `classes`."""

    classes: list[Value]
    predictions: list[Prediction]
    id: NotRequired[str]


class Observed(TypedDict):
    """A prediction, and the ID under which its label may come."""

    id: str
    classes: list[Value]
    prediction: Prediction


class FeatureEffect(TypedDict):
    """What a feature adds to the probability of each class, or to the value, and to the log-odds of each class.

    That is the prediction less the mean of those with other values from the feature's own distribution.
    """

    feature: str
    adds: list[float | None]
    log_odds: list[float | None]


class FeaturePart(TypedDict):
    """A feature's part of the linear learner's score of each class, or of the value, and how sure it is."""

    feature: str
    means: list[float | None]
    sd: float | None
    estimated: bool


class LearnerShare(TypedDict):
    """A learner's share of the final score."""

    name: str
    share: float | None


class Explained(TypedDict):
    """Why a record is predicted as it is; the largest effects come first. `learner` is the one that `parts` are of."""

    version: int
    label: NotRequired[Value | None]
    probability: NotRequired[float | None]
    value: NotRequired[float | None]
    classes: list[Value]
    effects: list[FeatureEffect]
    learner: str | None
    parts: list[FeaturePart]
    shares: list[LearnerShare]


class Learned(TypedDict):
    """What is durable now: records of this request that were learned, and those that had been learned before.

    `records` are those that the model has been taught in all, and `next` is the client's next sequence number.
    """

    learned: int
    duplicates: int
    records: int
    next: NotRequired[int]


class Client(TypedDict):
    """Where a client stands: its next sequence number."""

    client: str
    next: int


class Health(TypedDict):
    """`degraded` while something is wrong with some models, which are named with what it is."""

    status: str
    models: NotRequired[dict[str, str]]


class Restored(TypedDict):
    """What the model is now: records that it has been taught, and had been before it went back."""

    records: int
    records_before: int
    version: int


class HistorySnapshot(TypedDict):
    """A snapshot: the number of its last request, the records learned by then, and when (seconds since 1970)."""

    request: int
    records: int
    time: float


class History(TypedDict):
    """The snapshots of a model, the oldest first. It can go back to any record since the oldest."""

    records: int
    snapshots: list[HistorySnapshot]


class Quarantined(TypedDict):
    """A model that could not be opened."""

    name: str
    reason: str


class ModelBrief(TypedDict):
    """A model in a list; `alarm` says so while the error of the last records is far above what it usually was."""

    name: str
    task: str
    records: int
    error_is: str
    error: float | None
    window_error: float | None
    alarm: str | None
    records_per_second: float
    features: int
    trouble: str | None


class ModelList(TypedDict):
    """All models."""

    models: list[ModelBrief]
    quarantined: list[Quarantined]


@with_config(ConfigDict(extra="allow"))
class ModelDetails(ModelBrief):
    """A model by itself; `records_before` it had learned before it came here, and they have no figures.

    `encode` says how each column is read, of a model that takes raw records; `key`, `keys` and `keys_in_memory` are
    told of a fleet.
    """

    records_before: int
    plain_guesses: list[dict[str, Any]]
    learners: list[dict[str, Any]]
    availability: list[dict[str, Any]]
    classes: list[Value]
    version: int
    resets: int
    encode: dict[str, Any] | None
    key: NotRequired[str]
    keys: NotRequired[int]
    keys_in_memory: NotRequired[int]
