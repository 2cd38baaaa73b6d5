"""Views as files: back as they went in, others' files refused in one line, and opened again on the screen."""

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuzk_top import view_file
from cuzk_top.app import CuzkTop
from cuzk_top.commands import replay
from cuzk_top.errors import InputError
from cuzk_top.replayed import ReplaySession
from cuzk_top.theme import Theme
from cuzk_top.viewport import MIN_WIDTH_NS, SpanRef, ViewState

TRACE = Path(__file__).parents[2] / "data" / "traces" / "chain-65533-bls12381.cuzk"

times = st.integers(0, 1 << 50)
views = st.builds(
    ViewState,
    t0_ns=st.integers(0, 1 << 40),
    t1_ns=st.integers((1 << 40) + MIN_WIDTH_NS, 1 << 50),
    mode=st.sampled_from(["page", "follow", "fit", "all", "hold"]),
    auto_width=st.booleans(),
    paused=st.booleans(),
    cursor=st.text(),
    selected=st.none() | st.builds(SpanRef, st.text(), times, times, times),
    selection=st.none() | st.tuples(times, times).map(lambda pair: (min(pair), max(pair))),
    tab=st.text(),
    unfolded=st.frozensets(st.text()),
    show_all=st.booleans(),
    search=st.text(),
    marks=st.lists(times).map(tuple),
)


@given(views)
def test_a_view_comes_back_as_it_went_in(tmp_path_factory, view):
    path = tmp_path_factory.mktemp("v") / "a.view.json"
    path.write_text(view_file.dump(view, Path("/traces/t.cuzk"), (120, 36)), "utf-8")
    assert view_file.load(path) == (view, Path("/traces/t.cuzk"))
    content = json.loads(path.read_text("utf-8"))
    assert content["cuzk-top.view"] == "1.0" and content["size"] == [120, 36]
    assert set(content["view"]) == {field.name for field in dataclasses.fields(ViewState)}


def test_a_view_without_a_trace(tmp_path):
    path = tmp_path / "v.json"
    path.write_text(view_file.dump(ViewState(), None, (80, 24)))
    assert view_file.load(path) == (ViewState(), None)


def test_what_another_minor_version_adds_or_lacks(tmp_path):
    path = tmp_path / "v.json"
    path.write_text(
        '{"cuzk-top.view": "1.9", "more": 1, "view": {"t0_ns": 5, "t1_ns": 100005, "colour": "red"}}'
    )
    assert view_file.load(path) == (ViewState(t0_ns=5, t1_ns=100_005), None)


def test_a_trace_that_moved_along_is_found_beside_the_view(tmp_path):
    path = tmp_path / "v.json"
    path.write_text(view_file.dump(ViewState(), Path("/nowhere/t.cuzk"), (80, 24)))
    assert view_file.load(path)[1] == Path("/nowhere/t.cuzk")
    (tmp_path / "t.cuzk").write_text("")
    assert view_file.load(path)[1] == tmp_path / "t.cuzk"
    path.write_text(view_file.dump(ViewState(), TRACE, (80, 24)))
    (tmp_path / TRACE.name).write_text("")
    assert view_file.load(path)[1] == TRACE, "where it was comes first"


def test_a_relative_trace_is_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.json").write_text(view_file.dump(ViewState(), Path("sub/t.cuzk"), (80, 24)))
    monkeypatch.chdir("/")
    assert view_file.load(tmp_path / "v.json")[1] == tmp_path / "sub" / "t.cuzk"


GOOD = json.loads(view_file.dump(ViewState(), TRACE, (80, 24)))


def changed(**fields):
    return json.dumps(GOOD | {"view": GOOD["view"] | fields})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a view that cuzk-top saved"),
        ("[]", "not a view that cuzk-top saved"),
        ("{}", "not a view that cuzk-top saved"),
        ("\xff", "not a view that cuzk-top saved"),
        ("[" * 1_000_000, "not a view that cuzk-top saved"),
        (json.dumps(GOOD | {"cuzk-top.view": "2.0"}), "view version 2.0"),
        (json.dumps(GOOD | {"view": []}), "damaged: view: an object is wanted"),
        (json.dumps(GOOD | {"trace": 5}), "damaged: trace: a text is wanted"),
        (changed(t0_ns="5"), "damaged: view.t0_ns: a whole number is wanted"),
        (changed(t0_ns=True), "damaged: view.t0_ns: a whole number is wanted"),
        (changed(t0_ns=1.5), "damaged: view.t0_ns: a whole number is wanted"),
        (changed(t1_ns=10**30), "damaged: view.t1_ns: out of range"),
        (changed(t1_ns=0), "damaged: view: the window is empty"),
        (changed(mode="sideways"), "damaged: view.mode: one of page, follow, fit, all, hold is wanted"),
        (changed(paused=1), "damaged: view.paused: true or false is wanted"),
        (changed(selection=[1]), "damaged: view.selection: a list is wanted"),
        (changed(selection=[2, 1]), "damaged: view.selection: it ends before it begins"),
        (changed(selected={"lane": "proof"}), "damaged: view.selected: incomplete"),
        (changed(unfolded="proof"), "damaged: view.unfolded: a list is wanted"),
        (changed(unfolded=[["proof"]]), "damaged: view.unfolded: a text is wanted"),
        (changed(marks=[1, None]), "damaged: view.marks: a whole number is wanted"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path, text, says):
    path = tmp_path / "v.json"
    path.write_text(text, "latin-1")
    with pytest.raises(InputError) as error:
        view_file.load(path)
    assert str(error.value).startswith(f"{path}: {says}") and "\n" not in str(error.value)


def test_a_view_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        view_file.load(tmp_path / "v.json")


def test_a_window_of_any_width_becomes_one_that_can_be_drawn(tmp_path):
    path = tmp_path / "v.json"
    path.write_text(changed(t0_ns=7, t1_ns=8))
    assert view_file.load(path)[0].window == (7, 7 + MIN_WIDTH_NS)


def test_which_trace_and_view_a_replay_opens(tmp_path):
    view = ViewState(t0_ns=5, t1_ns=5_000_005, mode="follow", paused=True, marks=(7,))
    path, other = tmp_path / "v.json", tmp_path / "other.json"
    path.write_text(view_file.dump(view, TRACE, (80, 24)))
    other.write_text(view_file.dump(view, None, (80, 24)))
    still = dataclasses.replace(view, mode="hold", auto_width=False, paused=False)
    assert replay._chosen("t.cuzk", None) == (Path("t.cuzk"), None)
    assert replay._chosen(str(path), None) == (TRACE, still)
    assert replay._chosen("t.cuzk", str(path)) == (Path("t.cuzk"), still)
    assert replay._chosen("t.cuzk", str(other)) == (Path("t.cuzk"), still)
    with pytest.raises(InputError, match="was not recorded: cuzk-top replay "):
        replay._chosen(str(other), None)


async def test_the_screen_begins_where_the_view_says():
    session = ReplaySession(TRACE, lambda: 0)
    session.pause()
    whole = session.store.snapshot()
    session.seek(whole.last_ns)
    view = ViewState(
        t0_ns=whole.first_ns + 500_000_000,
        t1_ns=whole.first_ns + 900_000_000,
        mode="hold",
        auto_width=False,
        tab="inspector",
        marks=(whole.first_ns + 600_000_000,),
    )
    app = CuzkTop(session, Theme(), lambda: 0, view)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert app.screen.view == view
