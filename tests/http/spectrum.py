"""The figures of a low-rank analysis in float64: numpy's SVD and the definitions, nothing else."""

import numpy as np
import reference

LEVELS = (0.9, 0.95, 0.99)
RANK_UNIT = 1.2e-7


def attention_matrix(q, k, causal=False, scale=None):
    """(n, m): softmax(scale q k^T) of one head, rows that see no key 0."""
    return reference.attend(q, k, np.eye(len(k)), causal=causal, scale=scale)


def estimated_matrix(q, k, omega, causal=False, scale=None):
    """(n, m): what performer with these directions puts in its place."""
    return reference.performer(q, k, np.eye(len(k)), omega, causal=causal, scale=scale)


def window_mass(matrix, causal, window):
    """The part of all attention that lies inside the window."""
    inside = reference.window_pattern(*matrix.shape, causal, window)
    return matrix[inside].sum() / matrix.sum()


def row_entropy(matrix):
    """In nats, of each row that sees a key."""
    rows = matrix[matrix.any(axis=1)]
    logs = np.log(np.where(rows > 0, rows, 1))
    return -(rows * logs).sum(axis=1)


def analyze(q, k, causal=False, scale=None, windows=(), omega=None):
    """One head's entry of the answer of POST /v1/analyze, as a dictionary of the same shape."""
    q, k = (np.asarray(x, dtype=np.float64) for x in (q, k))
    (n, d), m = q.shape, len(k)
    scale = 1 / np.sqrt(d) if scale is None else scale
    matrix = attention_matrix(q, k, causal, scale)
    values = np.linalg.svd(matrix, compute_uv=False)
    energy = np.cumsum(values**2) / (values**2).sum()
    entropy = row_entropy(matrix)
    figures = {
        "n": n, "m": m, "d": d, "rank_bound": min(n, m, d),
        "numerical_rank": int((values > values[0] * max(n, m) * RANK_UNIT).sum()),
        "stable_rank": (values**2).sum() / values[0] ** 2,
        "singular_values": values, "cumulative_energy": energy,
        "k_energy": {str(level): int(min(np.searchsorted(energy, level), len(energy) - 1)) + 1
                     for level in LEVELS},
        "score_singular_values": np.linalg.svd(scale * (q @ k.T), compute_uv=False),
        "row_entropy": {"mean": entropy.mean(), "min": entropy.min(), "max": entropy.max()},
        "window_mass": {str(w): window_mass(matrix, causal, w) for w in windows},
    }
    if omega is not None:
        off = estimated_matrix(q, k, omega, causal, scale) - matrix
        figures["kernel_estimate"] = {
            "features": len(omega),
            "relative_frobenius": np.linalg.norm(off) / np.linalg.norm(matrix)}
    return figures


def tolerance(q, k, scale=None):
    """Bound on the error of double-precision singular values, as a fraction of the largest.

    A logit is off by a rounding or two of scale * sum |q_c k_c|, an entry of A by twice that in
    relative terms; the decomposition by a few roundings times n + m (LAPACK Users' Guide, error
    bounds for the singular value decomposition).
    """
    q, k = (np.abs(np.asarray(x, dtype=np.float64)) for x in (q, k))
    scale = 1 / np.sqrt(q.shape[1]) if scale is None else abs(scale)
    return 8 * 2.0**-53 * (len(q) + len(k) + scale * (q @ k.T).max())


def estimate_tolerance(q, k, omega, causal=False, scale=None):
    """Bound on the error of float32 relative_frobenius: each entry of the estimate may be off by
    performer's own bound."""
    entry = reference.performer_tolerance(q, k, np.eye(len(k)), omega, scale=scale)
    matrix = attention_matrix(q, k, causal, scale)
    return 1e-12 + entry * np.sqrt(matrix.size) / np.linalg.norm(matrix)
