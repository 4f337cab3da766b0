"""An estimator as a notebook shows it: what it is made of, and how far it has come."""

from __future__ import annotations

from typing import Any

from braided import notebook


def model_card(model: Any) -> str:
    """The card of a `MODLClassifier` or `MODLRegressor`."""
    learned = model.records_learned
    preset = model.preset if isinstance(model.preset, str) else "a preset of its own"
    about = f"preset {preset}, combiner {model.braid.combiner.name}, seed {model.seed}"
    about += f", labels {model.delay:,} records late" if model.delay else ""
    figures = [(f"{learned:,}", "records learned"), (f"{model.n_features:,}", "features")]
    if model.task == "classification":
        figures.append((f"{len(model.classes):,}", "classes"))
    if model.drift_detector is not None:
        figures.append((f"{model.drifts:,}", "drifts"))
    health = model.health
    failed = any(one["skipped"] or one["resets"] for one in health.values())
    learners = zip(health.items(), model.braid.learners, strict=True)
    rows = [
        [name, type(learner).__name__, *([one["skipped"], one["resets"]] if failed else [])]
        for (name, one), learner in learners
    ]
    header = ["learner", "", *(["skipped", "resets"] if failed else [])]
    return notebook.card(type(model).__name__, about, figures, notebook.table(header, rows, words=2))
