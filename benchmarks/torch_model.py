"""The architecture of `benchmarks/speed.py` in eager PyTorch: the same sum and steps, as lean as eager allows."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.extras import require
from braided.learners import MLPConfig, SetConfig


class TorchModel:
    """The fast learner, the MLP and the set learner (`binding="none"`, `pooling="sum"`) of two classes.

    Parameters
    ----------
    n_features
        How many features there are.
    mlp, set_config
        The configurations whose architectures are taken.
    """

    def __init__(self, n_features: int, mlp: MLPConfig, set_config: SetConfig) -> None:
        self.torch = torch = require("torch", "torch")
        nn, width = torch.nn, set_config.width
        sizes = [2 * n_features, *mlp.hidden, 2]
        self.linears = [nn.Linear(n_in, n_out) for n_in, n_out in pairwise(sizes)]
        self.embedding = nn.Embedding(n_features, set_config.embedding)
        self.encoder = nn.Linear(1 + set_config.embedding, width)
        self.layers = [[nn.Linear(width, width) for _ in range(set_config.layers)] for _ in range(set_config.blocks)]
        self.skips = [nn.Linear(width, width, bias=False) for _ in range(set_config.blocks - 1)]
        self.heads = [nn.Linear(width, 2, bias=False) for _ in range(set_config.blocks)]
        inner = [layer for block in self.layers for layer in block]
        self.modules = nn.ModuleList([*self.linears, self.embedding, self.encoder, *self.skips, *self.heads, *inner])
        self.optimiser = torch.optim.SGD(self.modules.parameters(), lr=mlp.learning_rate, fused=True)
        self.mean = torch.zeros(1 + n_features, dtype=torch.float64)
        self.covariance = torch.eye(1 + n_features, dtype=torch.float64)
        self.bias = torch.ones(1, dtype=torch.float64)

    def scores(self, x: Any, mask: Any, ids: Any) -> Any:
        """The scores of the two gradient learners, summed."""
        torch, relu = self.torch, self.torch.relu
        h = torch.cat([x, mask])
        for linear in self.linears[:-1]:
            h = relu(linear(h))
        out = self.linears[-1](h)
        block_in = self.encoder(torch.cat([x[ids, None], self.embedding(ids)], 1)).sum(0)
        for block, layers in enumerate(self.layers):
            h = block_in
            for layer in layers:
                h = relu(layer(h))
            out = out + self.heads[block](h)
            if block < len(self.skips):
                block_in = relu(self.skips[block](block_in) + h)
        return out

    def learn(self, x: Any, mask: Any, ids: Any, y: Any) -> None:
        """Predict and learn one record: cross-entropy of the sum for the networks, a Kalman step for the fast one."""
        torch = self.torch
        u = torch.cat([self.bias, x.double()])
        a = u @ self.mean
        fast = torch.stack([-a / 2, a / 2]).float()
        loss = torch.nn.functional.cross_entropy((fast + self.scores(x, mask, ids))[None], y)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        s = torch.sigmoid(a)
        v = s * (1 - s)
        pu = self.covariance @ u
        variance = 1 + v * (u @ pu)
        self.mean = self.mean + pu * ((y[0] - s) / variance)
        self.covariance = self.covariance - torch.outer(pu, pu) * (v / variance)


def torch_seconds(
    values: NDArray[np.float64], labels: NDArray[np.int64], mlp: MLPConfig, set_config: SetConfig, records: int
) -> float:
    """Seconds of the processor per record of predict and learn in PyTorch on one thread."""
    torch = require("torch", "torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    try:
        model = TorchModel(values.shape[1], mlp, set_config)
        prepared = []
        for row, label in zip(values[:records], labels[:records], strict=True):
            available = ~np.isnan(row)
            prepared.append(
                (
                    torch.tensor(np.nan_to_num(row), dtype=torch.float32),
                    torch.tensor(available, dtype=torch.float32),
                    torch.tensor(np.flatnonzero(available)),
                    torch.tensor([label]),
                )
            )
        for record in prepared[:20]:
            model.learn(*record)
        start = time.process_time()
        for record in prepared:
            model.learn(*record)
        return (time.process_time() - start) / len(prepared)
    finally:
        torch.set_num_threads(threads)
