"""A call on a thread of its own, beside the GPU's work."""

import threading
from collections.abc import Callable
from typing import Any

import cuzk_tracer

HANDED_OVER, HANDED_BACK = "msm.b_g2.handed_over", "msm.b_g2.handed_back"
WAIT_B_G2 = cuzk_tracer.span("msm.b_g2.wait")


class Later:
    """A call on a thread of its own. What it waits for and who waits for it is traced as hand-overs."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._value: Any = None
        self._error: BaseException | None = None
        self._begun = cuzk_tracer.flow(HANDED_OVER)
        self._done = 0
        self._thread = threading.Thread(target=self._run, name="b-g2")
        self._thread.start()

    def _run(self) -> None:
        cuzk_tracer.flow(HANDED_OVER, self._begun)
        try:
            self._value = self._call()
        except BaseException as error:  # raised where the result is asked for
            self._error = error
        self._done = cuzk_tracer.flow(HANDED_BACK)

    def result(self) -> Any:
        with WAIT_B_G2:
            self._thread.join()
            cuzk_tracer.flow(HANDED_BACK, self._done)
        if self._error is not None:
            raise self._error
        return self._value
