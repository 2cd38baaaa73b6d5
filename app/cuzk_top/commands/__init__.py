"""One module a command of the command line, each with ``run(args) -> exit code``."""
