"""Architecture rule 1: arrows point one way. Each module is imported in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCREEN_PARTS = ("cuzk_top.app", "cuzk_top.screens", "cuzk_top.widgets")


def modules(source_root: str, package: str) -> list[str]:
    """Every module of one package, by its files."""
    base = ROOT / source_root
    names = []
    for path in sorted((base / package).rglob("*.py")):
        parts = list(path.relative_to(base).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        names.append(".".join(parts))
    return names


def loaded_by(module: str) -> set[str]:
    """Top-level names in sys.modules after importing one module in a fresh interpreter."""
    code = f"import sys, importlib; importlib.import_module({module!r}); print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


HEADLESS = [m for m in modules("app", "cuzk_top") if not m.startswith(SCREEN_PARTS)]
assert len(HEADLESS) > 10, "the list of modules is empty: the boundary test would pass on nothing"


def test_headless_modules_load_no_screen_library() -> None:
    """One interpreter imports all headless modules of the viewer; if that loads Textual, say which did."""
    everything = "; ".join(f"import {module}" for module in HEADLESS)
    done = subprocess.run(
        [sys.executable, "-c", f"{everything}; import sys; print(*sorted(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    if loaded & {"textual", "rich"}:
        culprits = [m for m in HEADLESS if {n.partition(".")[0] for n in loaded_by(m)} & {"textual", "rich"}]
        pytest.fail(f"these load Textual or Rich: {', '.join(culprits)}")


@pytest.mark.parametrize("module", ["cuzk_top.recording", "cuzk_top.live"])
def test_watching_and_recording_do_without_pyarrow(module: str) -> None:
    """It takes 28 MB of the viewer's memory."""
    assert "pyarrow" not in loaded_by(module)


def test_importing_the_tracer_loads_the_standard_library_only() -> None:
    before = loaded_by("sys")
    extra = {name.partition(".")[0] for name in loaded_by("cuzk_tracer") - before}
    assert extra - set(sys.stdlib_module_names) == {"cuzk_tracer"}


@pytest.mark.parametrize("module", modules("tracer", "cuzk_tracer"))
def test_the_tracer_knows_neither_prover_nor_viewer(module: str) -> None:
    tops = {name.partition(".")[0] for name in loaded_by(module)}
    assert not tops & {"cuzk_kernels", "cuzk_top", "pyarrow", "textual"}


def test_the_prover_knows_the_tracer_and_never_the_viewer() -> None:
    """All modules of the prover in one interpreter; numpy would cost each proof 0.1 s at start."""
    everything = "; ".join(f"import {module}" for module in modules("kernels", "cuzk_kernels"))
    done = subprocess.run(
        [sys.executable, "-c", f"{everything}; import sys; print(*sorted(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    tops = {name.partition(".")[0] for name in done.stdout.split()}
    assert "cuzk_tracer" in tops
    assert not tops & {"cuzk_top", "numpy", "pyarrow", "textual", "rich"}


def test_only_screen_modules_name_textual() -> None:
    """By source text too: a lazy import inside a function would slip past the interpreter check."""
    allowed = {ROOT / "app/cuzk_top/app.py"}
    for path in (ROOT / "app" / "cuzk_top").rglob("*.py"):
        if path in allowed or path.parent.name in {"screens", "widgets"}:
            continue
        text = path.read_text()
        assert "import textual" not in text
        assert "from textual" not in text, f"{path} imports Textual"
        assert "from rich" not in text, f"{path} imports Rich"


def test_a_changed_header_makes_the_libraries_stale() -> None:
    """An incremental build compiles again only for files it knows of: every header must be listed."""
    modules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]
    extensions = {extension["name"]: extension for extension in modules}
    folder = ROOT / "kernels" / "cuzk_kernels"
    headers = [*folder.glob("cuda/*.cuh"), *folder.glob("host/*.hpp")]
    headers.append(ROOT / "tracer" / "cuzk_tracer" / "include" / "cuzk_trace.h")
    assert len(headers) > 10
    depends = extensions["cuzk_kernels._host"]["depends"]
    assert sorted(depends) == sorted(str(path.relative_to(ROOT)) for path in headers)
    tracer = ROOT / "tracer" / "cuzk_tracer"
    for name, parts in (("_native", "native"), ("_gpu", "gpu_capture")):
        headers = [tracer / "include" / "cuzk_trace.h", *tracer.glob(f"{parts}/*.h")]
        assert len(headers) > 3
        depends = extensions[f"cuzk_tracer.{name}"]["depends"]
        assert sorted(depends) == sorted(str(path.relative_to(ROOT)) for path in headers)


def test_the_native_library_is_loaded_only_by_its_back_end() -> None:
    for path in (ROOT / "kernels").rglob("*.py"):
        if "CDLL(" in path.read_text():
            assert path.name in {"native_library.py", "runner.py", "gpu_device.py"}
