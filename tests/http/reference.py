"""Attention in float64, exact and every variant of it, by the textbook formulas and nothing else.

The one Python statement of the mathematics: the vectors for the C tests and the HTTP tests both
come from here, so that a mistake in the formula could not hide in one of two copies.
"""

import numpy as np


def visible(batch, n, m, causal=False, lengths=None, key_mask=None):
    """(batch, n, m) booleans: may query i of a batch row see key j?"""
    i = np.arange(n)[:, None]
    j = np.arange(m)[None, :]
    seen = np.ones((batch, n, m), dtype=bool)
    if causal:
        seen &= j <= i + (m - n)
    if lengths is not None:
        length = np.asarray(lengths).reshape(batch, 1, 1)
        seen &= j < length
        if n == m:
            seen &= i < length
    if key_mask is not None:
        keys = np.asarray(key_mask, dtype=bool)
        seen &= np.broadcast_to(keys, (batch, m))[:, None, :]
    return seen


def softmax(logits):
    """Softmax over the last axis; a row of nothing but -inf has no visible key and becomes 0."""
    top = logits.max(axis=-1, keepdims=True)
    weights = np.exp(logits - np.where(np.isneginf(top), 0.0, top))
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total > 0, total, 1.0)


def window_pattern(n, m, causal, window):
    """(n, m) booleans: the keys a window leaves; causal counts the query's own among them."""
    distance = (np.arange(n)[:, None] + m - n) - np.arange(m)[None, :]
    return (0 <= distance) & (distance < window) if causal else np.abs(distance) <= window


def sparse_pattern(n, m, causal, pattern="strided", stride=None, summary=1):
    """(n, m) booleans: what the Sparse Transformer attends to; numpy's // and % round down."""
    stride = stride or int(np.ceil(np.sqrt(m)))
    p, j = np.arange(n)[:, None] + m - n, np.arange(m)[None, :]
    seen = np.abs(p - j) < stride
    if pattern == "strided":
        seen = seen | ((p - j) % stride == 0)
    if pattern == "fixed":
        seen = (p // stride == j // stride) | (j % stride >= stride - summary)
    return seen & (j <= p) if causal else seen


def attend(q, k, v, causal=False, lengths=None, key_mask=None, scale=None, pattern=True):
    """softmax(scale q k^T + mask) v for tensors of rank 2, 3 or 4; the answer has q's rank.

    `pattern` is (n, m) booleans, a further mask.
    """
    q4, k4, v4 = (as_rank_4(x) for x in (q, k, v))
    batch, heads, n, d = q4.shape
    kv_heads, m = k4.shape[1:3]
    if scale is None:
        scale = 1.0 / np.sqrt(d)
    seen = visible(batch, n, m, causal, lengths, key_mask) & pattern
    out = np.empty((batch, heads, n, v4.shape[3]))
    for h in range(heads):
        g = h // (heads // kv_heads)
        logits = scale * (q4[:, h] @ k4[:, g].swapaxes(1, 2))
        out[:, h] = softmax(np.where(seen, logits, -np.inf)) @ v4[:, g]
    return out.reshape(np.shape(q)[:-1] + (v4.shape[3],))


def mean_projection(length, segments):
    """(k, length): row s averages segment s; k is the smaller of the two."""
    k = min(segments, length)
    rows = np.zeros((k, length))
    for s in range(k):
        begin, end = s * length // k, (s + 1) * length // k
        rows[s, begin:end] = 1 / (end - begin)
    return rows


def fitted(e, length):
    """(k, length): the first columns of (k, m') or, beyond m', columns linearly interpolated
    (align_corners = false) and scaled so that rows keep their mass."""
    covered = e.shape[1]
    if length <= covered:
        return e[:, :length]
    at = np.clip((np.arange(length) + 0.5) * covered / length - 0.5, 0, covered - 1)
    left = np.floor(at).astype(int)
    right = np.minimum(left + 1, covered - 1)
    return (e[:, left] * (1 - (at - left)) + e[:, right] * (at - left)) * covered / length


def projections(head, length, segments, e, f):
    """E and F of one head, (k, length) each; without e the means of segments."""
    if e is None:
        return (mean_projection(length, segments),) * 2
    return tuple(fitted(of_head(x, head), length) for x in (e, e if f is None else f))


def of_head(projection, head):
    """The (k, m') of one head: every head's own, or one that they share."""
    each = np.asarray(projection, dtype=np.float64)
    each = each.reshape((-1,) + each.shape[-2:])
    return each[head if len(each) > 1 else 0]


def linformer(q, k, v, segments=256, e=None, f=None, lengths=None, key_mask=None, scale=None):
    """softmax(scale q (E k)^T) (F v), each batch row on its own valid length."""
    q4, k4, v4 = (as_rank_4(x) for x in (q, k, v))
    batch, heads, n, d = q4.shape
    kv_heads, m = k4.shape[1:3]
    scale = 1.0 / np.sqrt(d) if scale is None else scale
    keys = visible(batch, 1, m, key_mask=key_mask)[:, 0]
    seen = visible(batch, n, m, False, lengths, key_mask).any(axis=2)
    out = np.zeros((batch, heads, n, v4.shape[3]))
    for b, h in np.ndindex(batch, heads):
        length = m if lengths is None else lengths[b]
        if not length:
            continue
        g = h // (heads // kv_heads)
        e_of, f_of = projections(g, length, segments, e, f)
        kept = keys[b, :length, None]
        short_k = e_of @ np.where(kept, k4[b, g, :length], 0)
        short_v = f_of @ np.where(kept, v4[b, g, :length], 0)
        out[b, h] = softmax(scale * (q4[b, h] @ short_k.T)) @ short_v
    return np.where(seen[:, None, :, None], out, 0).reshape(np.shape(q)[:-1] + (v4.shape[3],))


def performer(q, k, v, omega, causal=False, lengths=None, key_mask=None, scale=None):
    """FAVOR+ with the directions given: sums of exp(w q' + w k' - |k'|^2 / 2), taken in logarithms
    row by row, so that no size of q and k is too large."""
    q4, k4, v4 = (as_rank_4(x) for x in (q, k, v))
    batch, heads, n, d = q4.shape
    kv_heads, m = k4.shape[1:3]
    root = np.sqrt(1.0 / np.sqrt(d) if scale is None else scale)
    omega = np.asarray(omega, dtype=np.float64)
    seen = visible(batch, n, m, causal, lengths, key_mask)
    out = np.zeros((batch, heads, n, v4.shape[3]))
    for b, h in np.ndindex(batch, heads):
        g = h // (heads // kv_heads)
        log_q = root * q4[b, h] @ omega.T
        log_k = root * k4[b, g] @ omega.T - (root * k4[b, g] ** 2 * root).sum(1)[:, None] / 2
        for i in np.flatnonzero(seen[b].any(axis=1)):
            logs = log_q[i] + log_k[seen[b, i]]
            weights = np.exp(logs - logs.max()).sum(axis=1)
            out[b, h, i] = weights @ v4[b, g, seen[b, i]] / weights.sum()
    return out.reshape(np.shape(q)[:-1] + (v4.shape[3],))


def mixed(x):
    """SplitMix64's finaliser."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return x ^ (x >> np.uint64(31))


def drawn_bits(seed, stream, count):
    """53 random bits of each of the stream's first elements, by seed, stream and position alone."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        stream_key = mixed(np.full(1, seed, np.uint64) + golden) + np.uint64(stream + 1) * golden
        return mixed(mixed(stream_key) + np.arange(1, count + 1, dtype=np.uint64) * golden) >> \
            np.uint64(11)


def drawn_normals(seed, stream, count):
    """Box and Muller's."""
    radius = np.sqrt(-2 * np.log((drawn_bits(seed, 2 * stream, count) + np.uint64(1)) * 2.0**-53))
    return radius * np.cos(2 * np.pi * drawn_bits(seed, 2 * stream + 1, count) * 2.0**-53)


def directions(features, d, seed=0, orthogonal=True, norm="chi"):
    """Performer's directions: Gaussian rows g, or in blocks of d of them, with t_k what is left of
    row k from column k on and H_k the reflection that takes e_k to it or its negative,
    |g_i| (or sqrt(d)) H_0 ... H_(i - 1) t_i / |t_i| (Stewart 1980)."""
    drawn = drawn_normals(seed, 2, features * d).astype(np.float32).astype(np.float64)
    omega = drawn.reshape(features, d)
    for first in range(0, features if orthogonal else 0, d):
        block = omega[first:first + d]
        lengths = np.linalg.norm(block, axis=1) if norm == "chi" else np.full(len(block), d**0.5)
        turned = np.eye(d)
        for i, tail in enumerate(np.triu(block)):
            mirror = tail.copy()
            mirror[i] += np.copysign(np.linalg.norm(tail), tail[i])
            row = turned @ (tail / np.linalg.norm(tail))
            turned -= 2 * np.outer(turned @ mirror, mirror) / (mirror @ mirror)
            block[i] = lengths[i] * row
    return omega


def as_rank_4(x):
    """The tensor as float64 (batch, heads, rows, columns)."""
    x = np.asarray(x, dtype=np.float64)
    return x.reshape((1,) * (4 - x.ndim) + x.shape)


def tolerance(q, k, scale=None):
    """Bound on float32 attention's error, as a fraction of the largest visible |v|.

    Rounding disturbs a logit by a few units in the last place of scale * sum |q_c k_c|, and
    disturbing every logit by x moves the answer by at most 2x of the largest |v|. Two roundings
    a logit (one when q takes the scale, one of the sum) make 4 * 2^-24 times that sum; weights
    and sums of unit size add 1e-6.
    """
    q4, k4 = np.abs(as_rank_4(q)), np.abs(as_rank_4(k))
    if scale is None:
        scale = 1.0 / np.sqrt(q4.shape[3])
    size = q4.max(axis=(0, 1, 2)) @ k4.max(axis=(0, 1, 2))
    return 1e-6 + 4 * 2.0**-24 * abs(scale) * size


# Sums of many terms. Errors of a sum of `terms` roundings grow with the square root of their number
# (Higham and Mary 2019, theorem 2.4: lambda sqrt(terms) u; lambda 4 fails once in 1500 entries even
# if every sum were as bad as the bound, which none is).
ROUNDING = 2.0**-24


def sum_rounding(terms):
    """Relative to the sum of absolute values."""
    return 4 * np.sqrt(terms) * ROUNDING


def linformer_tolerance(q, k, v, segments=256, e=None, f=None, lengths=None, key_mask=None,
                        scale=None):
    """Bound on float32 Linformer's error, absolute.

    An entry of E k is off by sum_rounding of |E| |k| (two more roundings where coefficients are
    interpolated); a logit by that times |q|, and by two roundings of its own, as in `tolerance`.
    Disturbing every logit by x moves the answer by 2x of the largest |F v|, to which F v's own
    error comes.
    """
    q4, k4, v4 = (np.abs(as_rank_4(x)) for x in (q, k, v))
    batch, heads, _, d = q4.shape
    kv_heads, m = k4.shape[1:3]
    scale = 1.0 / np.sqrt(d) if scale is None else abs(scale)
    keys = visible(batch, 1, m, key_mask=key_mask)[:, 0]
    worst = 0.0
    for b, h in np.ndindex(batch, heads):
        length = m if lengths is None else lengths[b]
        if not length or not keys[b, :length].any():
            continue
        g = h // (heads // kv_heads)
        e_of, f_of = (np.abs(x) for x in projections(g, length, segments, e, f))
        kept = keys[b, :length, None]
        short_k = e_of @ np.where(kept, k4[b, g, :length], 0)
        short_v = (f_of @ np.where(kept, v4[b, g, :length], 0)).max()
        rows = q4[b, h, :length] if q4.shape[2] == m else q4[b, h]
        logit = scale * (rows @ short_k.T).max()
        off = logit * (sum_rounding(length + 4) + 2 * ROUNDING)
        worst = max(worst, short_v * (1e-6 + 2 * off + sum_rounding(length + 4)))
    return worst


def performer_tolerance(q, k, v, omega, lengths=None, key_mask=None, scale=None):
    """Bound on float32 Performer's error, absolute.

    The answer is a mean of v whose weights are sums of positive terms, so a relative error x of
    every term moves it by at most 2x of the largest |v|. A term is 2^(a + b): its exponents are
    sums of d products and a square, off by sum_rounding(d) of |w| |x'| + |x'|^2 / 2, and rounded a
    few times more as the running maximum comes off; three exponentials are off by 1.7e-7 each; the
    sums over keys and features by sum_rounding of their number.
    """
    q4, k4, v4 = (np.abs(as_rank_4(x)) for x in (q, k, v))
    batch, heads, n, d = q4.shape
    m = k4.shape[2]
    root = np.sqrt(1.0 / np.sqrt(d) if scale is None else abs(scale))
    seen = visible(batch, n, m, False, lengths, key_mask)
    directions = np.abs(omega).astype(np.float64)
    exponent, value = 0.0, 0.0
    for b in range(batch):
        rows, keys = seen[b].any(axis=1), seen[b].any(axis=0)
        if keys.any():
            x, y = root * q4[b][:, rows], root * k4[b][:, keys]
            exponent = max(exponent, (x @ directions.T).max()
                           + (y @ directions.T + (y**2).sum(-1, keepdims=True) / 2).max())
            value = max(value, v4[b][:, keys].max())
    term = exponent * (sum_rounding(d) + 4 * ROUNDING) + 3 * 1.7e-7
    return value * 2 * (term + sum_rounding(m + len(directions)))
