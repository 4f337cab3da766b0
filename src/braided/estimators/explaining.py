"""Why a model answers as it does: what its answer is without a feature, or without a column."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from braided import checks
from braided.errors import BraidedError
from braided.estimators.chunk_learning import ChunkLearning
from braided.estimators.columns import by_column, columns_of
from braided.estimators.explain import VALUE, Explanation, explain, left_out

#: What may be left out of a raw record to explain an answer.
COLUMN, FEATURE = BY = ("column", "feature")


class Explaining(ChunkLearning):
    """Explains answers for single records."""

    def effects_one(
        self,
        x: Mapping[Hashable, Any],
        features: Iterable[Hashable] | Mapping[Hashable, Sequence[Hashable]] | None = None,
        by: str = COLUMN,
    ) -> dict[Hashable, dict[Hashable, float]]:
        """Feature -> label -> what the feature adds to the label's probability; of numbers, to the `"value"`.

        That is the prediction less the one for the record without the feature. Of several features that say the same,
        each adds little.

        Parameters
        ----------
        x
            The record.
        features
            Those to leave out, each by itself; all that the record has if not given. A mapping has names for features
            that are left out together.
        by
            Of a raw record, whether a `column` is left out, with all the features that it becomes, or each `feature` by
            itself. Both are the same for a record of numbers.
        """
        checks.choice("by", by, BY)
        if self._encoder is None:
            return self._effects(x, features)
        return self._effects(*self._encoded_groups(x, features, by))

    def _encoded_groups(
        self, x: Mapping[Hashable, Any], features: Any, by: str
    ) -> tuple[dict[Hashable, float], Iterable[Hashable] | Mapping[Hashable, Sequence[Hashable]] | None]:
        """A raw record's features, and which of them to leave out together."""
        assert self._encoder is not None
        encoded = self._encoder.encode_one(x, learn=False)
        if by == FEATURE or isinstance(features, Mapping):
            return encoded, features
        groups = by_column(encoded, columns_of(self._encoder))
        if features is None:
            return encoded, groups
        return encoded, {name: groups.get(name, [name]) for name in features}

    def _effects(
        self,
        x: Mapping[Hashable, Any],
        features: Iterable[Hashable] | Mapping[Hashable, Sequence[Hashable]] | None,
    ) -> dict[Hashable, dict[Hashable, float]]:
        row = self._features.row(x, self.records_learned + 1)
        if self.records_learned == 0:
            raise BraidedError("the model has learned nothing yet, so there is nothing to explain")
        slots = self._features.slots
        groups = features if isinstance(features, Mapping) else {name: [name] for name in features or ()}
        if features is None:
            groups = {name: [name] for name in x}
        found = {
            name: [slots[one] for one in group if one in slots and not np.isnan(row[slots[one]])]
            for name, group in groups.items()
        }
        wanted = {name: group for name, group in found.items() if group}
        lost = left_out(self.braid, row, list(wanted.values()))
        labels: list[Hashable] = [VALUE] if self._regression else self.classes
        if not self._regression and len(labels) == 1:
            lost = np.zeros_like(lost)
        return {
            name: {label: -float(change) for label, change in zip(labels, row_lost, strict=False)}
            for name, row_lost in zip(wanted, lost.tolist(), strict=True)
        }

    def explain_one(
        self, x: Mapping[Hashable, Any], features: Iterable[Hashable] | None = None, by: str = COLUMN
    ) -> Explanation:
        """What each feature adds to the answer; and, of the fast learner, its score's parts and how sure they are.

        `effects` are of the whole model, each feature left out by itself (or those among `features`): missing features
        are nothing unusual to it, so that these are exact. Of a raw record they are of its columns, unless `by` is
        `feature`; see `effects_one`. `contributions` are the fast learner's own, where there is
        one; a missing feature is in it by its estimate, and `estimated` names it. `shares` are of all learners.

        Examples
        --------
        >>> from braided import MODLClassifier
        >>> from river import datasets
        >>> model = MODLClassifier()
        >>> for x, y in datasets.Phishing():
        ...     model.learn_one(x, y)
        >>> explanation = model.explain_one({"empty_server_form_handler": 0.0, "ip_in_url": 1, "https": None})
        >>> explanation.top_effects(1)[0][0], sorted(explanation.effects)
        ('empty_server_form_handler', ['empty_server_form_handler', 'ip_in_url'])
        >>> sorted(explanation.contributions.keys() - explanation.estimated)
        ['empty_server_form_handler', 'ip_in_url']
        >>> explanation.top(1)[0][0]
        'empty_server_form_handler'
        """
        checks.choice("by", by, BY)
        groups: Any = features
        if self._encoder is not None:
            x, groups = self._encoded_groups(x, features, by)
        effects = self._effects(x, groups)
        row = self._features.row(x, self.records_learned)
        place = 0
        if not self._regression:
            predictions = self.braid.run(row[None, :], None, None)[0][:, : len(self._classes)]
            decided = self._decided(predictions)
            place = int(predictions.argmax() if decided is None else decided[0])
        found = explain(self.braid, row, self.feature_names, self.classes, self.learner_names, place)
        return replace(found, effects=effects)
