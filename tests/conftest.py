"""What all tests need of the process they run in."""

import signal
import sys

# A run in the background of a shell script inherits ignored signals, and so would every program that tests
# start; several of them are stopped with Ctrl-C, as a user would, and one tells what it ignores.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)

_LIMIT = sys.getrecursionlimit()


def pytest_collection_finish():
    """Undo what importing py_ecc did to this process: it lifts the limit, then deep JSON overflows the stack.

    The viewer never imports it, and the prover's own JSON reader counts brackets first.
    """
    sys.setrecursionlimit(_LIMIT)
