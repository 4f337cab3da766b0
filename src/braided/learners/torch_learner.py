"""Any PyTorch module as a learner of the sum."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from braided import extras
from braided.errors import BraidedError
from braided.kernels.random import key_of
from braided.learners.protocol import Arrays

#: Scores of known features may differ by rounding after the module has grown: a longer row is added up differently.
_TOLERANCE = 1e-4


def _torch() -> Any:
    return extras.require("torch", "torch")


@contextmanager
def _drawing_from(seed: int, *parts: int | str) -> Any:
    """Draw torch's random numbers from this key, and leave the generator of the process as it was."""
    torch = _torch()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key_of(seed, *parts) >> 1)
        yield


def _to_array(name: str, tensor: Any) -> NDArray[Any]:
    """A tensor as float32, float64 or int64, whichever holds it without loss."""
    torch = _torch()
    if tensor.is_complex():
        raise BraidedError(f"tensor {name!r} is complex: a checkpoint holds real numbers; pickle the model instead")
    if tensor.dtype != torch.float64:
        tensor = tensor.to(torch.float32 if tensor.is_floating_point() else torch.int64)
    array: NDArray[Any] = tensor.detach().cpu().numpy().copy()
    return array


def _put_in_corner(old: Any, new: Any) -> None:
    """Copy a tensor into the corner of a larger one, in place."""
    if old.dim() != new.dim() or any(a > b for a, b in zip(old.shape, new.shape, strict=True)):
        raise BraidedError(
            f"a module of the torch learner grew from shape {tuple(old.shape)} to {tuple(new.shape)}: every dimension "
            "must stay or grow, or give a module with a method grow(n_features, n_outputs)"
        )
    new[tuple(slice(0, n) for n in old.shape)] = old


class TorchLearner:
    """A PyTorch module that is one learner among others, trained by the gradient of the sum.

    The module turns one record, without a batch dimension, into one score per output, (n_outputs,). It is called

        module(values, mask)    inputs="masked": two float tensors, (n_features,); a missing value is 0 in both
        module(values, ids)     inputs="set": the available values, (n,), and their features' numbers, int64, (n,)

    in evaluation mode to predict, and in training mode to learn: scores.backward(g) with g = dL/dscores of the
    combiner, then one step of the optimiser.

    Features and classes grow. A module from a factory is then made again with the larger sizes, and every parameter and
    buffer is copied into the corner of its successor, the optimiser's moments likewise (what is new of them starts at
    zero). For this to leave what is known unchanged, inputs must lie feature by feature:
    `torch.stack([values, mask], -1).flatten()`, never `torch.cat([values, mask])`, in which a new feature moves all
    masks. A factory that breaks this is refused before anything is learned: two of its modules are compared, one with
    a feature more. What is said of known classes is compared when the module grows.

    Parameters
    ----------
    module
        A factory, module(n_features, n_outputs) -> nn.Module, which may be the module's class; or a module with a
        method grow(n_features, n_outputs) of its own, which keeps its promises by itself.
    optimizer
        A factory from parameters to an optimiser: functools.partial(torch.optim.Adam, lr=0.001).
    inputs
        `masked` or `set`.
    seed
        Fixes the initial weights and any dropout; the random numbers of the process are neither used nor moved.
    name
        In reports.

    Examples
    --------
    >>> from functools import partial
    >>> import numpy as np, torch
    >>> class Linear(torch.nn.Module):
    ...     def __init__(self, n_features, n_outputs):
    ...         super().__init__()
    ...         self.layer = torch.nn.Linear(2 * n_features, n_outputs)
    ...     def forward(self, values, mask):
    ...         return self.layer(torch.stack([values, mask], -1).flatten())
    >>> learner = TorchLearner(Linear, partial(torch.optim.SGD, lr=0.5))
    >>> learner.grow(2, 2)
    >>> x, mask = np.array([1.0, 0.0], dtype=np.float32), np.array([True, False])
    >>> before = learner.scores(x, mask)
    >>> learner.learn(x, mask, 1, np.array([0.5, -0.5], dtype=np.float32))
    True
    >>> (learner.scores(x, mask) - before).round(3).tolist()
    [-0.75, 0.75]
    """

    def __init__(
        self,
        module: Any,
        optimizer: Callable[[Iterable[Any]], Any],
        inputs: Literal["masked", "set"] = "masked",
        seed: int = 0,
        name: str = "torch",
    ) -> None:
        torch = _torch()
        if inputs not in ("masked", "set"):
            raise BraidedError(f"TorchLearner.inputs is {inputs!r}: use 'masked' or 'set'")
        grows = isinstance(module, torch.nn.Module) and callable(getattr(module, "grow", None))
        if not callable(module) or (isinstance(module, torch.nn.Module) and not grows):
            raise BraidedError(
                f"TorchLearner.module is {type(module).__name__}: give a class or function "
                "module(n_features, n_outputs) -> nn.Module, or a module with a method grow(n_features, n_outputs)"
            )
        if not callable(optimizer):
            raise BraidedError(
                f"TorchLearner.optimizer is {type(optimizer).__name__}: give a function from parameters to an "
                "optimiser, such as functools.partial(torch.optim.Adam, lr=0.001)"
            )
        self.module = module
        self.optimizer = optimizer
        self.inputs = inputs
        self.seed = seed
        self.name = name
        self.n_features = 0
        self.n_outputs = 0
        self.steps = 0
        self.plasticity = 1.0
        self._grows_itself = grows
        self._module: Any = None
        self._optimizer: Any = None
        self._rates: list[Any] = []

    def _made(self, n_features: int, n_outputs: int) -> Any:
        """A fresh module of these sizes."""
        with _drawing_from(self.seed, self.name, n_features, n_outputs):
            if self._grows_itself:
                made = copy.deepcopy(self.module)
                made.grow(n_features, n_outputs)
            else:
                made = self.module(n_features, n_outputs)
        return made

    def _call(self, module: Any, x: NDArray[np.float32], mask: NDArray[np.bool_]) -> Any:
        torch = _torch()
        if self.inputs == "masked":
            scores = module(torch.from_numpy(x), torch.from_numpy(mask.astype(np.float32)))
        else:
            ids = np.flatnonzero(mask)
            scores = module(torch.from_numpy(x[ids]), torch.from_numpy(ids))
        if not torch.is_tensor(scores) or not scores.is_floating_point():
            kind = str(scores.dtype) if torch.is_tensor(scores) else type(scores).__name__
            raise BraidedError(
                f"the module of learner {self.name!r} gives {kind}: it must give a float tensor, one score per output"
            )
        return scores.reshape(-1)

    def _check_scores(self, scores: Any) -> None:
        if tuple(scores.shape) != (self.n_outputs,):
            raise BraidedError(
                f"the module of learner {self.name!r} gives {scores.shape[0]} scores for {self.n_outputs} outputs: "
                "it must give one per output"
            )

    def _scores(self, module: Any, x: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        """What a module says, in evaluation mode."""
        torch = _torch()
        module.eval()
        with torch.no_grad(), _drawing_from(self.seed, self.name, "scores"):
            scores: NDArray[np.float32] = self._call(module, x, mask).to(torch.float32).numpy().copy()
        return scores

    def scores(self, x: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        """The scores of one record, (n_outputs,)."""
        scores = self._scores(self._module, x, mask)
        self._check_scores(scores)
        return scores

    def learn(self, x: NDArray[np.float32], mask: NDArray[np.bool_], y: float, gradient: NDArray[np.float32]) -> bool:
        """One step by the gradient of the sum; false, and everything as before, if anything would not be finite."""
        torch = _torch()
        module, optimizer = self._module, self._optimizer
        before = [tensor.detach().clone() for tensor in self._tensors(module).values()]
        state_before = copy.deepcopy(optimizer.state_dict())
        step, self.steps = self.steps, self.steps + 1
        module.train()
        optimizer.zero_grad()
        with _drawing_from(self.seed, self.name, "learn", step):
            scores = self._call(module, x, mask)
            self._check_scores(scores)
            scores.backward(torch.from_numpy(gradient).to(scores.dtype))
            optimizer.step()
        optimizer.zero_grad()
        fine = all(bool(torch.isfinite(tensor).all()) for tensor in self._tensors(module).values())
        if not fine:
            with torch.no_grad():
                for tensor, old in zip(self._tensors(module).values(), before, strict=True):
                    tensor.copy_(old)
            optimizer.load_state_dict(state_before)
        return fine

    @staticmethod
    def _tensors(module: Any) -> dict[str, Any]:
        """Parameters, then buffers, by name."""
        return {**dict(module.named_parameters()), **dict(module.named_buffers())}

    def grow(self, n_features: int, n_outputs: int) -> None:
        """Make room; parameters, buffers and the optimiser's state keep their corner."""
        torch = _torch()
        if (n_features, n_outputs) == (self.n_features, self.n_outputs):
            return
        old, old_optimizer = self._module, self._optimizer
        if self._grows_itself and old is not None:
            shapes = {name: tensor.detach().clone() for name, tensor in self._tensors(old).items()}
            names = [name for name, _ in old.named_parameters()]
            with _drawing_from(self.seed, self.name, n_features, n_outputs):
                old.grow(n_features, n_outputs)
            new = old
        else:
            new = self._made(n_features, n_outputs)
            if not isinstance(new, torch.nn.Module):
                raise BraidedError(
                    f"the factory of learner {self.name!r} gave {type(new).__name__}: it must give an nn.Module"
                )
            shapes = {} if old is None else self._tensors(old)
            names = [] if old is None else [name for name, _ in old.named_parameters()]
            self._put_in_corners(shapes, new)
            if old is None:
                self._check_layout(n_features, n_outputs)
            else:
                self._check_known(old, new, self.n_features, n_features)
        optimizer = self.optimizer(new.parameters())
        self._rates = [group["lr"] for group in optimizer.param_groups]
        if old is not None:
            self._carry(old_optimizer, names, shapes, new, optimizer)
        self._module, self._optimizer = new, optimizer
        self.n_features, self.n_outputs = n_features, n_outputs
        self.raise_plasticity(self.plasticity, fresh=False)

    def raise_plasticity(self, factor: float, fresh: bool) -> None:
        """Steps `factor` times as long, because the stream has changed."""
        self.plasticity = factor
        if self._optimizer is not None:
            for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
                group["lr"] = rate * factor if factor != 1.0 else rate

    def _put_in_corners(self, tensors: Mapping[str, Any], module: Any) -> None:
        """Copy tensors into the corners of those of the same name in a larger module."""
        with _torch().no_grad():
            for name, tensor in self._tensors(module).items():
                if name in tensors:
                    _put_in_corner(tensors[name], tensor)

    def _check_layout(self, n_features: int, n_outputs: int) -> None:
        """Refuse a factory whose modules could not grow by a feature, while nothing is learned yet."""
        torch = _torch()
        n = max(n_features, 2)  # with a single feature there is nothing to be moved
        try:
            small, large = self._made(n, n_outputs), self._made(n + 1, n_outputs)
            # Layers may start at zero, which would hide everything.
            with torch.no_grad(), _drawing_from(self.seed, self.name, "layout"):
                for parameter in small.parameters():
                    if parameter.is_floating_point():
                        parameter.add_(0.1 * torch.randn_like(parameter))
            self._put_in_corners(self._tensors(small), large)
            self._check_known(small, large, n, n + 1)
        except BraidedError:
            raise
        except Exception:
            return  # a factory for these sizes alone, which is as good as another while none of them grows

    def _check_known(self, old: Any, new: Any, n_known: int, n_features: int) -> None:
        """Refuse a module that says something else of features it knew before it grew."""
        x = np.linspace(0.5, 1.5, n_known, dtype=np.float32)
        known = np.ones(n_known, dtype=np.bool_)
        known[n_known // 2 :: 3] = n_known == 1
        x[~known] = 0.0
        fresh = np.zeros(n_features - n_known, dtype=np.float32)
        before = self._scores(old, x, known)
        after = self._scores(new, np.concatenate([x, fresh]), np.concatenate([known, fresh > 0]))
        if not np.allclose(before, after[: before.size], rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True):
            raise BraidedError(
                f"the module of learner {self.name!r} says something else of the {n_known} features it knew "
                f"when it grows to {n_features}: lay inputs out feature by feature, as in "
                "torch.stack([values, mask], -1).flatten(), or give a module with a method grow(n_features, n_outputs)"
            )

    @staticmethod
    def _carry(old: Any, names: list[str], shapes: Mapping[str, Any], module: Any, new: Any) -> None:
        """Give the new optimiser the state of the old one, moments in the corner of what they belong to."""
        torch = _torch()
        state = old.state_dict()["state"]
        carried: dict[int, dict[str, Any]] = {}
        for place, (name, parameter) in enumerate(module.named_parameters()):
            if name not in names or names.index(name) not in state:
                continue
            carried[place] = {}
            for key, value in state[names.index(name)].items():
                if torch.is_tensor(value) and value.shape == shapes[name].shape and value.dim() > 0:
                    grown = torch.zeros_like(parameter, dtype=value.dtype)
                    _put_in_corner(value, grown)
                    value = grown
                carried[place][key] = value
        new.load_state_dict({"state": carried, "param_groups": new.state_dict()["param_groups"]})

    def reset(self) -> None:
        """Return to the initial weights of the sizes in use, and a fresh optimiser."""
        self._module = self._made(self.n_features, self.n_outputs)
        self._optimizer = self.optimizer(self._module.parameters())
        self.raise_plasticity(self.plasticity, fresh=False)

    def state(self) -> Arrays:
        """The module's parameters and buffers, the optimiser's state, and the number of steps."""
        arrays = {f"module/{name}": _to_array(name, tensor) for name, tensor in self._tensors(self._module).items()}
        for place, values in self._optimizer.state_dict()["state"].items():
            for key, value in values.items():
                arrays |= self._optimizer_array(f"optimizer/{place}/{key}", value)
        return {**arrays, "steps": np.array([self.steps], dtype=np.int64)}

    @staticmethod
    def _optimizer_array(name: str, value: Any) -> Arrays:
        """One entry of the optimiser's state; its kind is in the name, so that it comes back as what it was."""
        if value is None:
            return {}
        if _torch().is_tensor(value):
            return {f"{name}/tensor": _to_array(name, value)}
        if isinstance(value, int | float):
            return {f"{name}/{type(value).__name__}": np.array([value], dtype=np.float64)}
        raise BraidedError(
            f"{name} of the torch learner is a {type(value).__name__}, which a checkpoint cannot hold: "
            "use another optimiser, or pickle the model"
        )

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a `state` of a learner with the same module and optimiser, and the same sizes."""
        torch = _torch()
        tensors = self._tensors(self._module)
        for name, tensor in tensors.items():
            found = arrays.get(f"module/{name}")
            if found is None or found.shape != tuple(tensor.shape):
                shape = "nothing" if found is None else found.shape
                raise BraidedError(
                    f"state of learner {self.name!r}: array {name!r} should have shape {tuple(tensor.shape)}, found "
                    f"{shape}; the state belongs to another module"
                )
        with torch.no_grad():
            for name, tensor in tensors.items():
                tensor.copy_(torch.from_numpy(arrays[f"module/{name}"].copy()))
        state: dict[int, dict[str, Any]] = {}
        for name, array in arrays.items():
            if name.startswith("optimizer/"):
                place, key, kind = name.removeprefix("optimizer/").split("/")
                value = torch.from_numpy(array.copy()) if kind == "tensor" else array[0].item()
                state.setdefault(int(place), {})[key] = int(value) if kind == "int" else value
        self._optimizer = self.optimizer(self._module.parameters())
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": state, "param_groups": groups})
        self.steps = int(arrays["steps"][0])
        self.raise_plasticity(self.plasticity, fresh=False)
