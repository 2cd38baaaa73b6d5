"""A widget that shows ready strips: no borders, no style cache, only rows that changed are repainted."""

from __future__ import annotations

from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from cuzk_top.widgets.brush import Brush


class Canvas(Widget):
    """Shows the strips it was last given. A row repaints only if its strip is another object than before."""

    brush: Brush | None = None
    """Of a screen that writes its frames itself."""

    def __init__(self, widget_id: str) -> None:
        super().__init__(id=widget_id)
        self._strips: list[Strip] = []

    @property
    def texts(self) -> list[str]:
        """The lines as they are shown, without their colours."""
        return [strip.text for strip in self._strips]

    def show(self, strips: list[Strip]) -> None:
        """Replace the picture."""
        old, self._strips = self._strips, strips
        if len(old) != len(strips):
            self.refresh()
            return
        changed = [y for y, strip in enumerate(strips) if strip is not old[y]]
        if changed and (self.brush is None or not self.brush.paint(self, strips, changed)):
            self.refresh(*_regions(changed, strips))

    def render_lines(self, crop: Region) -> list[Strip]:
        """The style cache is left out on purpose: it costs more than all of our drawing, and the theme has
        already applied NO_COLOR, which line filters would otherwise do."""
        lines = self._strips[crop.y : crop.bottom]
        if len(lines) < crop.height:
            lines = [*lines, *[Strip.blank(crop.right)] * (crop.height - len(lines))]
        if crop.x or any(line.cell_length != crop.right for line in lines):
            lines = [line.crop_extend(crop.x, crop.right, None) for line in lines]
        return lines


def _regions(changed: list[int], strips: list[Strip]) -> list[Region]:
    """Changed lines that follow on each other, as regions."""
    regions: list[Region] = []
    for y in changed:
        if regions and regions[-1].bottom == y:
            above = regions[-1]
            regions[-1] = Region(0, above.y, max(above.width, strips[y].cell_length), above.height + 1)
        else:
            regions.append(Region(0, y, strips[y].cell_length, 1))
    return regions
