#!/usr/bin/python3
"""Write reference vectors for exact attention and its variants: usage make_vectors.py OUTDIR.

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

# How far a window or pattern may be off besides what exact attention may: its softmax is put down
# between two phases as answer / sum, which is two roundings of |answer| <= the largest |v|.
TWO_PHASES = 2 * reference.ROUNDING

# A case that a variant answers. params are those of a request; given holds sizes of tensors.
Variant = namedtuple("Variant", "mixer params given case")


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


def variant_shapes():
    """An endless round of cases: every grouping, relation of n and m, mask, and odd columns."""
    heads = itertools.cycle([(4, 2), (2, 2), (3, 1)])
    sizes = itertools.cycle([(73, 73), (1, 1), (30, 200), (49, 49), (97, 60), (1, 97), (49, 50),
                             (8, 1), (25, 25), (1, 200), (60, 97)])
    columns = itertools.cycle([(8, 8), (3, 5), (9, 3), (1, 8), (8, 1), (5, 7), (7, 9)])
    masks = itertools.cycle([None, "lengths", "random", "empty", "hidden"])
    for h, g in heads:
        n, m = next(sizes)
        d, dv = next(columns)
        mask = next(masks)
        lengths = [m // 2, m] if mask == "lengths" else [0, m] if mask == "empty" else None
        yield Case(f"{h}over{g}_n{n}_m{m}_{mask or 'full'}", 2, h, g, n, m, d, dv, False, lengths,
                   None if lengths else mask, 1)


def variant_cases():
    """Every parameter of every variant, among shapes that take turns."""
    shapes = variant_shapes()
    for (mixer, params), causal in itertools.product(banded_params(), (False, True)):
        for case in itertools.islice(shapes, 2):
            yield Variant(mixer, params, {}, case._replace(causal=causal))
    for params, given in linformer_params():
        for case in itertools.islice(shapes, 2):
            yield Variant("linformer", params, given, case)
    for coverage in (-400, 100):
        given = {"coverage": coverage, "each": False, "f": True}
        yield Variant("linformer", {"k": 7}, given, long_case()._replace(gain=0.25))
    yield Variant("linformer", {"k": 77}, {}, long_case()._replace(gain=0.25))
    for features, causal, gain in itertools.product((1, 7, 40), (False, True), (1, 30)):
        for case in itertools.islice(shapes, 3):
            yield Variant("performer", {}, {"omega": features},
                          case._replace(causal=causal, gain=gain))
    for causal in (False, True):
        yield Variant("performer", {}, {"omega": 16}, long_case()._replace(causal=causal))


def long_case():
    """Longer than the chunks that any variant works in, with a batch row that is empty."""
    return Case("long", 2, 1, 1, 30, 2200, 5, 3, False, [0, 2200], None, 1)


def banded_params():
    """Windows and patterns: single keys, ordinary sizes, and more than there are keys."""
    for window in (1, 2, 7, 64, 1000):
        yield "window", {"window": window}
    for pattern, stride in itertools.product(("strided", "fixed", "local"), (0, 1, 7, 50, 1000)):
        for summary in (1, 3, 2000) if pattern == "fixed" else (1,):
            yield "sparse", {"pattern": pattern, "stride": stride, "summary": summary}


def linformer_params():
    """Segments, and learned projections that cover more, just or less than there is."""
    for k in (1, 2, 5, 7, 30, 64, 1000):
        yield {"k": k}, {}
    for k, coverage, each, f in itertools.product((1, 33), (-30, 0, 25), (False, True),
                                                  (False, True)):
        yield {"k": k}, {"coverage": coverage, "each": each, "f": f}


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


def given_tensors(variant, seed):
    """Projections or directions that the variant is given, by name."""
    rng = np.random.default_rng([seed, 1])
    given, case = variant.given, variant.case
    tensors = {}
    if "omega" in given:
        tensors["omega"] = rng.standard_normal((given["omega"], case.d))
    if "coverage" in given:
        shape = (case.kv_heads if given["each"] else 1, variant.params["k"],
                 max(case.m + given["coverage"], 1))
        for name in ("e", "f") if given["f"] else ("e",):
            tensors[name] = rng.standard_normal(shape) / np.sqrt(shape[2])
    return {name: x.astype(np.float32) for name, x in tensors.items()}


def answer(variant, tensors, arrays, options):
    """(float64 answer, bound on a float32 one) of a variant."""
    case, params, v = variant.case, variant.params, arrays[2]
    masks = {name: options[name] for name in ("lengths", "key_mask", "scale")}
    if variant.mixer == "linformer":
        rest = {**tensors, **masks, "segments": params["k"]}
        return reference.linformer(*arrays, **rest), reference.linformer_tolerance(*arrays, **rest)
    if variant.mixer == "performer":
        rest = {**tensors, **masks}
        return (reference.performer(*arrays, causal=case.causal, **rest),
                reference.performer_tolerance(*arrays, **rest))
    pattern = reference.window_pattern if variant.mixer == "window" else reference.sparse_pattern
    largest = np.abs(v[np.abs(v) < GARBAGE]).max(initial=0)
    return (reference.attend(*arrays, causal=case.causal, **masks,
                             pattern=pattern(case.n, case.m, case.causal, **params)),
            largest * (1e-6 + TWO_PHASES))


def params_line(variant, tensors, tolerance):
    """The second line: the mixer and its parameters as name=value."""
    words = dict(variant.params)
    if "e" in tensors:
        words["projection_heads"], _, words["projection_length"] = tensors["e"].shape
        words["f"] = int("f" in tensors)
    if "omega" in tensors:
        words["features"] = len(tensors["omega"])
    words["tolerance"] = f"{tolerance:.9g}"
    return " ".join([variant.mixer, *(f"{name}={value}" for name, value in words.items())])


def write(path, line, arrays, options, tensors, expected):
    """One file: a line of sizes, one of parameters, the inputs, the masks, the float64 answer."""
    q, k, v = arrays
    batch, heads, n, d = q.shape
    kv_heads, m, dv = v.shape[1:]
    lengths, key_mask = options["lengths"], options["key_mask"]
    flags = f"{int(options['causal'])} {int(lengths is not None)} {int(key_mask is not None)}"
    with open(path, "wb") as file:
        file.write(f"{batch} {heads} {kv_heads} {n} {m} {d} {dv} {flags} "
                   f"{options['scale']:.17g}\n{line}\n".encode())
        for x in (*arrays, *(tensors[name] for name in ("e", "f", "omega") if name in tensors)):
            file.write(x.astype("<f4").tobytes())
        if lengths is not None:
            file.write(np.asarray(lengths, dtype="<i8").tobytes())
        if key_mask is not None:
            file.write(np.asarray(key_mask, dtype=np.uint8).tobytes())
        file.write(expected.astype("<f8").tobytes())


def options_of(arrays, causal, lengths, key_mask):
    """The options of a call; its scale is the engine's, a float32."""
    scale = float(np.float32(1 / np.sqrt(arrays[0].shape[3])))
    return {"causal": causal, "lengths": lengths, "key_mask": key_mask, "scale": scale}


def write_exact(path, arrays, options):
    """Its tolerance follows from the tensors and is left to the reader."""
    write(path, "exact", arrays, options, {}, reference.attend(*arrays, **options))


def write_variant(folder, seed, variant):
    """Into a folder of its own: what reads exact vectors need not know of variants."""
    *arrays, lengths, key_mask = build(variant.case, seed)
    options = options_of(arrays, variant.case.causal, lengths, key_mask)
    tensors = given_tensors(variant, seed)
    expected, tolerance = answer(variant, tensors, arrays, options)
    line = params_line(variant, tensors, tolerance)
    path = os.path.join(folder, f"{variant.mixer}_{variant.case.name}_{seed}.vec")
    write(path, line, arrays, options, tensors, expected)


def main(folder):
    """Write every case into `folder`, those of variants into a folder inside it."""
    variants = os.path.join(folder, "variants")
    os.makedirs(variants, exist_ok=True)
    cases = itertools.chain(grid_cases(), size_cases(), edge_cases())
    for seed, case in enumerate(cases):
        *arrays, lengths, key_mask = build(case, seed)
        write_exact(os.path.join(folder, case.name + ".vec"), arrays,
                    options_of(arrays, case.causal, lengths, key_mask))
    arrays = [x[None] for x in samples.trained_like()]
    write_exact(os.path.join(folder, "trained_like_causal.vec"), arrays,
                options_of(arrays, True, None, None))
    for seed, variant in enumerate(variant_cases()):
        write_variant(variants, seed, variant)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.splitlines()[0])
    main(sys.argv[1])
