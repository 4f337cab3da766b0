"""Time per record of deep-river's plain MLP, 3 x 250, SGD; run by the interpreter of an environment of its own.

Prints microseconds of the processor for one `predict_proba_one` and one `learn_one`. Knows nothing of braided.
"""

from __future__ import annotations

import json
import sys
import time
import warnings


def main() -> None:
    """Read records from standard input as JSON, learn the first half, time the second."""
    warnings.simplefilter("ignore")
    import torch
    from deep_river.classification import Classifier
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows, labels = json.load(sys.stdin)
    width, n_features = 250, len(rows[0])
    module = nn.Sequential(
        nn.Linear(n_features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, 2),
    )  # fmt: skip
    model = Classifier(module=module, loss_fn="cross_entropy", optimizer_fn="sgd", lr=0.01)
    half = len(rows) // 2
    start = 0.0
    for i, (x, y) in enumerate(zip(rows, labels, strict=True)):
        if i == half:
            start = time.process_time()
        model.predict_proba_one(x)
        model.learn_one(x, y)
    print(1e6 * (time.process_time() - start) / (len(rows) - half))


if __name__ == "__main__":
    main()
