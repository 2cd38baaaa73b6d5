"""Work on a thread of its own beside the GPU's: its result, its error, and the edges that are traced."""

import threading

import pytest

import cuzk_tracer
from cuzk_kernels.backend.later import Later


@pytest.fixture
def arrows(monkeypatch):
    """Every end of an arrow: its text, the number it was given (None: it begins), and the thread's name."""
    seen = []

    def flow(name, number=None):
        seen.append((name, number, threading.current_thread().name))
        return len(seen) if number is None else number

    monkeypatch.setattr(cuzk_tracer, "flow", flow)
    return seen


def test_work_is_handed_over_and_back(arrows):
    here = threading.current_thread().name
    assert Later(lambda: 42).result() == 42
    assert arrows == [
        ("msm.b_g2.handed_over", None, here),
        ("msm.b_g2.handed_over", 1, "b-g2"),
        ("msm.b_g2.handed_back", None, "b-g2"),
        ("msm.b_g2.handed_back", 3, here),
    ]


def test_an_error_is_raised_where_the_result_is_asked_for(arrows):
    later = Later(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        later.result()
    assert [name for name, _, _ in arrows].count("msm.b_g2.handed_back") == 2
