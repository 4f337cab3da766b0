"""A fleet as JSON and arrays, in a file, and back."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

from numpy.typing import NDArray

from braided.checkpoint import pack_name, prefixed, read, unpack_name, unprefixed, write
from braided.errors import BraidedError
from braided.estimators import ESTIMATORS
from braided.fleet.facts import MOST_KEYS
from braided.fleet.keys import check_alike
from braided.fleet.single_keys import SingleKeys
from braided.state import checked

#: What a checkpoint calls one.
KIND = "Fleet"
_TEMPLATE = "template"
_WHAT = "the fleet"


class SavedFleet(SingleKeys):
    """What makes a file of a `Fleet`, and a fleet of a file."""

    def snapshot(self, encode: dict[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything needed to go on exactly from here: JSON metadata and named arrays.

        With `encode`, what makes numbers of raw records (`streams.encode.saved.pack_encoder`), the fleet that is
        restored takes such.
        """
        return self._snapshot(encode, in_parts=False)

    def snapshot_in_parts(self, encode: dict[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """The same, to be written before anything else is done: what keys have is read as it is written."""
        return self._snapshot(encode, in_parts=True)

    def _snapshot(self, encode: dict[str, Any] | None, in_parts: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        template, arrays = self.model.snapshot()
        inside, more = self._inside.snapshot(in_parts)
        if encode is not None:
            template["encode"] = inside["model"]["encode"] = encode
        metadata: dict[str, Any] = {
            "estimator": type(self.model).__name__,
            "parameters": {
                "key": pack_name(self.key),
                "share": self.share,
                "in_memory": self.in_memory,
                "max_keys": self.max_keys,
                "evict": self.evict,
            },
            "learned": self._learned,
            "template": template,
            "inside": inside,
            **({"held": True} if self.shared_is_held else {}),
            # For a digest of all that was learned.
            "features": [pack_name(name) for name in self.feature_names],
            "classes": [pack_name(label) for label in self.classes],
        }
        return metadata, {**prefixed(_TEMPLATE, arrays), **more}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fleet, with the keys on disk, to one file, atomically; see `MODLClassifier.save`."""
        write(path, KIND, *self.snapshot_in_parts())

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        learners: Sequence[Any] | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Read a fleet written by `save`, which goes on exactly where that one stood.

        Parameters
        ----------
        path
            The file.
        learners
            As of `MODLClassifier.load`.
        folder
            As of the fleet itself: a file does not say where to put keys on disk.
        """
        checkpoint = read(path, KIND)
        return cls.restore(checkpoint.metadata, checkpoint.arrays, learners, folder)

    @classmethod
    def restore(
        cls,
        metadata: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        learners: Sequence[Any] | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> Self:
        """The inverse of `snapshot`; what could not have come from there is refused."""
        kind = ESTIMATORS.get(checked(_WHAT, metadata, "estimator", str))
        if kind is None:
            raise BraidedError(f"{_WHAT}: estimator {metadata['estimator']!r:.60} is not known to this braided")
        given = checked(_WHAT, metadata, "parameters", dict)
        template = kind.restore(checked(_WHAT, metadata, "template", dict), unprefixed(_TEMPLATE, arrays), learners)
        if "key" not in given:
            raise BraidedError(f"{_WHAT}: its key is missing; give a file written by save")
        optional = {
            name: None if given.get(name) is None else checked(_WHAT, given, name, kind_of)
            for name, kind_of in (("in_memory", int), ("evict", str))
        }
        made: Any = cls
        fleet: Self = made(
            template,
            unpack_name(given["key"]),
            checked(_WHAT, given, "share", str),
            folder=folder,
            max_keys=checked(_WHAT, given, "max_keys", int, 1, MOST_KEYS),
            **optional,
        )
        fleet._learned = checked(_WHAT, metadata, "learned", int)
        inside = checked(_WHAT, metadata, "inside", dict)
        check_alike(_WHAT, metadata["template"], checked(_WHAT, inside, "model", dict), but_for=("delay",))
        fleet._inside.load(inside, arrays, learners)
        if "held" in metadata and checked(_WHAT, metadata, "held", bool):
            fleet.hold_shared()
        return fleet

    def __getstate__(self) -> dict[str, Any]:
        """As a file has it: keys on disk come along, and their folder does not."""
        return {"snapshot": self.snapshot(), "learners": self.model.learners, "folder": self.folder}

    def __setstate__(self, state: dict[str, Any]) -> None:
        metadata, arrays = state["snapshot"]
        restored = type(self).restore(metadata, arrays, state["learners"], state["folder"])
        self.__dict__.update(restored.__dict__)
