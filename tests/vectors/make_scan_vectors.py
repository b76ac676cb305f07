#!/usr/bin/python3
"""Write reference vectors for Mamba's convolution and scan: usage make_scan_vectors.py OUTDIR.

The format stands in README.md beside this file. A mask is what the formulas say literally: x times
the mask before the convolution and after it, and the recurrence over every position. B and C are
projections of what is 0 there, so they are 0 too.
"""

import itertools
import os
import sys
from collections import namedtuple

import numpy as np

# hidden: what the mask hides: None, "left", "right" or "holes". biased: both biases, the skip and the gate are there.
# step and decay: what dt and A_log lie around.
Case = namedtuple("Case", "name count channels states width euler biased hidden step decay")


def silu(x):
    return x / (1 + np.exp(-x))


def cases():
    """Every option with sizes that take turns, then long ones with strong and weak decay."""
    sizes = itertools.cycle([(1, 1, 1, 4), (7, 16, 16, 4), (33, 17, 5, 2), (64, 8, 16, 3),
                             (65, 40, 1, 8), (20, 3, 24, 1), (129, 31, 16, 4)])
    for euler, biased, hidden in itertools.product((True, False), (True, False),
                                                   (None, "left", "right", "holes")):
        for count, channels, states, width in itertools.islice(sizes, 3):
            name = (f"{'euler' if euler else 'article'}_{'biased' if biased else 'bare'}_"
                    f"{hidden or 'full'}_n{count}_c{channels}_s{states}_k{width}")
            yield Case(name, count, channels, states, width, euler, biased, hidden, -2, 0)
    for step, decay in ((3, 4), (-6, -1)):
        yield Case(f"long_step{step}", 1000, 20, 16, 4, True, True, None, step, decay)


def build(case, mask, seed):
    """The arrays of a case in the order of the file, as float32; absent ones are None."""
    rng = np.random.default_rng(seed)
    n, c, s = case.count, case.channels, case.states

    def normal(*shape, center=0.0):
        return (center + rng.standard_normal(shape)).astype(np.float32)

    def optional(*shape):
        return normal(*shape) if case.biased else None

    return {"x": normal(n, c), "weight": normal(c, case.width), "bias": optional(c),
            "dt": normal(n, c, center=case.step), "dt_bias": optional(c),
            "b": normal(n, s) * mask[:, None], "c": normal(n, s) * mask[:, None],
            "a_log": normal(c, s, center=case.decay),
            "skip": optional(c), "z": optional(n, c)}


def mask_of(case):
    """1 where a position is valid, at least one of them."""
    third = case.count // 3
    mask = np.ones(case.count, np.uint8)
    if case.hidden == "left":
        mask[:third] = 0
    elif case.hidden == "right":
        mask[case.count - third:] = 0
    elif case.hidden == "holes":
        mask[1::3] = 0
    return mask


def convolve(arrays, mask):
    """silu(conv(x) + bias), causal, depthwise."""
    x, weight = arrays["x"].astype(np.float64) * mask[:, None], arrays["weight"].astype(np.float64)
    width = weight.shape[1]
    padded = np.concatenate([np.zeros((width - 1, x.shape[1])), x])
    total = sum(padded[k:k + len(x)] * weight[:, k] for k in range(width))
    if arrays["bias"] is not None:
        total = total + arrays["bias"].astype(np.float64)
    return silu(total) * mask[:, None]


def scan(case, arrays, x):
    """The selective scan of x, all in float64, a position after the other."""
    wide = {name: None if a is None else a.astype(np.float64) for name, a in arrays.items()}
    x = x.astype(np.float64)
    raw = wide["dt"] if wide["dt_bias"] is None else wide["dt"] + wide["dt_bias"]
    step, a = np.logaddexp(0, raw), -np.exp(wide["a_log"])
    h, y = np.zeros_like(a), np.zeros_like(x)
    for t in range(case.count):
        grown = step[t] * x[t] if case.euler else x[t]
        h = np.exp(step[t][:, None] * a) * h + grown[:, None] * wide["b"][t]
        y[t] = h @ wide["c"][t]
        if wide["skip"] is not None:
            y[t] += wide["skip"] * x[t]
        if wide["z"] is not None:
            y[t] *= silu(wide["z"][t])
    return y


def write(path, case, seed):
    mask = mask_of(case)
    arrays = build(case, mask, seed)
    convolved = convolve(arrays, mask)
    answer = scan(case, arrays, convolved.astype(np.float32))
    with open(path, "wb") as file:
        file.write(f"{case.count} {case.channels} {case.states} {case.width} {int(case.euler)} "
                   f"{int(case.biased)} {int(case.hidden is not None)}\n".encode())
        for array in arrays.values():
            if array is not None:
                file.write(array.astype("<f4").tobytes())
        if case.hidden is not None:
            file.write(mask.tobytes())
        file.write(convolved.astype("<f8").tobytes())
        file.write(answer.astype("<f8").tobytes())


def main(folder):
    os.makedirs(folder, exist_ok=True)
    for seed, case in enumerate(cases()):
        write(os.path.join(folder, case.name + ".vec"), case, seed)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
