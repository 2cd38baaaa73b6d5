"""A ring's records of devices (layout.GPU_KINDS) as columns: tracks by stream, parents by slot."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cuzk_top.model import Columns, Track
from cuzk_tracer import layout, reader

DRIVER = "driver"
"""Label of the track of what belongs to no stream: the host's waits, and what recording cost."""


class GpuTracks:
    """Gives each stream of a device a track. `tracks` is the session's, `number` gives new ids."""

    def __init__(self, tracks: dict[int, Track], number: Callable[[], int]) -> None:
        self._tracks = tracks
        self._number = number
        self._ids: dict[tuple[int, int, int], int] = {}

    def place(self, columns: Columns, rows: reader.Rows, slots: dict[int, int]) -> Columns:
        """The columns of a ring's rows with those of devices put on their streams' tracks.

        `slots` is the track that each slot's thread has now; `columns` are rows of `rows` in order.
        """
        gpu = reader.IS_GPU[columns.kind]
        if not gpu.any():
            return columns
        device, context = rows["majflt"] & np.uint32(0xFFFF), rows["majflt"] >> np.uint32(16)
        stream = rows["minflt"].copy()
        nowhere = device == layout.NO_DEVICE
        context[nowhere] = 0
        stream[nowhere] = 0
        where = np.stack([device, context, stream], axis=1)[gpu]
        kinds, inverse = np.unique(where, axis=0, return_inverse=True)
        track = columns.track.copy()
        ids = np.array([self._track(*map(int, one)) for one in kinds], np.uint32)
        track[gpu] = ids[inverse.reshape(-1)]
        zero = np.where(gpu, np.uint32(0), columns.minflt), np.where(gpu, np.uint32(0), columns.majflt)
        return columns.replace(
            track=track,
            minflt=zero[0],
            majflt=zero[1],
            id=np.where(gpu, np.uint64(0), columns.id),
            parent=np.where(gpu, _parents(rows, slots), columns.parent),
            flags=np.where(gpu, np.uint8(0), columns.flags),  # those bits are a slot's number
        )

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


def _parents(rows: reader.Rows, slots: dict[int, int]) -> NDArray[np.uint64]:
    """The session-wide ids of the spans that launched these."""
    slot = (rows["track"] & layout.TRACK_MASK).astype(np.int64)
    table = np.zeros(layout.TRACK_MASK + 1, np.uint64)
    for number, track in slots.items():
        if number + 1 < len(table):
            table[number + 1] = track
    parent: NDArray[np.uint64] = np.where(
        (rows["parent"] == 0) | (table[slot] == 0),
        np.uint64(0),
        table[slot] << np.uint64(32) | rows["parent"].astype(np.uint64),
    )
    return parent
