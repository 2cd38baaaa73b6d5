"""A ring's records of devices (layout.GPU_KINDS) in columns: tracks by stream, parents by slot."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuzk_top.columns import Packed
from cuzk_top.model import Track
from cuzk_tracer import layout, reader

DRIVER = "driver"
"""Label of the track of what belongs to no stream: the host's waits, and what recording cost."""
_BEYOND = 0xFFFFFFFFFFFFFFFF
"""More than any key of a stream: its device would be none."""
_NOWHERE = np.uint64(layout.NO_DEVICE << 32)


class GpuTracks:
    """Gives each stream of a device a track. `tracks` is the session's, `number` gives new ids."""

    def __init__(self, tracks: dict[int, Track], number: Callable[[], int]) -> None:
        self._tracks = tracks
        self._number = number
        self._ids: dict[tuple[int, int, int], int] = {}
        self._keys = np.array([_BEYOND], np.uint64)
        """Of the streams that came, in order: device, context and stream as a record has them."""
        self._key_tracks = np.zeros(1, np.uint32)
        self._launchers = np.zeros(layout.TRACK_MASK + 1, np.uint64)  # track of a slot's thread, by slot + 1

    def launches(self, slot: int, track: int) -> None:
        """A slot's thread has this track from now on."""
        if slot + 1 < len(self._launchers):
            self._launchers[slot + 1] = track

    def place(self, made: Packed, bits: NDArray[np.unsignedinteger[Any]]) -> None:
        """Put those of a ring's records that are of devices on their streams' tracks.

        `made` has the record's own fields in the columns of their names; `bits` are the records' `track`.
        """
        which = reader.IS_GPU[made.kind].nonzero()[0]
        if not len(which):
            return
        # Device in the low half of the high word, context above it, stream in the low word.
        where = made.majflt.take(which).astype(np.uint64) << np.uint64(32)
        where |= made.minflt.take(which)
        where[where >> np.uint64(32) & np.uint64(0xFFFF) == layout.NO_DEVICE] = _NOWHERE
        place = self._keys.searchsorted(where)
        if not (self._keys[place] == where).all():
            self._learn(where)
            place = self._keys.searchsorted(where)
        made.track[which] = self._key_tracks[place]
        made.minflt[which] = 0
        made.majflt[which] = 0
        made.flags[which] = 0  # those bits are a slot's number
        made.id[which] = 0
        launcher = self._launchers[bits.take(which) & layout.TRACK_MASK]
        number = made.parent.take(which) & np.uint64(0xFFFFFFFF)
        made.parent[which] = (launcher << np.uint64(32) | number) * ((number != 0) & (launcher != 0))

    def _learn(self, where: NDArray[np.uint64]) -> None:
        """Give streams that have none yet their tracks."""
        known = dict(zip(self._keys.tolist(), self._key_tracks.tolist(), strict=True))
        for key in np.unique(where).tolist():
            if key not in known:
                known[key] = self._track(key >> 32 & 0xFFFF, key >> 48, key & 0xFFFFFFFF)
        ordered = sorted(known.items())
        self._keys = np.array([key for key, _ in ordered], np.uint64)
        self._key_tracks = np.array([track for _, track in ordered], np.uint32)

    def position(self) -> list[list[int]]:
        """Which track is whose, as JSON can hold it."""
        return [[*key, track] for key, track in self._ids.items()]

    def resume(self, position: list[list[int]]) -> None:
        """Keep the tracks that `position` told of."""
        for device, context, stream, track in position:
            self._ids[int(device), int(context), int(stream)] = int(track)

    def _track(self, device: int, context: int, stream: int) -> int:
        key = (device, context, stream)
        if key not in self._ids:
            self._ids[key] = self._number()
        number = self._ids[key]
        if number not in self._tracks:
            several = any(one[0] == device and one[1] != context for one in self._ids)
            label = f"GPU{device} stream {stream}" + (f" of context {context}" if several else "")
            if device == layout.NO_DEVICE:
                label = DRIVER
            self._tracks[number] = Track(number, "gpu", label, device)
        return number
