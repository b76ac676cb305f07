#!/usr/bin/python3
"""Write reference vectors for the low-rank analysis: usage make_analysis_vectors.py OUTDIR.

The format stands in README.md beside this file.
"""

import os
import sys
from collections import namedtuple

import numpy as np

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "http"))
import spectrum  # noqa: E402

# gain multiplies q and k; 0 makes every row of A the same.
Case = namedtuple("Case", "n m d features gain scale", defaults=(1, None))

CASES = [
    Case(1, 1, 1, 1), Case(1, 9, 4, 3), Case(9, 1, 4, 3), Case(2, 2, 5, 8),
    Case(16, 16, 2, 4), Case(47, 30, 8, 16), Case(30, 47, 8, 16), Case(20, 20, 40, 64),
    Case(64, 64, 16, 20, 0), Case(65, 129, 3, 7), Case(129, 65, 3, 7), Case(33, 33, 8, 16, 12),
    Case(40, 50, 8, 16, 30), Case(24, 24, 6, 10, 1, -0.25), Case(24, 31, 6, 10, 1, 2.5),
]
WINDOWS = (1, 2, 5, 16, 1000)


def write(path, case, causal, seed):
    """One file: a line of sizes, then windows, q, k, omega and the figures."""
    rng = np.random.default_rng(seed)
    q, k = (np.float32(case.gain * rng.standard_normal((rows, case.d)))
            for rows in (case.n, case.m))
    omega = rng.standard_normal((case.features, case.d)).astype(np.float32)
    scale = float(np.float32(1 / np.sqrt(case.d) if case.scale is None else case.scale))
    # The scale's square root goes to q and k, its sign to q, as in the engine.
    positive = (np.sign(np.float32(scale)) * q, k)
    found = spectrum.analyze(q, k, causal, scale, WINDOWS)
    off = (spectrum.estimated_matrix(*positive, omega, causal, abs(scale))
           - spectrum.attention_matrix(q, k, causal, scale))
    norm = np.linalg.norm(spectrum.attention_matrix(q, k, causal, scale))
    figures = [found["singular_values"], found["cumulative_energy"],
               found["score_singular_values"], list(found["k_energy"].values()),
               [found["rank_bound"], found["numerical_rank"], found["stable_rank"]],
               list(found["row_entropy"].values()), list(found["window_mass"].values()),
               [np.linalg.norm(off) / norm]]
    estimate = spectrum.estimate_tolerance(*positive, omega, causal, abs(scale))
    with open(path, "wb") as file:
        file.write(f"{case.n} {case.m} {case.d} {int(causal)} {case.features} {len(WINDOWS)} "
                   f"{scale:.17g} {spectrum.tolerance(q, k, scale):.17g} {estimate:.17g}\n"
                   .encode())
        file.write(np.asarray(WINDOWS, dtype="<i8").tobytes())
        for x in (q, k, omega):
            file.write(x.astype("<f4").tobytes())
        file.write(np.concatenate(figures).astype("<f8").tobytes())


def main(folder):
    """Write every case, causal and not."""
    os.makedirs(folder, exist_ok=True)
    for seed, case in enumerate(CASES):
        for causal in (False, True):
            name = f"{seed}_{case.n}_{case.m}_{case.d}{'_causal' * causal}.vec"
            write(os.path.join(folder, name), case, causal, seed)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.splitlines()[0])
    main(sys.argv[1])
