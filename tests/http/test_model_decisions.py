"""What is decided about a question to a model and what its account says: causality, backends,
plans, estimates, and the same bits from any number of workers."""

import itertools
import json

import client
import model_reference as models
import numpy as np
import reference
import samples
from checkpoints import Checkpoint, projections
from model_case import ModelCase
from test_bounds import resident
from test_determinism import output_text
from test_model_attention import config
from test_model_requests import ALL, HEADS, HIDDEN, HIDDEN_OF, LAYER, served


class Decisions(ModelCase):
    MODELS = served()

    def test_a_statement_about_the_future_must_agree(self):
        x = samples.normal(6, 1, 12, HIDDEN)
        whole = models.attention(LAYER, x, HEADS)
        past = models.attention(LAYER, x, HEADS, None,
                                lambda q, k, v: reference.attend(q, k, v, causal=True))
        for model, said, wanted in (("causal", None, past), ("causal", True, past),
                                    ("not-causal", None, whole), ("not-causal", False, whole),
                                    ("layer", None, whole), ("layer", False, whole),
                                    ("layer", True, past)):
            with self.subTest(model=model, said=said):
                fields = {} if said is None else {"causal": said}
                self.near(self.run_model(model, x, **fields)[0], wanted)
        for model, said in (("causal", False), ("not-causal", True), ("published", False)):
            with self.subTest(model=model, said=said):
                self.refuse(model, x, 422, ["unsupported"], ["causal"], causal=said)

    def test_a_backend_that_the_model_lacks(self):
        for model, backend in (("layer", "mamba"), ("layer", "hybrid"), ("block", "exact"),
                               ("published", "window"), ("causal", "linformer")):
            with self.subTest(model=model, backend=backend):
                self.refuse(model, samples.normal(7, 3, HIDDEN), 422, ["unsupported"], [backend],
                            param="backend", backend=backend)

    def test_the_account(self):
        _, told = self.run_model("layer", samples.normal(8, 2, 30, HIDDEN))
        self.assertEqual((told["backend"], told["route"]["rule"]), ("exact", "short"))
        considered = {entry["backend"]: entry for entry in told["route"]["considered"]}
        self.assertTrue(considered["exact"]["trained"])
        self.assertFalse(considered["window"]["trained"])
        self.assertEqual([name for name, entry in considered.items() if entry["chosen"]],
                         ["exact"])
        _, told = self.run_model("block", samples.normal(8, 2, 30, HIDDEN))
        self.assertEqual((told["backend"], told["route"]["rule"]), ("mamba", "fallback"))

    def test_a_plan_agrees(self):
        for model, n in itertools.product(("layer", "both", "block", "published", "stack"),
                                          (30, 5000)):
            with self.subTest(model=model, n=n):
                plan = self.daemon.post("/v1/plan", {"model": model, "shape": {"n": n}})
                self.assertEqual(plan.status, 200, str(plan))
                x = samples.normal(9, n, HIDDEN_OF.get(model, HIDDEN))
                whole = self.daemon.post("/v1/plan", {"model": model, "input": client.tensor(x)})
                self.assertEqual(whole.status, 200, str(whole))
                _, told = self.run_model(model, x)
                for said in (plan.json, whole.json):
                    self.assertEqual(said["backend"], told["backend"])
                    self.assertEqual(said["route"]["rule"], told["route"]["rule"])

    def test_the_longest_plan_is_no_larger(self):
        """A plan of a Mamba has the steps of one chunk of positions, not of all of them."""
        before = resident(self.daemon, "VmHWM")
        for model in ("layer", "both", "block", "published", "stack"):
            plan = self.daemon.post("/v1/plan", {"model": model, "shape": {"n": 2**31 - 1}})
            self.assertEqual(plan.status, 200, str(plan))
        self.assertLess(resident(self.daemon, "VmHWM") - before, 16 << 20)

    def test_what_is_served(self):
        for model, hidden in ((name, HIDDEN_OF.get(name, HIDDEN)) for name in self.MODELS):
            with self.subTest(model=model):
                answer = self.daemon.get(f"/v1/models/{model}")
                self.assertEqual(answer.status, 200, str(answer))
                self.assertEqual(answer.json["name"], model)
                self.assertEqual(answer.json["state"], "READY")
                self.assertIn(str(hidden), answer.body.decode())
        listed = self.daemon.get("/v1/models").json["models"]
        self.assertEqual([entry["name"] for entry in listed], sorted(self.MODELS))


# n, what a request says beside it, the backend and the rule: short below 16, long above 64, and
# projections for 50 positions.
ROUTES = {
    "low-rank": [(15, {}, "exact", "short"), (16, {}, "linformer", "medium"),
                 (50, {}, "linformer", "medium"), (51, {}, "performer", "medium"),
                 (50, {"causal": True}, "performer", "medium"),
                 (50, {"hints": {"locality": True}}, "window", "medium"),
                 (64, {"hints": {"long_range": True}}, "performer", "medium"),
                 (65, {"hints": {"long_range": True}}, "performer", "long_range"),
                 (65, {}, "performer", "long"),
                 # What is long is the largest length, not the padding behind it.
                 (65, {"lengths": [15]}, "exact", "short"),
                 (65, {"lengths": [50]}, "linformer", "medium")],
    "both": [(15, {}, "exact", "short"), (30, {}, "window", "medium"), (65, {}, "mamba", "long"),
             (65, {"causal": True}, "mamba", "long"), (65, {"causal": False}, "window", "long"),
             (65, {"hints": {"long_range": True}}, "exact", "long_range")],
    "block": [(2, {}, "mamba", "fallback"), (30, {}, "mamba", "fallback"),
              (65, {}, "mamba", "long"),
              (65, {"hints": {"long_range": True}}, "mamba", "fallback")],
}


class Routes(ModelCase):
    MODELS = {**{name: model for name, model in served().items() if name in ROUTES},
              "low-rank": Checkpoint(config("any", backends=ALL),
                                     {**LAYER, **projections(4, 50, 7)})}
    FLAGS = ("--short-below", "16", "--long-above", "64")

    def test_every_rule(self):
        for model, routes in ROUTES.items():
            for n, fields, backend, rule in routes:
                with self.subTest(model=model, n=n, fields=fields):
                    x = samples.normal(n, 1, n, HIDDEN_OF.get(model, HIDDEN))
                    _, told = self.run_model(model, x, **fields)
                    self.assertEqual((told["backend"], told["route"]["rule"]), (backend, rule),
                                     told["route"])


class Estimates(ModelCase):
    MODELS = served()

    def test_distance_after_the_last_projection(self):
        for backend, mask in itertools.product(ALL, ({}, {"lengths": [30, 11]})):
            with self.subTest(backend=backend, mask=list(mask)):
                x = samples.normal(10, 2, 30, HIDDEN)
                got, told = self.run_model("layer", x, backend=backend, measure_error=True, **mask)
                exact = models.attention(LAYER, x, HEADS, None,
                                         lambda q, k, v: reference.attend(q, k, v, **mask))
                seen = reference.visible(2, 30, 30, **mask).any(axis=2)
                estimate = told["error_estimate"]
                self.assertEqual(estimate["rows_sampled"], min(int(seen.sum()), 64))
                off = np.linalg.norm((got - exact)[seen]) / np.linalg.norm(exact[seen])
                self.assertAlmostEqual(estimate["relative_l2"], off, delta=1e-6 + 1e-4 * off)

    def test_where_it_is_not_defined(self):
        for model, backend in (("block", "mamba"), ("both", "hybrid"), ("both", "mamba"),
                               ("stack", None), ("published", None)):
            with self.subTest(model=model, backend=backend):
                x = samples.normal(11, 1, 9, HIDDEN_OF.get(model, HIDDEN))
                _, told = self.run_model(model, x, measure_error=True,
                                         **({"backend": backend} if backend else {}))
                self.assertIsNone(told["error_estimate"])
                self.warned(told, "measure_error")


class SameBits(ModelCase):
    MODELS = served()
    WORKERS = 1

    def bodies(self):
        for model, backend in (*itertools.product(["layer"], ALL), ("block", "mamba"),
                               ("both", "hybrid"), ("stack", None), ("published", None)):
            for n in (30, 700):
                x = client.tensor(samples.normal(n, 2, n, HIDDEN_OF.get(model, HIDDEN)))
                chosen = {"backend": backend} if backend else {}
                yield json.dumps({"model": model, "input": x, "lengths": [n, n // 2], **chosen})

    def test_worker_counts(self):
        other = client.Daemon("--model-dir", self.folder.name, workers=3)
        try:
            for body in self.bodies():
                self.assertEqual(output_text(self.daemon.post("/v1/attend", body)),
                                 output_text(other.post("/v1/attend", body)), body[-80:])
        finally:
            self.assertEqual(other.stop(), 0, other.log_text()[-2000:])
