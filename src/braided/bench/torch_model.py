"""The benchmark's architecture in eager PyTorch: the same learners, sum and steps, as lean as eager allows."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.learners import MLPConfig, SetConfig


def torch_seconds(
    values: NDArray[np.float64], labels: NDArray[np.int64], mlp: MLPConfig, set_config: SetConfig, records: int
) -> float | None:
    """Seconds a record of predict and learn in PyTorch on one thread; None if it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    try:
        return _measure(torch, values, labels, mlp, set_config, records)
    finally:
        torch.set_num_threads(threads)


def _measure(
    torch: Any,
    values: NDArray[np.float64],
    labels: NDArray[np.int64],
    mlp: MLPConfig,
    set_config: SetConfig,
    records: int,
) -> float:
    nn, relu = torch.nn, torch.nn.functional.relu
    n_features, width = values.shape[1], set_config.width
    linears = [
        nn.Linear(n_in, n_out) for n_in, n_out in zip([2 * n_features, *mlp.hidden], [*mlp.hidden, 2], strict=True)
    ]
    embedding = nn.Embedding(n_features, set_config.embedding)
    encoder = nn.Linear(1 + set_config.embedding, width)
    layers = [[nn.Linear(width, width) for _ in range(set_config.layers)] for _ in range(set_config.blocks)]
    skips = [nn.Linear(width, width, bias=False) for _ in range(set_config.blocks - 1)]
    heads = [nn.Linear(width, 2, bias=False) for _ in range(set_config.blocks)]
    modules = nn.ModuleList([*linears, embedding, encoder, *skips, *heads, *(m for block in layers for m in block)])
    optimiser = torch.optim.SGD(modules.parameters(), lr=mlp.learning_rate, fused=True)
    mean = torch.zeros(1 + n_features, dtype=torch.float64)
    covariance = torch.eye(1 + n_features, dtype=torch.float64)

    def scores(x: Any, mask: Any, ids: Any) -> Any:
        h = torch.cat([x, mask])
        for linear in linears[:-1]:
            h = relu(linear(h))
        out = linears[-1](h)
        block_in = encoder(torch.cat([x[ids, None], embedding(ids)], 1)).sum(0)
        for block in range(set_config.blocks):
            h = block_in
            for layer in layers[block]:
                h = relu(layer(h))
            out = out + heads[block](h)
            if block + 1 < set_config.blocks:
                block_in = relu(skips[block](block_in) + h)
        return out

    def learn(x: Any, mask: Any, ids: Any, y: Any) -> None:
        nonlocal mean, covariance
        u = torch.cat([torch.ones(1, dtype=torch.float64), x.double()])
        a = u @ mean
        fast = torch.stack([-a / 2, a / 2]).float()
        loss = nn.functional.cross_entropy((fast + scores(x, mask, ids))[None], y)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        s = torch.sigmoid(a)
        v = s * (1 - s)
        pu = covariance @ u
        variance = 1 + v * (u @ pu)
        mean = mean + pu * ((y[0] - s) / variance)
        covariance = covariance - torch.outer(pu, pu) * (v / variance)

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
        learn(*record)
    start = time.perf_counter()
    for record in prepared:
        learn(*record)
    return (time.perf_counter() - start) / len(prepared)
