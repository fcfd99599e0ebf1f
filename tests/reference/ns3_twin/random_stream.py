"""MRG32k3a (L'Ecuyer, Simard, Chen, Kelton 2002), the generator of ns-3: streams 2^127 steps apart, substreams 2^76."""

from functools import cache

MODULUS_1, MODULUS_2 = 2**32 - 209, 2**32 - 22853
STEP_1 = ((0, 1, 0), (0, 0, 1), (-810728, 1403580, 0))  # the recurrences as matrices over the last three values
STEP_2 = ((0, 1, 0), (0, 0, 1), (-1370589, 0, 527612))
NORM = 2.328306549295727688e-10  # 1 / (MODULUS_1 + 1)
LOG2_STREAM, LOG2_SUBSTREAM = 127, 76

Vector = tuple[int, ...]
Matrix = tuple[Vector, ...]
State = tuple[Vector, Vector]

NS3_SEED: State = ((1, 1, 1), (1, 1, 1))
"""What RngSeed 1 sets."""


def _product(a: Matrix, b: Matrix, modulus: int) -> Matrix:
    columns = tuple(zip(*b, strict=True))
    return tuple(tuple(sum(x * y for x, y in zip(row, c, strict=True)) % modulus for c in columns) for row in a)


@cache
def _doubled(log2_n: int) -> tuple[Matrix, Matrix]:
    """Both transition matrices to the power 2^log2_n."""
    if log2_n == 0:
        return STEP_1, STEP_2
    a, b = _doubled(log2_n - 1)
    return _product(a, a, MODULUS_1), _product(b, b, MODULUS_2)


def _applied(matrix: Matrix, vector: Vector, modulus: int) -> Vector:
    x, y, z = vector
    return tuple((a * x + b * y + c * z) % modulus for a, b, c in matrix)


def jump(state: State, n_step: int) -> State:
    """The state n_step >= 0 steps later."""
    for bit in range(n_step.bit_length()):
        if n_step >> bit & 1:
            a, b = _doubled(bit)
            state = _applied(a, state[0], MODULUS_1), _applied(b, state[1], MODULUS_2)
    return state


def stream_state(stream: int, substream: int) -> State:
    """Where a substream of a stream begins."""
    return jump(NS3_SEED, (stream << LOG2_STREAM) + (substream << LOG2_SUBSTREAM))


def step(state: State) -> tuple[float, State]:
    """The next number, in (0, 1), and the state after it."""
    (a0, a1, a2), (b0, b1, b2) = state
    a3 = (1403580 * a1 - 810728 * a0) % MODULUS_1
    b3 = (527612 * b2 - 1370589 * b0) % MODULUS_2
    difference = a3 - b3 if a3 > b3 else a3 - b3 + MODULUS_1
    return difference * NORM, ((a1, a2, a3), (b1, b2, b3))
