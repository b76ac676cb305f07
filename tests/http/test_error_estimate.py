"""measure_error: how far an answer is from exact attention, as sampled and as it is in float64."""

import numpy as np
import reference
import samples
from test_variants import VariantCase

MEASURED = [("exact", {}), ("window", {"window": 5}), ("sparse", {"stride": 3}),
            ("linformer", {"k": 8}), ("performer", {"features": 32})]


def distance(answer, exact):
    return np.linalg.norm(answer - exact) / np.linalg.norm(exact)


class Estimates(VariantCase):
    def tensors(self, n, m):
        return (samples.normal(1, 2, 4, n, 8), samples.normal(2, 2, 2, m, 8),
                samples.normal(3, 2, 2, m, 5))

    def test_with_few_rows_it_is_the_distance(self):
        for backend, params in MEASURED:
            for mask in ({}, {"causal": True}, {"lengths": [30, 11]}):
                if backend == "linformer" and "causal" in mask:
                    continue
                with self.subTest(backend=backend, mask=mask):
                    qkv = self.tensors(30, 30)
                    got, told = self.by_json(backend, qkv, params, measure_error=True, **mask)
                    rows = sum(mask.get("lengths", [30, 30]))
                    estimate = told["error_estimate"]
                    self.assertEqual(estimate["rows_sampled"], min(rows, 64))
                    wanted = distance(got, reference.attend(*qkv, **mask))
                    # Both round each number of an answer near 1: a few times 2^-24.
                    self.assertAlmostEqual(estimate["relative_l2"], wanted,
                                           delta=1e-6 + 1e-5 * wanted)

    def test_some_rows_of_many_estimate_it(self):
        qkv = self.tensors(400, 400)
        for backend, params in MEASURED[1:]:
            with self.subTest(backend=backend):
                got, told = self.by_json(backend, qkv, params, measure_error=True)
                estimate = told["error_estimate"]
                self.assertEqual(estimate["rows_sampled"], 64)
                wanted = distance(got, reference.attend(*qkv))
                self.assertLess(abs(estimate["relative_l2"] - wanted), 0.3 * wanted)

    def test_binary_says_the_same_and_nobody_asked_says_nothing(self):
        qkv = self.tensors(40, 90)
        _, told = self.by_json("window", qkv, {"window": 5}, measure_error=True)
        _, again = self.by_json("window", qkv, {"window": 5}, measure_error=True)
        self.assertEqual(told["error_estimate"], again["error_estimate"])
        _, silent = self.by_json("window", qkv, {"window": 5})
        self.assertNotIn("error_estimate", silent)

    def test_memory_and_metrics_count_it(self):
        qkv = self.tensors(100, 100)
        _, told = self.by_json("window", qkv, {"window": 5}, measure_error=True)
        self.assertLessEqual(told["memory"]["workspace_bytes"], told["memory"]["predicted_bytes"])
        text = self.daemon.get("/metrics").body.decode()
        self.assertIn('attnd_approximation_relative_error_count{backend="window"}', text)
        self.assertIn('attnd_approximation_samples_total{backend="window"}', text)
