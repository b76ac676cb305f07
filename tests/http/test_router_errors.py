"""Error bounds: the answer keeps within them or the next backend is tried; what keeps failing is
passed over; and sampling for the metrics touches no answer."""

import os
import tempfile

import client
import samples
from exposition import value
from route_case import COVERED, HIDDEN_OF, LONG_ABOVE, RouteCase, entries, raw, smooth
from test_bounds import REJECTED
from test_determinism import output_text
from test_ops import scrape, scrape_until

MEDIUM = ["performer", "window", "sparse"]  # of a raw call without projections, then exact
ENOUGH, TRY_AGAIN = 4, 16  # samples until an average is believed; requests until one is tried again
SAMPLES = "attnd_approximation_samples_total"
N = 40
WIDTH = {"params": {"window": 3}}  # one that 40 keys are wider than


def params_of(backend):
    return WIDTH if backend in ("window", None) else {}


def tried(told):
    return [entry["backend"] for entry in told["route"].get("tried", [])]


class Bounds(RouteCase):
    def bounded(self, tensors, bound, backend=None, **fields):
        named = {"backend": backend} if backend else {}
        return self.daemon.post("/v1/attend", {**tensors, **named, **params_of(backend), **fields,
                                               "hints": {"max_relative_error": bound}})

    def errors_of(self, tensors):
        """{backend: what measure_error says of it}."""
        return {backend: self.attend_raw(tensors, backend=backend, measure_error=True,
                                         **params_of(backend))["error_estimate"]["relative_l2"]
                for backend in MEDIUM}

    def test_the_first_within_the_bound_answers(self):
        tensors = raw(1, N)
        errors = self.errors_of(tensors)
        for bound in (x * f for x in errors.values() for f in (0.999, 1.001)):
            with self.subTest(bound=bound, errors=errors):
                too_far = [b for b in MEDIUM if errors[b] > bound]
                within = [b for b in MEDIUM if errors[b] <= bound]
                expected = within[0] if within else "exact"
                before = MEDIUM[:MEDIUM.index(within[0])] if within else too_far
                answer = self.bounded(tensors, bound)
                self.assertEqual(answer.status, 200, str(answer))
                told = answer.json
                self.routed(told, expected, "error_bound" if before else "medium")
                self.assertEqual(tried(told), before)
                self.check_account(told)
                self.check_trail(told, errors, bound)
                named = self.daemon.post("/v1/attend", {**tensors, "backend": expected,
                                                         **params_of(expected)})
                self.assertEqual(output_text(answer), output_text(named))

    def check_trail(self, told, errors, bound):
        """What was tried, how far off each was, and that memory was reserved for all of them."""
        said = entries(told)
        for entry in told["route"].get("tried", []):
            self.assertEqual(entry["relative_l2"], errors[entry["backend"]])
            self.assertIn("tried", said[entry["backend"]]["why_not"])
            self.assertGreaterEqual(told["memory"]["predicted_bytes"],
                                    said[entry["backend"]]["predicted_bytes"])
        if told["backend"] == "exact":
            self.assertNotIn("error_estimate", told)
        else:
            estimate = told["error_estimate"]
            self.assertEqual(estimate["relative_l2"], errors[told["backend"]])
            self.assertLessEqual(estimate["relative_l2"], bound)
        self.assertLessEqual(told["memory"]["workspace_bytes"], told["memory"]["predicted_bytes"])

    def test_short_calls_are_exact_anyway(self):
        told = self.bounded(raw(2, 5), 1e-9).json
        self.routed(told, "exact", "short")
        self.assertEqual(tried(told), [])

    def test_long_calls_too(self):
        told = self.bounded(raw(2, LONG_ABOVE + 1), 1e-6).json
        self.routed(told, "exact", "error_bound")
        self.assertEqual(tried(told), MEDIUM)

    def test_no_bound_is_no_bound(self):
        told = self.bounded(raw(2, N), 0).json
        self.routed(told, "performer", "medium")
        self.assertNotIn("error_estimate", told)

    def test_a_named_backend_keeps_the_bound_or_is_refused(self):
        tensors = raw(3, N)
        before = value(scrape(self.daemon), REJECTED, reason="infeasible")
        for backend, error in self.errors_of(tensors).items():
            told = self.bounded(tensors, error * 1.001, backend=backend).json
            self.routed(told, backend, "explicit")
            self.assertEqual(told["error_estimate"]["relative_l2"], error)
            refused = self.check_error(self.bounded(tensors, error * 0.999, backend=backend), 422,
                                       ["infeasible"], [backend, "max_relative_error"])
            self.assertEqual(refused["param"], "hints.max_relative_error")
        after = scrape_until(self.daemon, lambda f: value(f, REJECTED, reason="infeasible")
                             >= before + len(MEDIUM))
        self.assertEqual(value(after, REJECTED, reason="infeasible"), before + len(MEDIUM))

    def test_what_has_no_error_holds_no_bound(self):
        hints = {"max_relative_error": 0.1}
        x = samples.normal(4, LONG_ABOVE + 1, HIDDEN_OF["both"])
        self.refuse("both", x, 422, ["unsupported"], ["mamba", "measured"], param="backend",
                    backend="mamba", hints=hints)
        _, told = self.run_model("both", x, hints=hints)
        self.assertNotIn(told["backend"], ("mamba", "hybrid"))
        self.assertIn("cannot be measured", entries(told)["mamba"]["why_not"])
        _, told = self.run_model("stack", samples.normal(5, 9, HIDDEN_OF["stack"]), hints=hints)
        self.warned(told, "max_relative_error")

    def test_the_plan_says_where_it_begins(self):
        planned = self.plan(**raw(1, N), hints={"max_relative_error": 1e-6})
        self.routed(planned, "performer", "medium")
        self.assertNotIn("tried", planned["route"])
        self.assertNotIn("error_estimate", planned)

    def test_queries_of_padding_alone(self):
        """No row to sample: nothing exceeds anything."""
        x = {name: client.tensor(samples.normal(6, 2, 1, N, 8)) for name in "qkv"}
        told = self.bounded(x, 1e-9, lengths=[0, 0]).json
        self.assertEqual(tried(told), [])


class Models(RouteCase):
    """A model's errors are remembered."""

    def within(self, x, bound):
        return self.run_model("trained", x, hints={"max_relative_error": bound})[1]

    def test_linformer_is_as_good_as_its_input_is_smooth(self):
        told = self.within(smooth(1), 1e-4)
        self.routed(told, "linformer", "medium")
        self.assertLess(told["error_estimate"]["relative_l2"], 1e-4)
        x = samples.normal(1, COVERED, HIDDEN_OF["trained"])
        told = self.within(x, 1e-4)
        self.routed(told, "exact", "error_bound")
        self.assertEqual(tried(told)[0], "linformer")
        exact, _ = self.run_model("trained", x, backend="exact")
        got, _ = self.run_model("trained", x, hints={"max_relative_error": 1e-4})
        self.assertEqual(got.tobytes(), exact.tobytes())


class Hopeless(RouteCase):
    def bounded(self, bound, path="attend"):
        x = client.tensor(samples.normal(2, COVERED, HIDDEN_OF["trained"]))
        answer = self.daemon.post(f"/v1/{path}", {"model": "trained", "input": x,
                                                  "hints": {"max_relative_error": bound}})
        self.assertEqual(answer.status, 200, str(answer))
        return answer.json

    def test_what_keeps_failing_is_passed_over_for_a_while(self):
        failing = tried(self.bounded(1e-3))
        self.assertEqual(failing[0], "linformer")
        self.assertEqual(len(failing), 4)
        for _ in range(ENOUGH - 1):
            self.assertEqual(tried(self.bounded(1e-3)), failing)
        for _ in range(TRY_AGAIN):
            for told in (self.bounded(1e-3, "plan"), self.bounded(1e-3)):
                self.routed(told, "exact", "error_bound")
                self.assertEqual(tried(told), [])
                for backend in failing:
                    self.assertIn("recent requests", entries(told)[backend]["why_not"])
        self.assertEqual(self.bounded(1e-3, "plan")["backend"], "linformer")
        self.assertEqual(tried(self.bounded(1e-3)), failing)
        self.assertEqual(tried(self.bounded(1e-3)), [])
        # A lenient request is none of that one's business.
        self.assertEqual(self.bounded(1e3)["backend"], "linformer")
        # Nor are those that do not ask, and those that name what they want.
        _, told = self.run_model("trained", samples.normal(2, COVERED, HIDDEN_OF["trained"]))
        self.routed(told, "linformer", "medium")


class Sampled(RouteCase):
    """error_sample_rate = 1 beside 0: the same answers, and only one of them counts."""

    FLAGS = (*RouteCase.FLAGS, "--error-sample-rate", "1")
    POLICY = "guidance"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.plain = client.Daemon("--model-dir", cls.folder.name, *RouteCase.FLAGS,
                                  "--policy", cls.POLICY)

    def bodies(self):
        for n in (5, N, LONG_ABOVE + 1):
            yield raw(n, n)
            for backend in ("exact", *MEDIUM):
                yield {**raw(n, n), "backend": backend}
            for model, hidden in HIDDEN_OF.items():
                yield {"model": model, "input": client.tensor(samples.normal(n, n, hidden))}

    def test_answers_are_the_same(self):
        for body in self.bodies():
            with self.subTest(body=[body.get("model"), body.get("backend")]):
                sampled = self.daemon.post("/v1/attend", body)
                plain = self.plain.post("/v1/attend", body)
                self.assertEqual(output_text(sampled), output_text(plain))
                self.assertEqual(list(sampled.json), list(plain.json))
                self.assertEqual(sampled.json["backend"], plain.json["backend"])
                self.assertEqual(sampled.json["warnings"], plain.json["warnings"])
                for key in ("rule", "policy"):
                    self.assertEqual(sampled.json["route"][key], plain.json["route"][key])
                memory = sampled.json["memory"]
                self.assertLessEqual(memory["workspace_bytes"], memory["predicted_bytes"])

    def test_only_one_counts(self):
        for daemon in (self.daemon, self.plain):
            for backend in MEDIUM:
                daemon.post("/v1/attend", {**raw(7, N), "backend": backend})
        for backend in MEDIUM:
            families = scrape_until(self.daemon, lambda f, b=backend: value(f, SAMPLES, backend=b))
            self.assertGreater(value(families, SAMPLES, backend=backend), 0)
        self.assertEqual(value(scrape(self.plain), SAMPLES), 0)


class SampledByCost(Sampled):
    """Sampling has its price, which must not move the cheapest."""

    FLAGS = (*RouteCase.FLAGS, "--error-sample-rate", "1", "--policy", "cost")
    POLICY = "cost"

    def bodies(self):
        """Those that name a backend: what is the cheapest may change with what was measured."""
        return (body for body in super().bodies() if "backend" in body)

    def fresh(self, rates, *flags):
        """A daemon that has learned nothing, on the same rates as any other such."""
        daemon = client.Daemon("--model-dir", self.folder.name, "--calibration-file", rates,
                               *RouteCase.FLAGS, "--policy", self.POLICY, *flags)
        self.addCleanup(daemon.stop)
        return daemon

    def test_the_cheapest_is_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            rates = os.path.join(folder, "rates.json")
            daemons = self.fresh(rates), self.fresh(rates, "--error-sample-rate", "1")
        for body in super().bodies():
            if "backend" in body:
                continue
            with self.subTest(model=body.get("model")):
                plain, sampled = (daemon.post("/v1/plan", body) for daemon in daemons)
                self.assertEqual((plain.status, sampled.status), (200, 200), str(plain))
                self.assertEqual(plain.json["backend"], sampled.json["backend"])
                self.assertEqual(plain.json["route"]["rule"], "cost")


class SampleRate(RouteCase):
    FLAGS = (*RouteCase.FLAGS, "--error-sample-rate", "0.25")
    ASKED = 400

    def test_ids_that_count_up_are_drawn_one_by_one(self):
        for i in range(self.ASKED):
            self.attend_raw(raw(8, 20), {"X-Request-Id": f"request-{i:06}"}, backend="window")
        count = "attnd_approximation_relative_error_count"
        done = "attnd_request_compute_seconds_count"
        families = scrape_until(self.daemon, lambda f: value(f, done) >= self.ASKED)
        # Binomial: 100 of 400, standard deviation 8.7. Fixed ids make it the same in every run.
        self.assertLess(abs(value(families, count, backend="window") - 0.25 * self.ASKED), 5 * 8.7)
