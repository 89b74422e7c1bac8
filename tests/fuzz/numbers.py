"""Numbers that break decoders."""

from random import Random

_EDGES = (
    *(0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 31, 32, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512),
    *(1023, 1024, 1025, 2047, 2048, 4095, 4096, 32_767, 32_768, 65_535, 65_536, 100_000, 1 << 20, 1 << 24),
    *(
        (1 << 31) - 1,
        1 << 31,
        (1 << 32) - 1,
        1 << 32,
        1 << 40,
        1 << 62,
        (1 << 63) - 1,
        1 << 63,
        (1 << 64) - 1,
    ),
)


def odd_number(rng: Random, old: int, bits: int) -> int:
    """A number of so many bits, not negative: an edge, or a neighbour of the old one."""
    choice = rng.randrange(8)
    if choice < 3:
        number = rng.choice(_EDGES)
    elif choice == 3:
        number = rng.getrandbits(bits)
    elif choice == 4:
        number = old ^ (1 << rng.randrange(bits))
    elif choice == 5:
        number = old + rng.choice((-1, 1, -8, 8, 64, -64))
    elif choice == 6:
        number = rng.choice((old * 2, old // 2, -old, ~old))
    else:
        number = old * rng.choice((3, 255, 1024, 1 << 20)) + rng.randrange(3)
    return number & ((1 << bits) - 1)
