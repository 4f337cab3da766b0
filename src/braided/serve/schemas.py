"""What requests and answers look like, for the OpenAPI document. Records themselves are read by `records`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Label = str | bool | int | float
Weight = Annotated[float, Field(ge=0, description="How much the record counts; 1 if left out, and 0 to learn nothing.")]
_STRICT = ConfigDict(extra="forbid")


class ProblemDocument(BaseModel):
    """A refusal (RFC 9457)."""

    title: str
    status: int
    detail: str = Field(description="One sentence: the thing, the value, the remedy.")


class Record(BaseModel):
    """Feature names to numbers; an absent name and null both mean missing. Text is for models made with `encode`."""

    model_config = _STRICT
    x: dict[str, float | bool | str | None]


class LabelledRecord(Record):
    """A record to learn."""

    y: Label
    w: Weight = 1.0


class RecordList(BaseModel):
    """Several records."""

    model_config = _STRICT
    records: list[Record] = Field(min_length=1)


class _HowSure(BaseModel):
    interval: float | None = Field(
        default=None, gt=0, lt=1, description="For a regression: bounds that hold the value with this probability."
    )
    set: float | None = Field(
        default=None, gt=0, lt=1, description="For a classification: labels that hold the right one with it."
    )


class PredictOne(Record, _HowSure):
    """A record to predict."""

    id: str | None = Field(
        default=None, min_length=1, description="Keeps the record for its label, which may come later under this ID."
    )


class PredictSeveral(RecordList, _HowSure):
    """Several records to predict."""


class _Idempotent(BaseModel):
    client: str | None = Field(default=None, description="With a sequence number, a retry does not teach twice.")
    sequence: int | None = Field(default=None, ge=0, description="Number of the first record, counted by the client.")


class LabelledRecordList(_Idempotent):
    """Several records to learn, in this order, all or none."""

    model_config = _STRICT
    records: list[LabelledRecord] = Field(min_length=1)


class LearnOne(_Idempotent):
    """One record to learn."""

    model_config = _STRICT
    x: dict[str, float | bool | str | None]
    y: Label
    w: Weight = 1.0


class LabelRequest(BaseModel):
    """The label of a record that was observed."""

    model_config = _STRICT
    id: str
    y: Label
    w: Weight = 1.0


class Prediction(BaseModel):
    """A class with the probabilities of all, or a value; and how many records the model had learned."""

    version: int
    label: Label | None = None
    probabilities: list[float | None] | None = None
    value: float | None = None
    interval: list[float | None] | None = None
    set: list[Label] | None = None


class FeatureEffect(BaseModel):
    """What a feature adds to the probability of each class, or to the value, and to the log-odds of each class.

    That is the prediction less the mean of those with other values from the feature's own distribution.
    """

    feature: str
    adds: list[float | None]
    log_odds: list[float | None]


class FeaturePart(BaseModel):
    """A feature's part of the linear learner's score of each class, or of the value, and how sure it is."""

    feature: str
    means: list[float | None]
    sd: float | None
    estimated: bool


class LearnerShare(BaseModel):
    """A learner's share of the final score."""

    name: str
    share: float | None


class Explained(BaseModel):
    """Why a record is predicted as it is; the largest effects come first."""

    version: int
    label: Label | None = None
    probability: float | None = None
    value: float | None = None
    classes: list[Label]
    effects: list[FeatureEffect]
    learner: str | None = Field(description="The linear learner that parts are of.")
    parts: list[FeaturePart]
    shares: list[LearnerShare]


class Predictions(BaseModel):
    """One prediction per record; probabilities are in the order of `classes`."""

    classes: list[Label]
    predictions: list[Prediction]
    id: str | None = None


class Observed(BaseModel):
    """A prediction, and the ID under which its label may come."""

    id: str
    classes: list[Label]
    prediction: Prediction


class Learned(BaseModel):
    """What is durable now."""

    learned: int = Field(description="Records of this request that were learned.")
    duplicates: int = Field(description="Records of this request that had been learned before.")
    records: int = Field(description="Records that the model has been taught in all.")
    next: int | None = Field(default=None, description="The client's next sequence number.")


class ClientState(BaseModel):
    """Where a client stands."""

    client: str
    next: int


class Health(BaseModel):
    """`degraded` while something is wrong with some models, which are named with what it is."""

    status: str
    models: dict[str, str] = {}


class RestoreTo(BaseModel):
    """The moment to go back to: one of both."""

    model_config = _STRICT
    record: int | None = Field(default=None, ge=0, description="When it had learned so many records.")
    time: str | None = Field(default=None, description="ISO 8601; UTC if it has no offset.")


class Restored(BaseModel):
    """What the model is now."""

    records: int = Field(description="Records that it has been taught.")
    records_before: int = Field(description="Records that it had been taught before it went back.")
    version: int


class HistorySnapshot(BaseModel):
    """A snapshot that can be gone back to."""

    frame: int
    records: int
    time: float = Field(description="Seconds since 1970.")
    whole: bool = Field(description="Whether every record after it can be gone back to as well.")


class RestorePoints(BaseModel):
    """What a model can go back to, the oldest first."""

    records: int
    snapshots: list[HistorySnapshot]


class Quarantined(BaseModel):
    """A model that could not be opened."""

    name: str
    reason: str


class ModelBrief(BaseModel):
    """A model in a list."""

    name: str
    task: str
    records: int
    error_is: str
    error: float | None
    window_error: float | None
    alarm: str | None = Field(description="While the error of the last records is far above what it usually was.")
    records_per_second: float
    features: int
    trouble: str | None


class ModelList(BaseModel):
    """All models."""

    models: list[ModelBrief]
    quarantined: list[Quarantined]


class ModelDetails(ModelBrief):
    """A model by itself."""

    model_config = ConfigDict(extra="allow")
    features: int = 0
    records_before: int = Field(description="Records that it had learned before it came here; they have no figures.")
    plain_guesses: list[dict[str, Any]]
    learners: list[dict[str, Any]]
    availability: list[dict[str, Any]]
    classes: list[Label]
    version: int
    resets: int
    encode: dict[str, Any] | None = Field(description="How each column is read, of a model that takes raw records.")
    key: str | None = Field(default=None, description="Of a fleet, the field of a record that is its key.")
    keys: int | None = Field(default=None, description="Of a fleet, how many keys have learned something.")
    keys_in_memory: int | None = Field(default=None, description="Those of them that are in memory.")
