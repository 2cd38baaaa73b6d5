"""Make the pictures of the README: ``python screenshots/make.py``.

Draws recorded traces of real proofs on an H200 (tests/data/gpu/golden) with the program's own screens,
without a terminal: the live screen amid a proof with B in G2 on the CPU, the same small, the stage
table, and the inspector on one copy. Writes SVG, and PNG beside it where Chromium is installed.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cuzk_top.app import CuzkTop
from cuzk_top.facts import Facts, Playback, describe
from cuzk_top.model import Snapshot
from cuzk_top.sources.trace_file import Replay, TraceSource
from cuzk_top.store import Store
from cuzk_top.theme import Theme

HERE = Path(__file__).resolve().parent
TRACES = HERE.parent / "tests" / "data" / "gpu" / "golden"
ON_CPU, DENSE = TRACES / "dense-20-b-g2-cpu.cuzk", TRACES / "dense-20.cuzk"
SIZE = (120, 36)
SMALL = (60, 16)
STAGES_SIZE = (120, 50)
CHROMIUM_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--hide-scrollbars",
)


class Frozen:
    """A recorded session stopped at one moment of its live run."""

    mode = "live"
    deadlines: Mapping[str, int] = {}

    def __init__(self, trace: Path, share: float) -> None:
        self._trace = trace
        store = Store()
        store.append(TraceSource(trace).poll())
        whole = store.snapshot()
        replay = Replay(lambda: 0, whole.first_ns, whole.last_ns)
        replay.seek(whole.first_ns + round((whole.last_ns - whole.first_ns) * share))
        # As it was then: the store was filled after the end, the moment shown lies before it.
        self._snapshot = replace(replay.view(whole), ended=False)

    def snapshot(self) -> Snapshot:
        return self._snapshot

    def facts(self) -> Facts:
        return describe(self._snapshot)

    def playback(self) -> Playback | None:
        return None

    def play(self) -> None: ...

    def pause(self) -> None: ...

    def set_speed(self, speed: float) -> None: ...

    def seek(self, t_ns: int) -> None: ...

    def lines(self) -> Sequence[str]:
        return ()

    def save_buffer(self) -> Path:
        return self._trace

    def trace_path(self) -> Path | None:
        return self._trace

    def stop(self) -> None: ...


async def picture(
    name: str, trace: Path, share: float, keys: Sequence[str], size: tuple[int, int] = SIZE
) -> None:
    """One screen as NAME.svg and NAME.png."""
    app = CuzkTop(Frozen(trace, share), Theme(), clock=lambda: 0)
    async with app.run_test(size=size) as pilot:
        await pilot.pause(0.3)
        await pilot.press(*keys)
        await pilot.pause(0.6)
        svg = app.export_screenshot(title="cuzk-top")
    target = HERE / f"{name}.svg"
    target.write_text(svg, encoding="utf-8")
    to_png(target)


def to_png(svg: Path) -> None:
    """Render with Chromium at twice the size; without Chromium the PNG stays as it is."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg.read_text(encoding="utf-8"))
    if chromium is None or box is None:
        print(f"{svg.name}: no Chromium here, the PNG was not made again")
        return
    width, height = (round(float(value)) for value in box.groups())
    with tempfile.TemporaryDirectory() as profile:
        command = [chromium, *CHROMIUM_FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        command += [
            "--force-device-scale-factor=1.5",
            f"--screenshot={svg.with_suffix('.png')}",
            svg.as_uri(),
        ]
        subprocess.run(command, check=True, capture_output=True)


async def main() -> None:
    """All pictures."""
    await picture("live", ON_CPU, 0.75, ["0"])
    await picture("small", ON_CPU, 0.75, ["0"], SMALL)
    await picture("stages", DENSE, 1.0, ["0", "2"], STAGES_SIZE)
    await picture("inspector", DENSE, 1.0, ["0", *["j"] * 9, *["full_stop"] * 6, "f", "4"])


if __name__ == "__main__":
    asyncio.run(main())
