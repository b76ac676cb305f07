"""The reference itself, against plain loops and against numbers worked out elsewhere."""

import itertools
import math
import unittest

import numpy as np
import reference
import samples


def attend_by_loops(q, k, v, causal, length, keys):
    """One head, one row at a time, with nothing but the definition."""
    n, m = len(q), len(k)
    out = np.zeros((n, v.shape[1]))
    for i in range(n):
        if length is not None and n == m and i >= length:
            continue
        seen = [j for j in range(m)
                if (not causal or j <= i + m - n)
                and (length is None or j < length)
                and (keys is None or keys[j])]
        logits = [math.fsum(a * b for a, b in zip(q[i], k[j])) / math.sqrt(q.shape[1])
                  for j in seen]
        weights = [math.exp(x - max(logits)) for x in logits]
        for weight, j in zip(weights, seen):
            out[i] += weight / math.fsum(weights) * v[j]
    return out


class Reference(unittest.TestCase):
    def test_against_loops(self):
        masks = [(None, None), (0, None), (3, None), (None, [1, 0, 0, 1, 1, 0, 1])]
        for (n, m), causal, (length, keys) in itertools.product(
                [(7, 7), (5, 7), (9, 7)], (False, True), masks):
            with self.subTest(n=n, m=m, causal=causal, length=length, keys=keys):
                q, k, v = (samples.normal(i, 1, 1, rows, 3).astype(float)
                           for i, rows in enumerate((n, m, m)))
                lengths = None if length is None else [length]
                got = reference.attend(q, k, v, causal, lengths, keys)[0, 0]
                wanted = attend_by_loops(q[0, 0], k[0, 0], v[0, 0], causal, length, keys)
                np.testing.assert_allclose(got, wanted, atol=1e-14)

    def test_grouped_heads_map_by_division(self):
        q, k = np.zeros((4, 1, 2)), np.zeros((2, 1, 2))
        v = np.array([10.0, 20.0]).reshape(2, 1, 1)
        self.assertEqual(reference.attend(q, k, v).ravel().tolist(), [10, 10, 20, 20])

    def test_published_numbers(self):
        q = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
        k = np.array([[0.7, 0.8], [0.9, 1], [1.1, 1.2]])
        v = np.array([[1.0, 2], [3, 4], [5, 6]])
        wanted = [[1, 2], [2.0495, 3.0495], [3.2066, 4.2066]]
        np.testing.assert_allclose(reference.attend(q, k, v, causal=True), wanted, atol=1e-4)

    def test_trained_like_is_peaked(self):
        q, k, _ = samples.trained_like()
        logits = q[1].astype(float) @ k[0].T.astype(float) / math.sqrt(8)
        self.assertGreater(logits.max(), 100)
