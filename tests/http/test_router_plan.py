"""/v1/plan agrees with what /v1/attend then does, whatever the facts; and it is quick."""

import json
import os
import random
import statistics
import unittest

import client
import samples
from route_case import COVERED, HIDDEN_OF, LONG_ABOVE, RouteCase, SHORT_BELOW
from test_plan import without_times

NAMES = [None, None, None, None, "auto", "exact", "window", "sparse", "linformer", "performer",
         "mamba", "hybrid"]
LENGTHS = [1, 2, SHORT_BELOW - 1, SHORT_BELOW, 30, COVERED, COVERED + 1, LONG_ABOVE,
           LONG_ABOVE + 1, 80]
PARAMS = {"window": [1, 3, 100], "pattern": ["strided", "fixed", "local"], "stride": [1, 4],
          "summary": [1, 2], "k": [1, 5, 12], "projection": ["mean", "gaussian"],
          "features": [4, 16], "orthogonal": [True, False], "norm": ["chi", "sqrt"],
          "seed": [0, 7]}
TENSORS = ("q", "k", "v", "e", "omega", "input")
PLANS = 400


class Facts:
    """Random requests, the same from the same seed. Tensors are made once a size: routing does not
    look into them."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.tensors = {}

    def tensor(self, *shape):
        if shape not in self.tensors:
            self.tensors[shape] = client.tensor(samples.normal(len(self.tensors), *shape))
        return self.tensors[shape]

    def some(self, chance):
        return self.rng.random() < chance

    def raw(self, batch, n, m):
        heads, kv_heads = self.rng.choice([(1, 1), (2, 1), (4, 2)])
        body = {"q": self.tensor(batch, heads, n, 8), "k": self.tensor(batch, kv_heads, m, 8),
                "v": self.tensor(batch, kv_heads, m, self.rng.choice([4, 8]))}
        if self.some(0.2):
            body["e"] = self.tensor(5, self.rng.choice([m, COVERED, 100]))
        if self.some(0.1):
            body["omega"] = self.tensor(6, 8)
        return body

    def hints(self, named):
        """A deadline that is over at once is a refusal of the router, or else of the clock: so only
        where nothing is named."""
        hints = {name: self.some(0.5) for name in ("long_range", "locality") if self.some(0.5)}
        if self.some(0.15):
            hints["deadline_ms"] = self.rng.choice([1e9] if named else [1e-9, 1e9])
        return hints

    def request(self):
        rng = self.rng
        batch, n, named = rng.randint(1, 2), rng.choice(LENGTHS), rng.choice(NAMES)
        model = rng.choice([None, *HIDDEN_OF])
        m = rng.choice(LENGTHS) if self.some(0.3) and not model else n
        body = ({"model": model, "input": self.tensor(batch, n, HIDDEN_OF[model])} if model
                else self.raw(batch, n, m))
        if named:
            body["backend"] = named
        if self.some(0.3):
            body["causal"] = self.some(0.5)
        if self.some(0.3):
            body["lengths"] = [rng.randint(0, m) for _ in range(batch)]
        if self.some(0.2):
            body["params"] = {name: rng.choice(PARAMS[name])
                              for name in rng.sample(list(PARAMS), 2)}
        if self.some(0.7):
            body["hints"] = self.hints(named not in (None, "auto"))
        return body


def verdict(answer):
    """What was decided: the route, or the refusal."""
    told = answer.json
    if answer.status == 200:
        return told["backend"], without_times(told["route"]), told["warnings"]
    return answer.status, {key: text for key, text in told["error"].items() if key != "request_id"}


class AgreesCase(RouteCase):
    TRIALS = 0

    def setUp(self):
        super().setUp()
        self.connection = self.daemon.connect()
        self.addCleanup(self.connection.close)

    def post(self, path, body):
        self.connection.request("POST", path, body, {"Content-Type": "application/json"})
        return client.Answer(self.connection.getresponse())

    def agree(self, seed):
        """How often each thing was decided."""
        facts, decided = Facts(seed), {}
        for trial in range(self.TRIALS):
            document = facts.request()
            body = json.dumps({**document, "return_output": False})
            planned, done = self.post("/v1/plan", body), self.post("/v1/attend", body)
            options = {key: said for key, said in document.items() if key not in TENSORS}
            self.assertEqual(verdict(planned), verdict(done),
                             f"seed {seed}, trial {trial}: {options}")
            rule = done.json["route"]["rule"] if done.status == 200 else done.status
            decided[rule] = decided.get(rule, 0) + 1
        return decided


class Agrees(AgreesCase):
    TRIALS = 2000

    def test_over_random_facts(self):
        decided = self.agree(1)
        for rule in ("explicit", "short", "medium", "long_range", "long", "fallback", 422, 400):
            self.assertGreater(decided.get(rule, 0), 10, decided)

    def test_by_shape_alone(self):
        for model, hidden in HIDDEN_OF.items():
            for n in LENGTHS:
                for more in ({}, {"hints": {"long_range": True}}, {"hints": {"locality": True}}):
                    planned = self.plan(model=model, shape={"n": n}, **more)
                    _, told = self.run_model(model, samples.normal(n, n, hidden), **more)
                    self.assertEqual(without_times(planned["route"]), without_times(told["route"]))


class AgreesByCost(AgreesCase):
    """With a share of requests sampled, which their ids decide."""

    FLAGS = (*RouteCase.FLAGS, "--policy", "cost", "--error-sample-rate", "0.5")
    TRIALS = 600

    def test_over_random_facts(self):
        self.assertGreater(self.agree(2).get("cost", 0), 100)


class AgreesTrained(AgreesCase):
    FLAGS = (*RouteCase.FLAGS, "--require-trained", "true", "--isa", "scalar")
    TRIALS = 600

    def test_over_random_facts(self):
        self.assertGreater(self.agree(3).get(422, 0), 100)


class Quick(RouteCase):
    @unittest.skipUnless(os.path.basename(os.path.dirname(client.binary or "")) == "release",
                         "SKIP only a release build answers in the time it should")
    def test_under_a_millisecond(self):
        for document in ({"shape": {"n": 100_000, "heads": 32, "kv_heads": 8, "d": 128}},
                         {"model": "demo", "shape": {"n": 5000}},
                         {"model": "stack", "shape": {"n": 5000}}):
            took = []
            for _ in range(PLANS):
                answer = self.daemon.post("/v1/plan", document)
                self.assertEqual(answer.status, 200, str(answer))
                timings = answer.headers["Server-Timing"].split(", ")
                took += [float(t.split("dur=")[1]) for t in timings if t.startswith("total")]
            self.assertEqual(len(took), PLANS)
            self.assertLess(statistics.median(took), 1, document)
