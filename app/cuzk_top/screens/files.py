"""What the screen writes: the buffer, exports and screenshots. Long ones in a thread; each says where."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cuzk_top.errors import CuzkTopError

if TYPE_CHECKING:
    from cuzk_top.controls import SessionControls
    from cuzk_top.screens.drawn import DrawnSession


def _in_thread(screen: DrawnSession, what: str, work: Callable[[], str]) -> None:
    """Do something long; what it says is shown when it is done."""

    def run() -> None:
        try:
            told = work()
        except (CuzkTopError, OSError) as error:
            told = str(error)
        screen.app.call_from_thread(screen.notice, told)

    screen.notice(what)
    screen.run_worker(run, thread=True, group="files")


def save(screen: DrawnSession) -> None:
    """Write everything that is kept as a trace."""

    def work() -> str:
        path = screen.controls.save_buffer()
        return f"saved {path.name} in {path.parent}"  # the name first: a narrow screen cuts the end

    _in_thread(screen, "saving ...", work)


def suggested(controls: SessionControls) -> str:
    """A name for an export: that of the trace."""
    path = controls.trace_path()
    return f"{path.stem if path is not None else 'trace'}.pftrace"


def export(screen: DrawnSession, name: str) -> None:
    """Write everything that is kept in the format that the name's suffix says."""
    if not name.strip():
        return
    target = Path(name.strip()).expanduser()
    snapshot = screen.controls.snapshot()

    def work() -> str:
        from cuzk_top import exports, kept  # noqa: PLC0415 - pyarrow: only who exports waits for it

        told = exports.write(kept.trace(snapshot), target)
        return f"wrote {target}" + (f"; {told}" if told else "")

    _in_thread(screen, f"writing {target} ...", work)


def screenshot(screen: DrawnSession) -> None:
    """Write the screen as SVG, and beside it the view with which the trace opens at the same place."""
    from cuzk_top import view_file  # noqa: PLC0415 - only who asks for it waits for it

    trace = screen.controls.trace_path()
    view = view_file.dump(screen.view, trace, (screen.size.width, screen.size.height))
    stem = f"cuzk-top-{screen.data.session.pid or 'trace'}-{screen.data.revision}"
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "cuzk-top"
    problem: OSError | None = None
    for folder in (Path.cwd(), state):
        picture, reopens = folder / f"{stem}.svg", folder / f"{stem}.view.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            picture.write_text(screen.app.export_screenshot(), encoding="utf-8")
            reopens.write_text(view, encoding="utf-8")
        except OSError as error:
            problem = error
            continue
        told = picture.name if folder == Path.cwd() else str(picture)
        how = "W saves a trace to reopen" if trace is None else "cuzk-top replay reopens .view.json"
        screen.notice(f"wrote {told}; {how}")
        return
    screen.notice(f"no screenshot: {problem}")
