"""What all tests need of the process they run in."""

import signal

# A run in the background of a shell script inherits an ignored SIGINT, and so would every program that tests
# start; several of them are stopped with Ctrl-C, as a user would.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
