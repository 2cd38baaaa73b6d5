"""A widget that shows ready strips: no borders, no style cache, only rows that changed are repainted."""

from __future__ import annotations

from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


class Canvas(Widget):
    """Shows the strips it was last given. A row repaints only if its strip is another object than before."""

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
        start = None
        regions = []
        for y, (before, after) in enumerate(zip(old, strips, strict=True)):
            if before is not after:
                start = y if start is None else start
            elif start is not None:
                regions.append(Region(0, start, after.cell_length, y - start))
                start = None
        if start is not None:
            regions.append(Region(0, start, strips[-1].cell_length, len(strips) - start))
        if regions:
            self.refresh(*regions)

    def render_lines(self, crop: Region) -> list[Strip]:
        """The style cache is left out on purpose: it costs more than all of our drawing, and the theme has
        already applied NO_COLOR, which line filters would otherwise do."""
        lines = self._strips[crop.y : crop.bottom]
        if len(lines) < crop.height:
            lines = [*lines, *[Strip.blank(crop.right)] * (crop.height - len(lines))]
        if crop.x or any(line.cell_length != crop.right for line in lines):
            lines = [line.crop_extend(crop.x, crop.right, None) for line in lines]
        return lines
