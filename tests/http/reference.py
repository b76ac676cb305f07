"""Exact attention in float64, by the textbook formula and nothing else.

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


def attend(q, k, v, causal=False, lengths=None, key_mask=None, scale=None):
    """softmax(scale q k^T + mask) v for tensors of rank 2, 3 or 4; the answer has q's rank."""
    q4, k4, v4 = (as_rank_4(x) for x in (q, k, v))
    batch, heads, n, d = q4.shape
    kv_heads, m = k4.shape[1:3]
    if scale is None:
        scale = 1.0 / np.sqrt(d)
    seen = visible(batch, n, m, causal, lengths, key_mask)
    out = np.empty((batch, heads, n, v4.shape[3]))
    for h in range(heads):
        g = h // (heads // kv_heads)
        logits = scale * (q4[:, h] @ k4[:, g].swapaxes(1, 2))
        out[:, h] = softmax(np.where(seen, logits, -np.inf)) @ v4[:, g]
    return out.reshape(np.shape(q)[:-1] + (v4.shape[3],))


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
