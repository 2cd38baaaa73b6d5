"""Records of devices that a program writes itself: both writers store what CUPTI's capture stores."""

import numpy as np

from cuzk_tracer import layout, reader

PROGRAM = """
    import cuzk_tracer
    from cuzk_tracer import gpu
    OUTER, INNER = cuzk_tracer.span("outer"), cuzk_tracer.span("inner")
    KERNEL = cuzk_tracer.span("accumulate", a0="blocks", a1="threads")
    COPY = cuzk_tracer.span("memcpy.h2d.pinned", a0="bytes")
    print(gpu.launcher())
    with OUTER:
        outer = gpu.launcher()
        with INNER:
            inner = gpu.launcher()
    gpu.record(KERNEL, gpu.KERNEL, 1000, 2500, device=1, stream=7, launcher=inner, a0=264, a1=128, corr=3)
    gpu.record(COPY, gpu.MEMCPY, 2500, 2500, device=0, stream=8, launcher=outer, a0=2**40, corr=4)
    gpu.record(COPY, gpu.MEMSET, 3000, 3001, device=2, stream=8, launcher=0)
    cuzk_tracer.enable("coarse")
    print(gpu.launcher())
    cuzk_tracer.enable("off")
    print(gpu.launcher())
"""


def test_what_a_program_says_of_its_device(runtime):
    assert runtime.run(PROGRAM).split() == ["0", "None", "None"]
    ring = runtime.ring()
    ((thread, rows),) = ring.poll().records
    spans = {
        ring.names[int(row["name"])].text: int(row["id"]) for row in rows if row["kind"] == layout.KIND_SPAN
    }
    device = rows[np.isin(rows["kind"], layout.GPU_KINDS)]
    names = [ring.names[int(number)] for number in device["name"]]
    assert names[0] == reader.Name("accumulate", "blocks", "threads", False, False)
    assert names[1].text == names[2].text == "memcpy.h2d.pinned"
    assert [(int(r["t0"]), int(r["t1"]), int(r["kind"])) for r in device] == [
        (1000, 2500, layout.KIND_GPU_KERNEL),
        (2500, 2500, layout.KIND_GPU_MEMCPY),
        (3000, 3001, layout.KIND_GPU_MEMSET),
    ]
    fields = ("majflt", "minflt", "parent", "track", "a0", "a1", "corr", "id", "depth")
    slot = thread.slot + 1
    assert [tuple(int(row[field]) for field in fields) for row in device] == [
        (1, 7, spans["inner"], slot, 264, 128, 3, 0, 0),
        (0, 8, spans["outer"], slot, 2**40, 0, 4, 0, 0),
        (2, 8, 0, 0, 0, 0, 0, 0, 0),
    ]


def test_a_device_is_not_asked_about_where_nothing_is_recorded(runtime):
    out = runtime.run(
        """
        import cuzk_tracer
        from cuzk_tracer import gpu
        print(gpu.launcher())
        with cuzk_tracer.span("outer"):
            print(gpu.launcher())
        """,
        CUZK_TRACE="coarse",
    )
    assert out.split() == ["None", "None"]
