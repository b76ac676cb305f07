#!/usr/bin/python3
"""Write reference vectors for exact attention: usage make_vectors.py OUTDIR.

The format stands in README.md beside this file. Every tensor comes from a seed that follows from
the case's place in the list, so two runs write the same bytes.
"""

import itertools
import os
import sys
from collections import namedtuple

import numpy as np

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "http"))
import reference  # noqa: E402
import samples  # noqa: E402

# lengths: None, or a list of `batch` counts. mask: None or a key of MASKS. gain multiplies q and k.
Case = namedtuple("Case", "name batch heads kv_heads n m d dv causal lengths mask gain")

# Stands wherever no query looks. Finite, and so large that as a logit it beats every honest one: a
# mask that only adds a penalty shows at once.
GARBAGE = 1e30


def random_mask(rng, batch, m):
    """Half of the keys, never none of a row."""
    keys = rng.random((batch, m)) < 0.5
    keys[np.arange(batch), rng.integers(0, m, batch)] = True
    return keys


def hidden_row_mask(rng, batch, m):
    """The last batch row sees nothing at all."""
    keys = random_mask(rng, batch, m)
    keys[-1] = False
    return keys


def alternate_mask(_rng, batch, m):
    """Every second key, starting with a hidden one in row 0."""
    return (np.arange(m)[None, :] + np.arange(batch)[:, None]) % 2 == 1


def first_hidden_mask(_rng, batch, m):
    """Only the last key is visible: whole tiles are hidden before the first visible one."""
    return np.broadcast_to(np.arange(m) == m - 1, (batch, m))


MASKS = {
    "random": random_mask,
    "hidden": hidden_row_mask,
    "alternate": alternate_mask,
    "last": first_hidden_mask,
}


def grid_cases():
    """Every mask with every grouping of heads, causal or not, n below, equal to and above m."""
    heads = [(8, 2), (4, 4), (6, 1)]
    masks = [None, "lengths", "random", "hidden", "alternate"]
    sizes = {
        "eq": itertools.cycle([(24, 24), (1, 1), (25, 25), (47, 47), (23, 23), (49, 49)]),
        "lt": itertools.cycle([(1, 23), (23, 48), (24, 97), (25, 49), (1, 97), (25, 47)]),
        "gt": itertools.cycle([(48, 25), (23, 1), (49, 24), (47, 23), (25, 24), (25, 1)]),
    }
    columns = itertools.cycle([(8, 8), (3, 5), (7, 3), (1, 8), (8, 1), (17, 3), (5, 7)])
    for (h, g), mask, causal, relation in itertools.product(heads, masks, (False, True), sizes):
        n, m = next(sizes[relation])
        d, dv = next(columns)
        name = f"grid_{h}over{g}_{relation}_{mask or 'full'}{'_causal' * causal}"
        lengths = [max(m // 2, 1), m] if mask == "lengths" else None
        mask = None if mask == "lengths" else mask
        yield Case(name, 2, h, g, n, m, d, dv, causal, lengths, mask, 1)


def size_cases():
    """Sizes just beside the tile edges a kernel is likely to have, with few heads."""
    shapes = [
        (1, 1, 1, 1), (1, 385, 64, 64), (385, 1, 64, 7), (24, 48, 128, 128), (47, 96, 80, 80),
        (48, 97, 80, 17), (95, 95, 64, 8), (96, 96, 17, 17), (97, 97, 7, 64), (191, 191, 8, 7),
        (192, 192, 3, 3), (193, 193, 1, 1), (200, 200, 17, 8), (200, 193, 8, 17),
        (192, 385, 7, 8), (385, 385, 8, 3), (25, 385, 128, 3), (385, 191, 3, 25),
        (49, 200, 64, 80), (96, 25, 128, 1),
    ]
    for (n, m, d, dv), causal in itertools.product(shapes, (False, True)):
        name = f"size_n{n}_m{m}_d{d}_dv{dv}{'_causal' * causal}"
        yield Case(name, 1, 2, 1, n, m, d, dv, causal, None, None, 1)


def edge_cases():
    """What has broken attention elsewhere: empty rows, nothing visible, enormous logits."""
    for causal in (False, True):
        tail = "_causal" * causal
        yield Case("edge_length_0" + tail, 3, 2, 1, 25, 25, 8, 8, causal, [0, 25, 7], None, 1)
        yield Case("edge_length_0_cross" + tail, 2, 2, 2, 7, 49, 8, 3, causal, [0, 25], None, 1)
        yield Case("edge_length_1" + tail, 2, 2, 1, 97, 97, 8, 8, causal, [1, 96], None, 1)
        yield Case("edge_single_key" + tail, 1, 4, 2, 48, 1, 8, 8, causal, None, None, 1)
        yield Case("edge_last_key" + tail, 2, 4, 2, 49, 200, 8, 8, causal, None, "last", 1)
        yield Case("edge_both_masks" + tail, 2, 4, 2, 97, 97, 8, 8, causal, [50, 97], "random", 1)
        yield Case("huge_d64" + tail, 1, 2, 1, 97, 97, 64, 64, causal, None, None, 30)
        yield Case("huge_d8" + tail, 2, 4, 2, 49, 95, 8, 8, causal, None, "random", 30)
    yield Case("edge_empty_rows_causal", 1, 2, 2, 200, 3, 8, 8, True, None, None, 1)


def build(case, seed):
    """The case's tensors and masks: (q, k, v, lengths, key_mask)."""
    rng = np.random.default_rng(seed)
    q = case.gain * rng.standard_normal((case.batch, case.heads, case.n, case.d))
    k = case.gain * rng.standard_normal((case.batch, case.kv_heads, case.m, case.d))
    v = rng.standard_normal((case.batch, case.kv_heads, case.m, case.dv))
    key_mask = MASKS[case.mask](rng, case.batch, case.m) if case.mask else None
    spoil_hidden(case, key_mask, q, k, v)
    return tuple(x.astype(np.float32) for x in (q, k, v)) + (case.lengths, key_mask)


def spoil_hidden(case, key_mask, q, k, v):
    """Fill whatever no query may see, and queries that are padding, with garbage."""
    causal = False  # a key that the causal cut hides from one query is seen by another
    seen = reference.visible(case.batch, case.n, case.m, causal, case.lengths, key_mask)
    for b in range(case.batch):
        hidden_keys = ~seen[b].any(axis=0)
        k[b][:, hidden_keys] = GARBAGE
        v[b][:, hidden_keys] = -GARBAGE
        if case.lengths is not None and case.n == case.m:
            q[b][:, case.lengths[b]:] = GARBAGE


def write(path, q, k, v, causal, lengths, key_mask):
    """One file: a line of sizes, the float32 inputs, the masks, the float64 answer."""
    batch, heads, n, d = q.shape
    kv_heads, m, dv = v.shape[1:]
    scale = float(np.float32(1 / np.sqrt(d)))  # the engine's scale is a float32
    expected = reference.attend(q, k, v, causal, lengths, key_mask, scale)
    flags = f"{int(causal)} {int(lengths is not None)} {int(key_mask is not None)}"
    with open(path, "wb") as file:
        file.write(f"{batch} {heads} {kv_heads} {n} {m} {d} {dv} {flags} {scale:.17g}\n".encode())
        for x in (q, k, v):
            file.write(x.astype("<f4").tobytes())
        if lengths is not None:
            file.write(np.asarray(lengths, dtype="<i8").tobytes())
        if key_mask is not None:
            file.write(np.asarray(key_mask, dtype=np.uint8).tobytes())
        file.write(expected.astype("<f8").tobytes())


def main(folder):
    """Write every case into `folder`."""
    os.makedirs(folder, exist_ok=True)
    cases = itertools.chain(grid_cases(), size_cases(), edge_cases())
    for seed, case in enumerate(cases):
        q, k, v, lengths, key_mask = build(case, seed)
        path = os.path.join(folder, case.name + ".vec")
        write(path, q, k, v, case.causal, lengths, key_mask)
    q, k, v = (x[None] for x in samples.trained_like())
    write(os.path.join(folder, "trained_like_causal.vec"), q, k, v, True, None, None)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.splitlines()[0])
    main(sys.argv[1])
