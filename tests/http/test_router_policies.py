"""Which backend is chosen, and the account of it: guidance and cost, training, and a machine
without the vector scan."""

import client
import samples
from exposition import value
from route_case import (COVERED, HIDDEN_OF, LONG_ABOVE, RouteCase, SHORT_BELOW, entries,
                        raw)
from test_ops import scrape, scrape_until

LENGTHS = (1, SHORT_BELOW - 1, SHORT_BELOW, COVERED, COVERED + 1, LONG_ABOVE, LONG_ABOVE + 1)
FAR, NEAR = {"long_range": True}, {"locality": True}
# model (None: a raw call), n, hints, backend, rule
ROUTES = [
    (None, SHORT_BELOW - 1, {}, "exact", "short"),
    (None, SHORT_BELOW, {}, "performer", "medium"),
    (None, SHORT_BELOW, NEAR, "window", "medium"),
    (None, LONG_ABOVE, FAR, "performer", "medium"),
    (None, LONG_ABOVE + 1, {}, "performer", "long"),
    (None, LONG_ABOVE + 1, FAR, "performer", "long_range"),
    ("trained", SHORT_BELOW - 1, {}, "exact", "short"),
    ("trained", SHORT_BELOW, {}, "linformer", "medium"),
    ("trained", COVERED, FAR, "linformer", "medium"),
    ("trained", COVERED, NEAR, "window", "medium"),
    ("trained", COVERED + 1, {}, "performer", "medium"),
    ("trained", LONG_ABOVE + 1, FAR, "performer", "long_range"),
    ("demo", SHORT_BELOW - 1, FAR, "exact", "short"),
    ("demo", COVERED, {}, "linformer", "medium"),
    ("demo", LONG_ABOVE + 1, FAR, "performer", "long_range"),
    ("both", LONG_ABOVE, {}, "window", "medium"),
    ("stack", 5, {}, "hybrid", "fallback"),
]


class Guidance(RouteCase):
    def test_every_backend_is_accounted_for(self):
        for model in (None, *HIDDEN_OF):
            for n in LENGTHS:
                for fields in ({}, {"hints": FAR}, {"hints": NEAR}):
                    with self.subTest(model=model, n=n, fields=fields):
                        told = self.ask_any(model, n, **fields)
                        self.assertEqual(told["route"]["policy"], "guidance")
                        self.check_account(told)

    def test_rules(self):
        for model, n, hints, backend, rule in ROUTES:
            with self.subTest(model=model, n=n, hints=hints):
                told = self.ask_any(model, n, hints=hints)
                self.routed(told, backend, rule)
                if rule != "fallback":
                    self.assertIn(str(n), told["route"]["reason"])

    def test_the_vector_scan_decides_about_mamba(self):
        scans = self.daemon.get("/v2").json["machine"]["vector_scan"]
        told = self.ask_any("both", LONG_ABOVE + 1)
        self.routed(told, "mamba" if scans else "window", "long")

    def test_a_raw_call_has_no_mamba(self):
        said = entries(self.ask_any(None, 5))
        for name in ("mamba", "hybrid"):
            self.assertFalse(said[name]["eligible"])
            self.assertIn("weights", said[name]["why_not"])

    def test_what_counts_is_the_longest_valid_length(self):
        x = samples.normal(1, 2, LONG_ABOVE + 1, HIDDEN_OF["trained"])
        for lengths, rule in (([5, 7], "short"), ([5, COVERED], "medium"), ([0, 0], "short"),
                              ([LONG_ABOVE + 1, 3], "long")):
            _, told = self.run_model("trained", x, lengths=lengths)
            self.assertEqual(told["route"]["rule"], rule)

    def test_untrained_is_said(self):
        x = samples.normal(2, COVERED, HIDDEN_OF["trained"])
        self.assertEqual(self.run_model("trained", x)[1]["warnings"], [])
        _, told = self.run_model("trained", x, backend="performer")
        self.warned(told, "trained", "performer")
        self.assertFalse(entries(told)["performer"]["trained"])
        self.assertTrue(entries(told)["linformer"]["trained"])
        told = self.ask_any(None, SHORT_BELOW)
        self.warned(told, "approximates", "trained")
        self.assertEqual(self.ask_any(None, 3)["warnings"], [])

    def test_the_metric_counts_rules(self):
        def counted(families):
            return value(families, "attnd_route_total", backend="window", rule="explicit")

        before = counted(scrape(self.daemon))
        self.ask_any(None, 5, backend="window")
        after = scrape_until(self.daemon, lambda families: counted(families) > before)
        self.assertEqual(counted(after), before + 1)


class Cost(RouteCase):
    FLAGS = (*RouteCase.FLAGS, "--policy", "cost")
    def test_the_least_predicted_time(self):
        for model in (None, *HIDDEN_OF):
            for n in LENGTHS:
                with self.subTest(model=model, n=n):
                    told = self.ask_any(model, n)
                    self.check_account(told)
                    self.assertEqual(told["route"]["policy"], "cost")
                    self.assertEqual(told["route"]["rule"], "cost")
                    times = {name: entry["predicted_ms"] for name, entry in entries(told).items()
                             if entry["eligible"]}
                    self.assertEqual(times[told["backend"]], min(times.values()), times)
                    self.assertIn(told["backend"], told["route"]["reason"])

    def test_the_client_is_obeyed(self):
        for backend in ("exact", "window", "sparse", "linformer", "performer"):
            self.routed(self.ask_any(None, 20, backend=backend), backend, "explicit")


class RequireTrained(RouteCase):
    FLAGS = (*RouteCase.FLAGS, "--require-trained", "true")

    def test_only_trained_backends_are_chosen(self):
        hidden = HIDDEN_OF["trained"]
        for n, backend, rule in ((SHORT_BELOW - 1, "exact", "short"),
                                 (COVERED, "linformer", "medium"),
                                 (COVERED + 1, "exact", "medium"),
                                 (LONG_ABOVE + 1, "exact", "long")):
            _, told = self.run_model("trained", samples.normal(n, n, hidden))
            self.routed(told, backend, rule)
            self.check_account(told)
            self.assertIn("require_trained", entries(told)["performer"]["why_not"])
            told = self.attend_raw(raw(n, n))
            self.routed(told, "exact", rule)
            self.assertEqual(told["warnings"], [])

    def test_an_untrained_one_is_refused_by_name(self):
        x = samples.normal(3, 20, HIDDEN_OF["trained"])
        self.refuse("trained", x, 422, ["unsupported"], ["require_trained", "window"],
                    param="backend", backend="window")
        answer = self.daemon.post("/v1/attend", {**raw(4, 20), "backend": "performer"})
        self.check_error(answer, 422, ["unsupported"], ["require_trained", "performer"])

    def test_a_model_that_nobody_trained_serves_nobody(self):
        for n in (5, 20, 70):
            self.refuse("demo", samples.normal(5, n, HIDDEN_OF["demo"]), 422, ["unsupported"],
                        ["require_trained"])


class Scalar(RouteCase):
    """No fast kernel: fall back."""

    FLAGS = (*RouteCase.FLAGS, "--isa", "scalar")

    def test_mamba_leaves_the_chain(self):
        machine = self.daemon.get("/v2").json["machine"]
        self.assertEqual((machine["isa"], machine["vector_scan"]), ("scalar", False))
        for model, backend in (("both", "window"), ("demo", "performer")):
            x = samples.normal(6, LONG_ABOVE + 1, HIDDEN_OF[model])
            _, told = self.run_model(model, x)
            self.routed(told, backend, "long")
            self.assertTrue(entries(told)["mamba"]["eligible"])
            _, told = self.run_model(model, x, backend="mamba")
            self.routed(told, "mamba", "explicit")

    def test_where_there_is_nothing_else_it_serves(self):
        for n in (5, 20, LONG_ABOVE + 1):
            _, told = self.run_model("stack", samples.normal(7, n, HIDDEN_OF["stack"]))
            self.routed(told, "hybrid", "fallback")


class Machine(RouteCase):
    def test_what_the_kernels_are_is_found(self):
        machine = self.daemon.get("/v2").json["machine"]
        self.assertEqual(machine["vector_scan"], machine["isa"] != "scalar")
        self.assertIn(machine["isa"], ("scalar", "avx2", "avx512"))
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            flags = file.read()
        if "avx2" not in flags:
            self.assertEqual(machine["isa"], "scalar")

    def test_unknown_policies_are_refused(self):
        for value in ("", "Cost", "cheap"):
            ended = client.run_command("serve", "--check-config", "--policy", value)
            self.assertNotEqual(ended.returncode, 0, value)
            self.assertIn("policy", ended.stderr + ended.stdout)
