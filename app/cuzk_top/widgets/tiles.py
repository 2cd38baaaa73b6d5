"""Lines cut at the edges of the canvases that show them side by side.

Textual writes a changed line of a widget whole, so the time area is several narrow canvases: of a frame only
those are written over which now has moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from rich.segment import Segment
from textual.strip import Strip

from cuzk_top.widgets.row import Row

Pieces = list[list[Segment]]
"""Runs of one line, a list a tile."""


def tile_edges(columns: int, tiles: int) -> tuple[int, ...]:
    """Edges of `tiles` canvases over `columns`, as even as whole columns can be: ``tiles + 1`` positions."""
    return tuple(columns * tile // tiles for tile in range(tiles + 1))


def cut(segments: Iterable[Segment], edges: Sequence[int]) -> Pieces:
    """The runs between each two edges; the first run begins at the first edge, each character is one cell.

    Runs may end early: the pieces beyond their end are empty.
    """
    pieces: Pieces = [[] for _ in range(len(edges) - 1)]
    x, tile = edges[0], 0
    for run in segments:
        text, style, _ = run
        end = x + len(text)
        while edges[tile + 1] <= x:
            tile += 1
        if end <= edges[tile + 1]:
            pieces[tile].append(run)
        else:
            start = x
            while start < end:
                while edges[tile + 1] <= start:
                    tile += 1
                stop = min(end, edges[tile + 1])
                pieces[tile].append(Segment(text[start - x : stop - x], style))
                start = stop
        x = end
    return pieces


def strips_of(pieces: Pieces, edges: Sequence[int], before: tuple[Pieces, list[Strip]] | None) -> list[Strip]:
    """A strip a piece; those of `before` where the runs are the same, so that nothing is written again."""
    strips = []
    for tile, (low, high) in enumerate(pairwise(edges[: len(pieces) + 1])):
        piece = pieces[tile]
        same = before is not None and tile < len(before[1]) and before[0][tile] == piece
        old = before[1][tile] if same and before is not None else None
        strips.append(old if old is not None and old.cell_length == high - low else Row(piece, high - low))
    return strips
