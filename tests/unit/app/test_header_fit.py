"""Which fields of a header line are shown where not all have room."""

from cuzk_top.widgets.header import Field, fit


def field(rank: int, width: int) -> Field:
    return Field(rank, (("x" * width, "text", False),))


def test_the_highest_rank_goes_first_and_rank_0_stays():
    job, spans, viewer = field(0, 10), field(1, 5), field(3, 5)
    assert fit([job, viewer, spans], 24, 2) == [job, viewer, spans]  # 10 + 5 + 5 and two gaps of 2
    assert fit([job, viewer, spans], 23, 2) == [job, spans]
    assert fit([job, viewer, spans], 3, 2) == [job]


def test_a_short_field_takes_the_room_that_a_long_one_cannot_use():
    """tracing (30 wide) must go, so build (8), which went before it, comes back."""
    job, tracing, build = field(0, 10), field(5, 30), field(8, 8)
    assert fit([job, tracing, build], 20, 2) == [job, build]
