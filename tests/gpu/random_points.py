"""Points to add up, for programs that need a sum of some length."""

import secrets

from cuzk_kernels.curves import BLS12_381


def random_points(backend, count):
    """(scalars as bytes, the same with the back end, as many points): all random, in G1 of BLS12-381."""
    words = bytearray(secrets.token_bytes(32 * count))
    words[31::32] = bytes(count)  # below the field's order
    data = memoryview(words)
    scalars = backend.scalars(BLS12_381, data, count)
    generator = BLS12_381.group(1).generator
    return data, scalars, memoryview(backend.fixed_base(BLS12_381, 1, generator, scalars, count))
