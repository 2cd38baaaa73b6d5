"""Finding provers in a /proc of our own, what can be read of them, and how to read more."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cuzk_top import provers
from cuzk_top.errors import RingError
from cuzk_top.sources import ring
from cuzk_tracer import gpu

SECOND = 1_000_000_000
TICKS = os.sysconf("SC_CLK_TCK")


class Proc:
    def __init__(self, root: Path) -> None:
        self.root = root

    def process(
        self, pid: int, *command: str, cgroup: str = "0::/user.slice/x.scope", began_s: int = 100
    ) -> None:
        folder = self.root / str(pid)
        folder.mkdir()
        (folder / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in command))
        rest = " ".join(["S", *["0"] * 18, str(began_s * TICKS), "0"])
        (folder / "stat").write_text(f"{pid} (a b) c) {rest}")
        (folder / "cgroup").write_text(cgroup + "\n")


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    made = Proc(tmp_path)
    made.process(10, "/usr/local/bin/curio", "run", cgroup="0::/system.slice/curio.service")
    made.process(
        11, "cuzk-daemon", "--config", "/etc/cuzk.toml", cgroup="0::/system.slice/cuzk.service/worker"
    )
    made.process(12, "node", "/usr/bin/snarkjs", "groth16", "prove")
    made.process(13, "node", "/srv/web.js")
    made.process(14, "python3", "train model.py")
    made.process(15, "lotus-worker", "run")
    made.process(16)  # a kernel thread
    made.process(17, "/opt/lotus/editor")
    (tmp_path / "uptime").write_text("1")
    return made


def test_known_programs_and_whatever_computes_on_a_gpu(proc: Proc) -> None:
    found = provers.find({14: (0, 3), 11: (1,)}, traced=[15], now_ns=160 * SECOND, root=proc.root)
    assert [(p.pid, p.name, p.gpus, p.unit) for p in found] == [
        (11, "cuzk", (1,), "cuzk.service"),
        (14, "python3", (0, 3), ""),
        (10, "curio", (), "curio.service"),
        (12, "snarkjs", (), ""),
    ]
    assert {p.age_ns for p in found} == {60 * SECOND}


def test_a_process_that_goes_away_is_left_out(proc: Proc) -> None:
    (proc.root / "10" / "stat").unlink()
    (proc.root / "12" / "stat").write_text("12 (node")
    assert [p.pid for p in provers.find({}, [15], 0, proc.root)] == [11]


def test_what_to_type(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "library", lambda: "/lib/_gpu.so")
    monkeypatch.setattr(gpu, "cupti_files", list)
    found = {p.pid: p for p in provers.find({14: (0,)}, [], 0, proc.root)}
    mine = os.geteuid()
    assert provers.remedy(found[14]) == [
        "stop it and start it with tracing: cuzk-top run -- python3 'train model.py'"
    ]
    assert provers.readable(found[14]) == "CPU, faults and threads, memory, disk, GPU 0"
    user = found[14].user
    assert provers.remedy(found[14], uid=mine + 1) == [
        f"it belongs to {user}; as that user: sudo -u {user} cuzk-top run -- python3 'train model.py'"
    ]
    assert provers.readable(found[14], uid=mine + 1) == "CPU, faults and threads, memory, GPU 0"
    assert provers.remedy(found[10]) == [
        "sudo systemctl edit curio.service",
        "[Service]",
        "Environment=CUDA_INJECTION64_PATH=/lib/_gpu.so",
        "Environment=NVTX_INJECTION64_PATH=/lib/_gpu.so",
        "Environment=CUZK_TRACE=off",
        "sudo systemctl restart curio.service",
        f"sudo -u {user} cuzk-top attach --detail all PID   (dormant until then: CUZK_TRACE=off)",
    ]
    monkeypatch.setattr(gpu, "library", lambda: None)
    assert provers.remedy(found[10]) == [
        "the capture library was not built: install cuzk-top where a C compiler is"
    ]


def as_user(monkeypatch: pytest.MonkeyPatch, *groups: int) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "getegid", lambda: 1000)
    monkeypatch.setattr(os, "getgroups", lambda: [1000, *groups])


def test_of_several_mounts_the_last_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_user(monkeypatch)
    plain, hiding = (f"proc /proc proc {options} 0 0\n" for options in ("rw", "rw,hidepid=invisible"))
    (tmp_path / "mounts").write_text(plain + hiding)
    assert "hidepid=invisible" in str(provers.hidden(tmp_path))
    (tmp_path / "mounts").write_text(hiding + plain)
    assert provers.hidden(tmp_path) is None


def test_the_group_that_hidepid_spares_sees_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_user(monkeypatch, 27)
    (tmp_path / "mounts").write_text("proc /proc proc rw,hidepid=2,gid=27 0 0\n")
    assert provers.hidden(tmp_path) is None


def test_a_process_that_may_be_hidden_is_not_said_to_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provers, "hidden", lambda: "other users' processes are hidden")
    with pytest.raises(RingError, match="no process 4194305; other users' processes are hidden"):
        ring.find(2**22 + 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("rw,nosuid", None),
        ("rw,hidepid=0", None),
        ("rw,hidepid=invisible,gid=27", "join the group with gid 27, or use sudo cuzk-top"),
        ("rw,hidepid=2", "other users' processes are hidden (hidepid=2): use sudo cuzk-top"),
    ],
)
def test_hidden_processes_are_said(
    tmp_path: Path, options: str, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(monkeypatch)
    (tmp_path / "mounts").write_text(f"sysfs /sys sysfs rw 0 0\nproc /proc proc {options} 0 0\n")
    found = provers.hidden(tmp_path)
    assert (found is None) == (said is None)
    assert said is None or said in str(found)


def command(*arguments: str, folder: Path) -> "subprocess.Popen[str]":
    env = os.environ | {"XDG_RUNTIME_DIR": str(folder), "XDG_STATE_HOME": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-m", "cuzk_top.cli", *arguments], env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_attach_to_an_untraced_process_shows_the_machines_side(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    trace = tmp_path / "machine.cuzk"
    watching = command("attach", str(child.pid), "-o", str(trace), folder=tmp_path)
    try:
        time.sleep(3.0)
        watching.send_signal(signal.SIGINT)
        _, err = watching.communicate(timeout=30)
    finally:
        child.kill()
        child.wait()
    assert f"process {child.pid} is not traced: no spans, kernels or copies" in err
    assert f"cuzk-top run -- {sys.executable} -c 'while True: pass'" in err
    done = command("report", str(trace), "--json", folder=tmp_path)
    out, _ = done.communicate(timeout=30)
    counters = {counter["key"]: counter for counter in json.loads(out)["counters"]}
    assert counters["host.cpu"]["max"] > 0
    assert counters["host.rss"]["samples"] > 0


def test_the_list_names_an_untraced_prover(tmp_path: Path) -> None:
    fake = tmp_path / "curio"
    fake.write_text("#!/bin/sh\nread line\n")
    fake.chmod(0o755)
    copy = tmp_path / "lotus-worker"
    copy.write_bytes(Path("/bin/sleep").read_bytes())
    copy.chmod(0o755)
    child = subprocess.Popen([str(copy), "60"])
    try:
        listed = command(folder=tmp_path)
        out, err = listed.communicate(timeout=30)
    finally:
        child.kill()
        child.wait()
    assert listed.returncode == 0, err
    assert f"not traced: lotus  pid {child.pid}  user " in out
    assert f"more  stop it and start it with tracing: cuzk-top run -- {copy} 60" in out
