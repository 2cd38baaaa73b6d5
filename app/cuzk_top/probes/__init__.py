"""Samplers that run in the viewer, each at its own rate; never in the prover."""
