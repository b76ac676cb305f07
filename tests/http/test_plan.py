"""POST /v1/plan: the decision without the work, and the same decision that attend takes."""

import unittest

import client
import numpy as np
import samples


class Plan(unittest.TestCase):
    def plan(self, document):
        answer = client.shared().post("/v1/plan", document)
        self.assertEqual(answer.status, 200, str(answer))
        self.assertNotIn("output", answer.json)
        return answer.json

    def test_agrees_with_attend(self):
        q = samples.normal(1, 4, 30, 8).tolist()
        k = samples.normal(2, 2, 50, 8).tolist()
        for fields in ({}, {"causal": True}, {"backend": "exact"}, {"backend": "auto"},
                       {"hints": {"long_range": True}}, {"key_mask": [1, 0] * 25}):
            document = {"q": q, "k": k, "v": k, **fields}
            with self.subTest(**fields):
                planned = self.plan(document)
                done = client.shared().post("/v1/attend", document).json
                self.assertEqual(planned["backend"], done["backend"])
                self.assertEqual(without_times(planned["route"]), without_times(done["route"]))
                self.assertEqual(planned["warnings"], done["warnings"])

    def test_shape_agrees_with_tensors(self):
        for keys in (100, 4095, 4096, 33000):
            k = client.tensor(np.ones((2, keys, 1), np.float32))
            q = client.tensor(np.ones((4, 7, 1), np.float32))
            by_tensors = self.plan({"q": q, "k": k, "v": k})
            by_shape = self.plan({"shape": {"n": 7, "m": keys, "heads": 4, "kv_heads": 2, "d": 1,
                                            "batch": 1}})
            with self.subTest(keys=keys):
                self.assertEqual(by_tensors["backend"], by_shape["backend"])
                self.assertEqual(without_times(by_tensors["route"]),
                                 without_times(by_shape["route"]))

    def test_rules(self):
        for n, hints, rule in ((4095, {}, "short"), (4096, {}, "medium"), (32768, {}, "medium"),
                               (32769, {}, "long"), (32769, {"long_range": True}, "long_range"),
                               (10, {"long_range": True}, "short")):
            with self.subTest(n=n, hints=hints):
                planned = self.plan({"shape": {"n": n, "d": 64}, "hints": hints})
                self.assertEqual(planned["route"]["rule"], rule)
                self.assertIn(str(n), planned["route"]["reason"])

    def test_a_long_request_is_only_planned(self):
        planned = self.plan({"shape": {"n": 50_000, "heads": 4, "d": 64}, "backend": "exact"})
        by_name = {entry["backend"]: entry for entry in planned["route"]["considered"]}
        self.assertGreater(by_name["exact"]["predicted_ms"], 1000)

    def test_prediction_grows_with_the_work(self):
        times = []
        for n in (256, 512, 1024, 2048):
            planned = self.plan({"shape": {"n": n, "heads": 4, "d": 64}})
            entry = [e for e in planned["route"]["considered"] if e["backend"] == "exact"][0]
            times.append(entry["predicted_ms"])
        self.assertEqual(times, sorted(times))
        self.assertLess(times[0], times[-1])

    def test_refusals(self):
        daemon = client.shared()
        for document in ({}, {"shape": {}}, {"shape": 5}, {"shape": {"n": 0, "d": 8}},
                         {"shape": {"n": -1, "d": 8}}, {"shape": {"n": 1.5, "d": 8}},
                         {"shape": {"n": "8", "d": 8}}, {"shape": {"n": 8, "d": 8, "x": 1}},
                         {"shape": {"n": 2**62, "m": 2**62, "d": 2**62}},
                         {"shape": {"n": 8, "d": 8, "heads": 4, "kv_heads": 3}},
                         {"shape": {"n": 8, "d": 8}, "backend": "exakt"},
                         {"shape": {"n": 8, "d": 8}, "nope": 1}, [], 5):
            with self.subTest(document=document):
                answer = daemon.post("/v1/plan", document)
                self.assertIn(answer.status, (400, 413, 422), str(answer))
                self.assertTrue(answer.json["error"]["message"])
        model = daemon.post("/v1/plan", {"model": "demo", "shape": {"n": 8192}})
        self.assertEqual(model.status, 404, str(model))


def without_times(route):
    """The route without predicted times, which depend on d's of v that a bare shape cannot tell."""
    drop = ("predicted_ms", "predicted_bytes")
    considered = [{key: value for key, value in entry.items() if key not in drop}
                  for entry in route["considered"]]
    return {**route, "considered": considered}
