"""POST /v1/analyze: every figure against numpy, advice against attend itself, and that it holds
nobody up."""

import json
import math
import statistics
import time

import client
import numpy as np
import reference
import safetensors
import samples
import spectrum
from exposition import value
from test_bounds import CANCELLED, REJECTED, BoundsCase, post_head
from test_lifecycle import wait_accepted
from test_ops import scrape_until

DEPTH = "attnd_queue_depth"
LIMIT = 512  # of analyze_max_n, by default


def unit(seed, *shape):
    return samples.normal(seed, *shape)


def scale_of(q):
    """The engine's own default, a float32."""
    return float(np.float32(1 / np.sqrt(q.shape[-1])))


def heads_of(q, k):
    """(q, k) of every query head, batch rows one after the other."""
    q4, k4 = reference.as_rank_4(q), reference.as_rank_4(k)
    group = q4.shape[1] // k4.shape[1]
    for b, h in np.ndindex(q4.shape[:2]):
        yield q4[b, h], k4[b, h // group]


def large(heads=8):
    """Tensors whose analysis takes a while."""
    return {name: unit(seed, heads, LIMIT, 64) for seed, name in enumerate("qkv")}


class AnalyzeCase(BoundsCase):
    def analyze(self, daemon, tensors, **fields):
        document = {name: client.tensor(x) for name, x in tensors.items()}
        answer = daemon.post("/v1/analyze", {**document, **fields})
        self.assertEqual(answer.status, 200, str(answer))
        return answer.json

    def start_analysis(self, daemon, tensors):
        """One in flight on a socket of its own, closed at the end of the test."""
        body = safetensors.dump(tensors)
        head = post_head(len(body), safetensors.TYPE).replace(b"/v1/attend", b"/v1/analyze")
        plain = daemon.socket()
        self.addCleanup(plain.close)
        plain.sendall(head + body)
        return plain


class Figures(AnalyzeCase):
    def check_head(self, found, q, k, causal, scale, windows, omega):
        expected = spectrum.analyze(q, k, causal, scale, windows, omega)
        self.assertEqual(set(found), set(expected) | {"kernel_estimate"})
        off = spectrum.tolerance(q, k, scale)
        for name in ("n", "m", "d", "rank_bound", "numerical_rank", "k_energy"):
            self.assertEqual(found[name], expected[name], name)
        for name in ("singular_values", "score_singular_values"):
            np.testing.assert_allclose(found[name], expected[name],
                                       rtol=0, atol=off * expected[name][0], err_msg=name)
        np.testing.assert_allclose(found["cumulative_energy"], expected["cumulative_energy"],
                                   rtol=0, atol=4 * off)
        self.assertAlmostEqual(found["stable_rank"], expected["stable_rank"], 9)
        for name in ("row_entropy", "window_mass"):
            self.assertEqual(set(found[name]), set(expected[name]))
            for key, figure in expected[name].items():
                self.assertAlmostEqual(found[name][key], figure, 9, f"{name} {key}")
        if omega is not None:
            estimate, wanted = found["kernel_estimate"], expected["kernel_estimate"]
            self.assertEqual(estimate["features"], wanted["features"])
            self.assertAlmostEqual(
                estimate["relative_frobenius"], wanted["relative_frobenius"],
                delta=spectrum.estimate_tolerance(q, k, omega, causal, scale))

    def check_all(self, q, k, causal=False, scale=None, windows=(1, 4), omega=None):
        fields = {"causal": causal, "windows": list(windows)}
        tensors = {"q": q, "k": k}
        if scale is not None:
            fields["scale"] = scale
        if omega is not None:
            tensors["omega"] = omega
        found = self.analyze(client.shared(), tensors, **fields)
        self.assertEqual(set(found), {"id", "heads"})
        pairs = list(heads_of(q, k))
        self.assertEqual(len(found["heads"]), len(pairs))
        for head, pair in zip(found["heads"], pairs):
            self.check_head(head, *pair, causal, scale_of(q) if scale is None else scale, windows,
                            omega)

    def test_shapes(self):
        for n, m, d in ((1, 1, 1), (1, 7, 2), (7, 1, 2), (30, 50, 8), (50, 30, 8), (20, 20, 33)):
            for causal in (False, True):
                with self.subTest(n=n, m=m, d=d, causal=causal):
                    self.check_all(unit(1, n, d), unit(2, m, d), causal, omega=unit(3, 5, d))

    def test_heads_and_batch(self):
        self.check_all(unit(1, 6, 20, 4), unit(2, 2, 24, 4), omega=unit(3, 8, 4))
        self.check_all(unit(1, 2, 4, 9, 4), unit(2, 2, 2, 12, 4), causal=True)

    def test_scale_and_huge_logits(self):
        self.check_all(unit(1, 20, 4), unit(2, 30, 4), scale=2.5)
        self.check_all(unit(1, 20, 4), unit(2, 30, 4), scale=-0.5, causal=True)
        self.check_all(30 * unit(1, 33, 8), 30 * unit(2, 33, 8), causal=True)

    def test_largest(self):
        self.check_all(unit(1, LIMIT, 64), unit(2, LIMIT, 64), windows=(16, 64, LIMIT))

    def test_gaussian_attention_is_not_of_low_rank(self):
        """The scores have rank 64; the softmax of them has full rank, and 90 % of its energy needs
        more than a fifth of it."""
        head = self.analyze(client.shared(), {"q": unit(1, LIMIT, 64), "k": unit(2, LIMIT, 64)})
        head = head["heads"][0]
        scores = np.array(head["score_singular_values"])
        self.assertEqual((head["rank_bound"], head["numerical_rank"]), (64, LIMIT))
        self.assertEqual((scores > 1e-12 * scores[0]).sum(), 64)
        self.assertTrue(105 <= head["k_energy"]["0.9"] <= 125, head["k_energy"])

    def test_windows(self):
        tensors = {"q": unit(1, 20, 4), "k": unit(2, 20, 4)}
        found = self.analyze(client.shared(), tensors)
        mass = found["heads"][0]["window_mass"]
        self.assertEqual(list(mass), ["1", "2", "4", "8", "16"])
        self.assertEqual(sorted(mass.values()), list(mass.values()))
        found = self.analyze(client.shared(), tensors, windows=[20, 3, 3])
        self.assertEqual(list(found["heads"][0]["window_mass"]), ["20", "3"])
        self.assertAlmostEqual(found["heads"][0]["window_mass"]["20"], 1)
        found = self.analyze(client.shared(), tensors, windows=[])
        self.assertEqual(found["heads"][0]["window_mass"], {})

    def test_drawn_directions(self):
        tensors = {"q": 0.3 * unit(1, 20, 4), "k": 0.3 * unit(2, 20, 4)}

        def estimate(**fields):
            return self.analyze(client.shared(), tensors, **fields)["heads"][0]["kernel_estimate"]

        self.assertEqual(estimate()["features"], 256)
        self.assertEqual(estimate(), estimate(features=256, seed=0))
        self.assertNotEqual(estimate(), estimate(seed=1))
        self.assertEqual(estimate(seed=7), estimate(params={"seed": 7}))
        self.assertEqual(estimate(features=9), estimate(params={"features": 9}))
        self.assertLess(estimate(features=4096)["relative_frobenius"],
                        estimate(features=4)["relative_frobenius"])

    def test_no_estimate(self):
        features = 2**31 - 1
        found = self.analyze(client.shared(), {"q": unit(1, 3, 2), "k": unit(2, 3, 2)},
                             features=features)
        estimate = found["heads"][0]["kernel_estimate"]
        self.assertEqual(estimate["features"], features)
        self.assertIsNone(estimate["relative_frobenius"])
        self.assertIn(str(features), estimate["why_not"])

    def test_binary_body(self):
        q, k = unit(1, 2, 20, 4), unit(2, 1, 30, 4)
        answer = safetensors.post(client.shared(), {"q": q, "k": k},
                                  {"windows": [3, 5], "causal": True, "params.seed": 2},
                                  path="/v1/analyze")
        self.assertEqual(answer.status, 200, str(answer))
        by_json = self.analyze(client.shared(), {"q": q, "k": k}, windows=[3, 5], causal=True,
                               seed=2)
        self.assertEqual(answer.json["heads"], by_json["heads"])

    def test_the_same_with_any_number_of_workers(self):
        tensors = {name: unit(seed, 5, 40, 8) for seed, name in enumerate("qkv")}
        found = [self.analyze(self.daemon_with(workers=workers), tensors) for workers in (1, 4)]
        self.assertEqual(found[0]["heads"], found[1]["heads"])
        errors = [{json.dumps([entry["backend"], entry["params"]]): entry["relative_l2"]
                   for entry in each["advice"]} for each in found]
        self.assertEqual(*errors)


class Advice(AnalyzeCase):
    def attended(self, q, k, v, causal, entry):
        answer = client.shared().attend(q, k, v, causal=causal, backend=entry["backend"],
                                        params=entry["params"])
        self.assertEqual(answer.status, 200, str(answer))
        return client.decode(answer.json["output"])[0]

    def check_errors(self, causal):
        q, k, v = unit(1, 4, 40, 8), unit(2, 2, 40, 8), unit(3, 2, 40, 5)
        found = self.analyze(client.shared(), {"q": q, "k": k, "v": v}, causal=causal,
                             windows=[5, 4, 40])
        exact = reference.attend(q, k, v, causal=causal)
        for entry in found["advice"]:
            self.assertEqual(set(entry), {"backend", "params", "relative_l2", "predicted_ms"})
            out = self.attended(q, k, v, causal, entry)
            off = np.linalg.norm(out - exact) / np.linalg.norm(exact)
            self.assertAlmostEqual(entry["relative_l2"], off, delta=1e-5 * (1 + off), msg=entry)
        return found["advice"]

    def values(self, advice, backend, name):
        return sorted(entry["params"][name] for entry in advice if entry["backend"] == backend)

    def test_every_entry_is_what_attend_does(self):
        advice = self.check_errors(False)
        self.assertEqual({entry["backend"] for entry in advice},
                         {"exact", "window", "sparse", "linformer", "performer"})
        self.assertEqual(self.values(advice, "window", "window"), [1, 2, 4, 5, 8, 16, 32])
        self.assertEqual(self.values(advice, "linformer", "k"), [1, 2, 4, 8, 16, 32])
        self.assertEqual(self.values(advice, "performer", "features"),
                         [16, 32, 64, 128, 256, 512, 1024])
        self.assertEqual(self.values(advice, "sparse", "stride"), sorted([2, 4, 7, 8, 16, 32] * 2))

    def test_causal(self):
        """Linformer has no causal form, so it is not among the advice."""
        advice = self.check_errors(True)
        self.assertEqual({entry["backend"] for entry in advice},
                         {"exact", "window", "sparse", "performer"})

    def test_order(self):
        """First, from the cheapest on, what nothing beats in both; then the rest, the cheapest
        first."""
        tensors = {name: x for name, x in zip("qkv", samples.trained_like())}
        advice = self.analyze(client.shared(), tensors, causal=True)["advice"]
        costs = [(entry["predicted_ms"], entry["relative_l2"]) for entry in advice]
        front = [at for at, (ms, error) in enumerate(costs)
                 if not any(m <= ms and e <= error and (m, e) != (ms, error) for m, e in costs)]
        self.assertEqual(front, list(range(len(front))))
        self.assertEqual(costs[:len(front)], sorted(costs[:len(front)]))
        self.assertEqual(costs[len(front):], sorted(costs[len(front):]))
        self.assertEqual(costs[len(front) - 1][1], 0)

    def test_the_smallest_window_for_an_error(self):
        """A window's error falls as it widens where attention is local, and the list shows which is
        wide enough."""
        n, width = 200, 6
        at = np.linspace(0, 2 * np.pi, n, endpoint=False)
        turns = np.stack([np.cos(at), np.sin(at)], 1)
        tensors = {"q": 40 * turns, "k": 40 * turns, "v": unit(1, n, 4)}
        advice = self.analyze(client.shared(), tensors, windows=[width])["advice"]
        errors = {entry["params"]["window"]: entry["relative_l2"] for entry in advice
                  if entry["backend"] == "window"}
        found = [errors[w] for w in (1, 2, 4, 8)]
        self.assertEqual(found, sorted(found, reverse=True))
        self.assertIn(width, errors)

    def test_given_directions(self):
        """They can only be left out."""
        tensors = {"q": unit(1, 20, 4), "k": unit(2, 20, 4), "v": unit(3, 20, 4),
                   "omega": unit(4, 40, 4)}
        advice = self.analyze(client.shared(), tensors)["advice"]
        self.assertEqual(self.values(advice, "performer", "features"), [16, 32, 40])
        error = [e["relative_l2"] for e in advice if e["params"].get("features") == 40][0]
        exact = reference.attend(tensors["q"], tensors["k"], tensors["v"])
        out = reference.performer(tensors["q"], tensors["k"], tensors["v"], tensors["omega"])
        self.assertAlmostEqual(error, np.linalg.norm(out - exact) / np.linalg.norm(exact), 4)

    def test_params_join_the_sweep(self):
        tensors = {name: unit(seed, 40, 4) for seed, name in enumerate("qkv")}
        params = {"window": 11, "stride": 9, "k": 13, "features": 100, "projection": "gaussian"}
        advice = self.analyze(client.shared(), tensors, params=params)["advice"]
        for backend, name in (("window", "window"), ("sparse", "stride"), ("linformer", "k"),
                              ("performer", "features")):
            self.assertIn(params[name], self.values(advice, backend, name))
        self.assertEqual({e["params"]["projection"] for e in advice
                          if e["backend"] == "linformer"}, {"gaussian"})

    def test_params_that_are_not_the_default_are_told(self):
        """With what an entry says attend gives the same answer."""
        q, k, v = (unit(seed, 40, 4) for seed in range(3))
        params = {"orthogonal": False, "seed": 5, "summary": 2, "projection": "gaussian"}
        advice = self.analyze(client.shared(), {"q": q, "k": k, "v": v}, params=params)["advice"]
        exact = reference.attend(q, k, v)
        for entry in advice:
            out = self.attended(q, k, v, False, entry)
            off = np.linalg.norm(out - exact) / np.linalg.norm(exact)
            self.assertAlmostEqual(entry["relative_l2"], off, delta=1e-5 * (1 + off), msg=entry)

    def test_values_of_zero(self):
        tensors = {"q": unit(1, 9, 4), "k": unit(2, 9, 4), "v": np.zeros((9, 2))}
        for entry in self.analyze(client.shared(), tensors)["advice"]:
            self.assertEqual(entry["relative_l2"], 0, entry)

    def test_overflow(self):
        answer = client.shared().post("/v1/analyze", {"q": [[1], [1]], "k": [[1], [1]],
                                                      "v": [[3e38], [3e38]]})
        self.check_refusal(answer, 422, "non_finite", ("v",))


class Refusals(AnalyzeCase):
    def refused(self, status, param, **fields):
        document = {"q": [[1, 2], [3, 4]], "k": [[1, 0], [0, 1]], **fields}
        document = {name: x for name, x in document.items() if x is not None}
        answer = client.shared().post("/v1/analyze", document)
        with self.subTest(param=param, fields=fields):
            self.assertEqual(answer.status, status, str(answer))
            self.assertEqual(answer.json["error"]["param"], param)
            self.assertIn(param.split(".")[-1], answer.json["error"]["message"])

    def test_fields(self):
        tensor = [[1, 2]]
        for name in ("e", "f", "input", "key_mask"):
            self.refused(400, name, **{name: tensor})
        for name in ("q", "k"):
            self.refused(400, name, **{name: None})
        self.refused(400, "lengths", lengths=[2])
        self.refused(400, "model", model="demo")
        self.refused(400, "backend", backend="exact")
        self.refused(400, "windows", windows=[0])
        self.refused(400, "windows", windows=7)
        self.refused(400, "windows", windows=list(range(1, 34)))
        self.refused(400, "features", features=0)
        self.refused(400, "features", features=3, params={"features": 4})
        self.refused(400, "features", features=3, omega=[[1, 2]])
        self.refused(400, "seed", seed=3, params={"seed": 4})
        self.refused(400, "params.pattern", params={"pattern": "local"})
        self.refused(400, "omega", omega=[[1, 2, 3]])
        self.refused(400, "k", k=[[1]])
        self.refused(400, "v", v=[[1]])
        self.refused(400, "scale", scale=0)

    def test_too_long(self):
        row = [[1, 2]]
        self.refused(422, "q", q=row * (LIMIT + 1))
        self.refused(422, "k", k=row * (LIMIT + 1))
        daemon = self.daemon_with("--analyze-max-n", "3")
        answer = daemon.post("/v1/analyze", {"q": row * 4, "k": row})
        self.check_refusal(answer, 422, "unsupported", ("analyze_max_n", "3"))
        self.assertEqual(daemon.post("/v1/analyze", {"q": row * 3, "k": row}).status, 200)

    def test_memory(self):
        """Its workspace counts, and is given back."""
        daemon = self.daemon_with("--memory-limit-bytes", str(24 << 20))
        self.analyze(daemon, {"q": unit(1, 30, 8), "k": unit(2, 30, 8)})
        answer = safetensors.post(daemon, large(heads=40), path="/v1/analyze")
        self.check_refusal(answer, 413, "payload_too_large", ("memory_limit_bytes",))
        self.all_given_back(daemon)


class Background(AnalyzeCase):
    def test_deadline(self):
        daemon = self.daemon_with()
        began = time.monotonic()
        self.assertEqual(safetensors.post(daemon, large(), path="/v1/analyze").status, 200)
        alone_s = time.monotonic() - began
        deadline_ms = max(alone_s * 1000 / 8, 1)
        began = time.monotonic()
        answer = safetensors.post(daemon, large(), {"hints.deadline_ms": deadline_ms},
                                  path="/v1/analyze")
        self.check_refusal(answer, 504, "deadline_exceeded", ("deadline",))
        self.assertLess(time.monotonic() - began, alone_s * 3 / 4)
        self.counts(daemon, REJECTED, "reason", {"deadline": 1})
        self.all_given_back(daemon)

    def test_leaving(self):
        daemon = self.daemon_with()
        plain = self.start_analysis(daemon, large())
        wait_accepted(daemon, 1)
        plain.close()
        families = scrape_until(daemon, lambda f: value(f, CANCELLED) >= 1)
        self.assertEqual(value(families, CANCELLED), 1)
        self.all_given_back(daemon)

    def check_not_delayed(self, workers):
        """While analyses that take a long time are queued, short requests are answered as if there
        were at most one more tile in their way."""
        daemon = self.daemon_with(workers=workers)
        attend = {"q": [[1, 2]], "k": [[1, 2]], "v": [[3, 4]]}

        def median_s():
            times = []
            for _ in range(20):
                began = time.monotonic()
                self.assertEqual(daemon.post("/v1/attend", attend).status, 200)
                times.append(time.monotonic() - began)
            return statistics.median(times)

        began = time.monotonic()
        self.assertEqual(safetensors.post(daemon, large(), path="/v1/analyze").status, 200)
        analysis_s = time.monotonic() - began
        count = 6
        sockets = [self.start_analysis(daemon, large(64)) for _ in range(count)]
        wait_accepted(daemon, count)
        loaded_s = median_s()
        families = scrape_until(daemon, lambda f: True)
        self.assertEqual(value(families, DEPTH), count, "the analyses were done too soon")
        self.assertLess(loaded_s, analysis_s / 4, "a request waited for an analysis")
        for plain in sockets:
            plain.close()

    def test_short_requests_are_not_delayed(self):
        self.check_not_delayed(2)

    def test_nor_with_one_worker(self):
        self.check_not_delayed(1)

    def test_too_many(self):
        """One request in eight of the queue may be an analysis; others do not suffer."""
        daemon = self.daemon_with("--max-queue", "8")
        self.start_analysis(daemon, large(64))
        wait_accepted(daemon, 1)
        answer = daemon.post("/v1/analyze", {"q": [[1]], "k": [[1]]})
        self.check_refusal(answer, 429, "overloaded", ("max_queue",))
        self.still_good(daemon)

    def test_queued_analyses_do_not_fill_the_queue(self):
        """Their predicted time does not count against max_queue_cost_ms."""
        daemon = self.daemon_with("--max-queue-cost-ms", "1")
        self.start_analysis(daemon, large(64))
        wait_accepted(daemon, 1)
        families = scrape_until(daemon, lambda f: value(f, "attnd_queue_cost_seconds") > 0.1)
        self.assertTrue(math.isfinite(value(families, "attnd_queue_cost_seconds")))
        self.still_good(daemon)
