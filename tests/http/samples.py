"""Deterministic tensors that several suites use."""

import numpy as np


def normal(seed, *shape):
    """Unit-normal float32."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def trained_like(positions=200, heads=8, kv_heads=4, d=8):
    """q, k, v whose attention looks like a trained layer's: peaked and of low rank.

    Every position has one of a few topics, a head asks for the topics it cares for, position 0 is
    the sink that all heads fall back on, and a little noise keeps rows apart. Logits pass 100.
    """
    rng = np.random.default_rng(20)
    topics = rng.standard_normal((6, 3))
    topic = rng.integers(0, len(topics), positions)
    latent = topics[topic]
    ask = rng.standard_normal((heads, 3, d))
    offer = rng.standard_normal((kv_heads, 3, d))
    offer /= np.linalg.norm(offer, axis=2, keepdims=True)
    q = 8 * latent @ ask + 0.3 * rng.standard_normal((heads, positions, d))
    k = 6 * latent @ offer + 0.3 * rng.standard_normal((kv_heads, positions, d))
    k[:, 0] = 4 * np.sign(q.mean(axis=(0, 1)))
    v = latent @ offer + 0.1 * rng.standard_normal((kv_heads, positions, d))
    return tuple(x.astype(np.float32) for x in (q, k, v))
