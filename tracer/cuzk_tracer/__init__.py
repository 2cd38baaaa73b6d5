"""The in-process tracer."""
