"""What the classifier and the regressor share, and how both are saved and loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

from numpy.typing import NDArray

from braided import presets
from braided.checkpoint import pack_config, pack_name, prefixed, read, unpack_names, unprefixed, write
from braided.errors import BraidedError
from braided.estimators.decision import LIKELIEST, packed
from braided.estimators.drift import pack, restored_detector
from braided.estimators.encoder import Encoder
from braided.estimators.explaining import Explaining
from braided.estimators.features import LAST_SEEN
from braided.estimators.model_card import model_card
from braided.estimators.saved import check_numbers, describe, unpack_parameters
from braided.estimators.sparse import ZEROS_MISSING
from braided.estimators.tasks import CLASSIFICATION, REGRESSION
from braided.learners import Learner, LearnerConfig
from braided.state import check_arrays, checked, counts
from braided.streams.encode.saved import pack_encoder, restored_encoder

#: What the arrays of how sure answers are begin with; older files have none.
_COVERAGE = "coverage"


class MODL(Explaining):
    """What the classifier and the regressor share."""

    def _repr_html_(self) -> str:
        """What a notebook shows; it changes nothing."""
        return model_card(self if self.records_learned else self.clone())

    def snapshot(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything needed to go on exactly from here: JSON metadata and named arrays."""
        # A name says enough where its settings never change.
        preset: Any = self.preset if self.preset in presets.SETTLED else pack_config(self._resolved())
        metadata: dict[str, Any] = {
            "parameters": {
                "preset": preset,
                "learners": None if self.learners is None else [describe(item) for item in self.learners],
                "combiner": self.combiner,
                "seed": int(self.seed),
                "max_features": int(self.max_features),
                "max_classes": int(self.max_classes),
                "first_features": [pack_name(name) for name in self.first_features or ()],
            },
            "features": [pack_name(name) for name in self._features.slots],
            "classes": [pack_name(label) for label in self._classes.places],
        }
        arrays = self.braid.state()
        if self.delay:
            metadata["parameters"]["delay"] = int(self.delay)
        if self.zeros != ZEROS_MISSING:
            metadata["parameters"]["zeros"] = self.zeros
        if self.expire_after is not None:
            metadata["parameters"]["expire_after"] = int(self.expire_after)
            arrays[LAST_SEEN] = self._features.last_seen.copy()
        arrays |= prefixed(_COVERAGE, self._coverage.state())
        if not self._regression:
            arrays |= self._decision.state()
            if self.decision != LIKELIEST:
                metadata["parameters"]["decision"] = self.decision
            metadata["parameters"] |= packed(self.class_weight, self.costs)
        if self._watch is not None:
            metadata["drift"] = {"detector": pack(self._watch.detector.clone()), "watch": self._watch.state()}
        if self._encoder is not None:
            metadata["encode"] = pack_encoder(self._encoder)
        return metadata, arrays

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, atomically: whoever reads it finds the old file or the new one.

        A loaded model goes on exactly where this one stands, bit for bit. The file holds no code and no pickle.
        """
        write(path, type(self).__name__, *self.snapshot())

    @classmethod
    def load(cls, path: str | os.PathLike[str], learners: Sequence[LearnerConfig | Learner] | None = None) -> Self:
        """Read a model written by `save` (or by `braided run --checkpoint`).

        Parameters
        ----------
        path
            The file.
        learners
            The learners that the model was made with; needed only if some are Python objects of your own, which a file
            without code cannot bring back.
        """
        checkpoint = read(path, cls.__name__)
        return cls.restore(checkpoint.metadata, checkpoint.arrays, learners)

    @classmethod
    def restore(
        cls,
        metadata: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        learners: Sequence[LearnerConfig | Learner] | None = None,
    ) -> Self:
        """The inverse of `snapshot`; what could not have come from there is refused."""
        parameters = unpack_parameters(metadata, learners)
        if cls.task == REGRESSION:
            del parameters["max_classes"], parameters["first_features"]
        drift, encode = metadata.get("drift"), metadata.get("encode")
        if encode is not None:
            parameters["encode"] = Encoder._around(restored_encoder(encode))
        model = cls(**parameters, drift_detector=None if drift is None else restored_detector(drift))
        if model._watch is not None:
            model._watch.load_state(checked("the checkpoint's drift", drift, "watch", dict))
        features = unpack_names("features", metadata.get("features"))
        labels = [model._classes.label(label, 0) for label in unpack_names("classes", metadata.get("classes"))]
        new = [name for name in features if name not in model._features.slots]
        model._features.check_room(new)
        model._features.admit(new)
        braid = model.braid
        model._classes.check_room(labels)
        for label in labels:
            model._classes.admit(label)
        check_arrays("state of the model", {"steps": counts(1)}, arrays)
        learned = int(arrays["steps"][0]) > 0
        if (labels and cls.task == REGRESSION) or (learned and not labels and cls.task == CLASSIFICATION):
            raise BraidedError("the checkpoint's classes do not go with its task: give a file written by save")
        check_numbers(braid, len(model._features), 1 if cls.task == REGRESSION else max(2, len(labels)), arrays)
        if learned:
            model._grow()
            braid.load_state(arrays)
            if model.expire_after is not None:
                model._features.load_last_seen(arrays, model.records_learned)
            kept = unprefixed(_COVERAGE, arrays)
            if kept:
                model._coverage.load_state(kept)
            if not model._regression:
                model._decision.load_state(arrays, len(labels))
        return model
