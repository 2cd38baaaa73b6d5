"""Makes test traces of what cannot be provoked at will, by editing recorded ones. Their metadata says so.

python tests/data/stalls/edit.py clock IN.cuzk OUT.cuzk   halves the SM clock in the middle third
python tests/data/stalls/edit.py lost IN.cuzk OUT.cuzk    GPU 0 falls off the bus after three quarters
python tests/data/stalls/edit.py plain IN.cuzk OUT.cuzk   only takes out where it was recorded
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from cuzk_top import packing, trace
from cuzk_top.model import FLAG_F64, KIND_COUNTER, KIND_INSTANT, Columns, Name, Run


def edited(what: str, opened: trace.Trace) -> trace.Trace:
    """The trace with one thing changed."""
    session = opened.session.copy()
    columns = opened.columns
    low, high = int(columns.start_ns.min()), opened.now_ns
    if what == "clock":
        names = [i for i, name in enumerate(session.names) if re.fullmatch(r"gpu\.\d+\.clock", name.text)]
        at = columns.end_ns
        slow = (columns.kind == KIND_COUNTER) & np.isin(columns.name, names) & (columns.flags & FLAG_F64 != 0)
        slow &= (at >= low + (high - low) // 3) & (at < low + 2 * (high - low) // 3)
        halved = (columns.a0.view(np.float64) / 2).view(np.int64)
        columns = columns.replace(a0=np.where(slow, halved, columns.a0))
        session.meta["edited"] = "SM clock halved in the middle third"
    if what == "lost":
        session.names.append(Name("GPU 0 fell off the bus"))
        t = low + 3 * (high - low) // 4
        probe = next(track.id for track in session.tracks.values() if track.kind == "probe")
        mark = Columns.make(
            1, start_ns=t, end_ns=t, kind=KIND_INSTANT, track=probe, name=len(session.names) - 1,
            seq=int(columns.seq.max()) + 1,
        )  # fmt: skip
        columns = Columns.concat([columns, mark])
        session.meta["edited"] = "GPU 0 falls off the bus after three quarters"
    command = session.meta.get("command", "")
    session.meta["command"] = re.sub(r"(^|\s)/\S*/", r"\1", command)
    order = np.lexsort((columns.seq, columns.depth, columns.track))
    columns = columns.take(order)
    edges = np.flatnonzero(np.diff(columns.track.astype(np.int64) << 8 | columns.depth)) + 1
    runs = [
        Run(int(part.track[0]), int(part.depth[0]), part)
        for part in (columns.take(where) for where in np.split(np.arange(len(columns)), edges))
    ]
    return replace(opened, session=session, runs=tuple(runs), streamed=False, rings={})


if __name__ == "__main__":
    edit, source, target = sys.argv[1:]
    packing.write(edited(edit, trace.open(Path(source))), Path(target), zstd=True)
