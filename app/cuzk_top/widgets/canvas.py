"""A widget that shows ready strips: no borders, no style cache, only cells that changed are repainted."""

from __future__ import annotations

from collections.abc import Sequence

from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from cuzk_top.widgets.brush import Brush
from cuzk_top.widgets.cell_line import CellLine


class Canvas(Widget):
    """Shows the strips it was last given. A row repaints only if its strip is another object than before."""

    brush: Brush | None = None
    """Of a screen that writes its frames itself."""

    def __init__(self, widget_id: str) -> None:
        super().__init__(id=widget_id)
        self._strips: list[Strip] = []
        self._cells: list[CellLine | None] = []
        """The cells of those that were painted."""

    @property
    def texts(self) -> list[str]:
        """The lines as they are shown, without their colours."""
        return [strip.text for strip in self._strips]

    def show(self, strips: list[Strip]) -> None:
        """Replace the picture."""
        old, self._strips = self._strips, strips
        if len(old) != len(strips):
            self._cells = [None] * len(strips)
            self.refresh()
            return
        changed = [y for y, strip in enumerate(strips) if strip is not old[y]]
        if not changed:
            return
        width = strips[changed[0]].cell_length
        same = all(strips[y].cell_length == old[y].cell_length == width for y in changed)
        region = self.region
        if self.brush is None or not same or not self.brush.paints(region, width, len(strips)):
            for y in changed:
                self._cells[y] = None
            self.refresh(*regions(changed, [strip.cell_length for strip in strips]))
            return
        for y in changed:
            line = self._cells[y]
            if line is None:
                line = self._cells[y] = CellLine(width)
                line.put(0, old[y])
            line.fresh.clear()
            line.put(0, strips[y])
            self.brush.put(region.x, region.y + y, line.fresh)

    def render_lines(self, crop: Region) -> list[Strip]:
        """The style cache is left out on purpose: it costs more than all of our drawing, and the theme has
        already applied NO_COLOR, which line filters would otherwise do."""
        return cropped(self._strips[crop.y : crop.bottom], crop)


def cropped(lines: list[Strip], crop: Region) -> list[Strip]:
    """The lines of a crop as wide and as many as it asks for."""
    if len(lines) < crop.height:
        lines = [*lines, *[Strip.blank(crop.right)] * (crop.height - len(lines))]
    if crop.x or any(line.cell_length != crop.right for line in lines):
        lines = [line.crop_extend(crop.x, crop.right, None) for line in lines]
    return lines


def regions(changed: Sequence[int], widths: Sequence[int]) -> list[Region]:
    """Changed lines that follow on each other, as regions."""
    found: list[Region] = []
    for y in changed:
        if found and found[-1].bottom == y:
            above = found[-1]
            found[-1] = Region(0, above.y, max(above.width, widths[y]), above.height + 1)
        else:
            found.append(Region(0, y, widths[y], 1))
    return found
