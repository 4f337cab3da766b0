"""Keys of a fleet that are forgotten, taken out of it, or put into it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.fleet.facts import NONE, OLDEST, FleetFacts
from braided.fleet.keys import restored_text
from braided.option_names import option
from braided.state import checked
from braided.streams.encode.saved import pack_encoder
from braided.values import key_text, shown

_WHAT = "the fleet"


class SingleKeys(FleetFacts):
    """What a `Fleet` does with one key alone."""

    #: Of what keys share, once it is held.
    _shared_digest = ""

    def hold_shared(self) -> None:
        """Let keys alone learn from now on: what they share stays as it is.

        That is the shared model, what makes numbers of raw records and, under `braid`, the fleet's weights, its units,
        the standardisation, and which features and classes there are. What is said of a key then depends on its own
        records alone, so that keys may be learned in any order, or on many machines. Under `braid`, a record with a
        label that the shared model does not know is predicted and teaches its key nothing. There is no way back.
        """
        if self.share != NONE and not self._inside.model.records_learned:
            raise BraidedError("the fleet has learned nothing that keys could share: let it learn first")
        encoder = self.encoder
        if encoder is not None and not encoder.kinds:
            raise BraidedError("the fleet has seen no column that encode=True could settle: let it learn first")
        self._inside.hold()
        self._shared_digest = self._inside.digest()
        if encoder is not None:
            settled = json.dumps(pack_encoder(encoder), sort_keys=True)
            self._shared_digest = hashlib.sha256((self._shared_digest + settled).encode()).hexdigest()

    def _known(self, key: Any) -> str:
        text = key_text(key, self.key)
        if text is None or text not in self._inside.known:
            raise BraidedError(f"key {shown(key)} is not known to the fleet: give one of its keys")
        return text

    def _check_apart(self) -> None:
        """Refuse to take keys away from what they share while that still learns."""
        if self.share != NONE and not self.shared_is_held:
            raise BraidedError("the fleet still learns what its keys share: call hold_shared before one is taken apart")

    def forget_key(self, key: Any) -> None:
        """Forget a key, as if it were new; what was shared with others has learned from it, and stays."""
        self._inside.forget_key(self._known(key))

    def snapshot_key(self, key: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What one key has of its own, for `restore_key` of a fleet that shares the same, and holds it."""
        self._check_apart()
        text = self._known(key)
        own, arrays = self._inside.snapshot_key(text)
        return {"text": text, "share": self.share, "shared": self._shared_digest, "own": own}, arrays

    def restore_key(self, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Let a key have what `snapshot_key` gave, whatever it had before; what could not be that is refused."""
        self._check_apart()
        key = self._restored_key(metadata)
        if checked(_WHAT, metadata, "share", str) != self.share:
            raise BraidedError(f"the key is of a fleet with share={metadata['share']!r:.60}: give one of this fleet's")
        if checked(_WHAT, metadata, "shared", str) != self._shared_digest:
            raise BraidedError("the key has learned beside another shared model: give the fleet that it is from")
        if key not in self._inside.known:
            self._check_room({key}, self._learned + 1)
        own = checked(_WHAT, metadata, "own", dict)
        self._learned += self._inside.restore_key(key, own, arrays, self.model.learners)

    def _restored_key(self, metadata: Mapping[str, Any]) -> str:
        typed = "text" not in metadata
        key = restored_text(_WHAT, metadata.get("key" if typed else "text"), typed)
        if key is None:
            raise BraidedError(f"{_WHAT}: its key is blank, and cannot be one; leave it out")
        return key

    def _check_room(self, new: set[str], record: int, n_keys: int | None = None) -> None:
        known = self.n_keys if n_keys is None else n_keys
        if self.evict is None and known + len(new) > self.max_keys:
            raise BraidedError(
                f"record {record} or one after it brings key number {self.max_keys + 1:,}, and max_keys is "
                f"{self.max_keys:,}: raise {option('max_keys')}, or give {option('evict', OLDEST)}"
            )
