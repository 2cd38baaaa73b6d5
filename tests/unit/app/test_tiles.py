"""Cutting of lines at the canvases' edges."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment

from cuzk_top.widgets.tiles import cut, strips_of, tile_edges


@given(st.integers(0, 400), st.integers(1, 20))
def test_tiles_cover_all_columns_evenly(columns: int, tiles: int) -> None:
    edges = tile_edges(columns, tiles)
    assert (edges[0], edges[-1], len(edges)) == (0, columns, tiles + 1)
    assert {high - low for low, high in pairwise(edges)} <= {columns // tiles, columns // tiles + 1}


@given(st.lists(st.text("abc", min_size=1, max_size=9), max_size=9), st.integers(1, 9), st.integers(0, 30))
def test_pieces_put_together_are_the_line(texts: list[str], tiles: int, start: int) -> None:
    whole = "".join(texts)
    edges = tuple(start + edge for edge in tile_edges(max(1, len(whole)), tiles))
    pieces = cut([Segment(text) for text in texts], edges)
    for piece, (low, high) in zip(pieces, pairwise(edges), strict=True):
        assert "".join(run.text for run in piece) == whole[low - start : high - start]


def test_equal_pieces_keep_their_strips() -> None:
    edges = (0, 4, 8)
    first = cut([Segment("aaaaaabb")], edges)
    strips = strips_of(first, edges, None)
    second = cut([Segment("aaaaaacc")], edges)
    again = strips_of(second, edges, (first, strips))
    assert again[0] is strips[0] and again[1] is not strips[1]
    assert [strip.text for strip in again] == ["aaaa", "aacc"]
    # of another width nothing is kept, though the runs are equal
    narrow = strips_of(cut([Segment("aaaa")], (0, 4, 4)), (0, 4, 4), (first, strips))
    assert [strip.cell_length for strip in narrow] == [4, 0]
