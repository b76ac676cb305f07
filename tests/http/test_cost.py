"""Predictions: saved rates, what scaling one of them does, corrections, `attnd calibrate`."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

import client
import numpy as np
import safetensors
import samples
from exposition import parse
from test_ops import scrape

SCALE = 1000
SHAPE = {"n": 300, "heads": 2, "d": 16}


def considered(answer):
    """{backend: predicted_ms} of what could have been chosen."""
    return {entry["backend"]: entry["predicted_ms"] for entry in answer["route"]["considered"]
            if entry["eligible"]}


class CostCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="attnd-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = os.path.join(self.folder, "rates.json")

    def calibrated(self):
        """Rates of this machine, saved."""
        made = client.run_command("calibrate", "--out", self.path)
        self.assertEqual((made.returncode, made.stdout), (0, ""), made.stderr)
        return self.rates()

    def rates(self):
        with open(self.path, encoding="ascii") as file:
            return json.load(file)

    def save(self, rates):
        with open(self.path, "w", encoding="ascii") as file:
            json.dump(rates, file)

    def daemon(self, *flags):
        daemon = client.Daemon("--calibration-file", self.path, *flags)
        self.addCleanup(self.ends, daemon)
        return daemon

    def ends(self, daemon):
        self.assertEqual(daemon.stop(), 0, daemon.log_text()[-3000:])

    def planned(self, document, *flags):
        """What a fresh daemon plans, with the file as it is."""
        daemon = self.daemon(*flags)
        answer = daemon.post("/v1/plan", document)
        self.assertEqual(answer.status, 200, str(answer))
        self.assertEqual(daemon.stop(), 0)
        return answer.json

    def refused(self, *flags):
        return subprocess.run([client.binary, "serve", "--listen", "127.0.0.1:1", *flags],
                              capture_output=True, text=True, timeout=client.WAIT_S, check=False)


class Files(CostCase):
    def test_measured_once_and_kept(self):
        first = self.daemon()
        self.assertIn("rates measured", first.log_text())
        self.assertIn("took_ms", first.log_text())
        written = self.rates()
        second = self.daemon()
        self.assertIn("rates read", second.log_text())
        self.assertEqual(self.rates(), written)
        self.assertEqual(os.listdir(self.folder), ["rates.json"])

    def test_command_prints_what_it_saves(self):
        saved = self.calibrated()
        printed = client.run_command("calibrate")
        self.assertEqual(printed.returncode, 0, printed.stderr)
        printed = json.loads(printed.stdout)
        self.assertEqual(list(printed), list(saved))
        self.assertTrue(all(value > 0 for key, value in printed.items()
                            if key not in ("isa", "blas")), printed)

    def test_command_refuses(self):
        for flags, says in ((("--isa", "neon"), "expected auto"), (("--ou", "x"), "nearest is --out"),
                            (("--out", "/proc/nowhere/x"), "cannot be written")):
            made = client.run_command("calibrate", *flags)
            self.assertEqual(made.returncode, 2, made.stderr)
            self.assertIn(says, made.stderr)

    def test_a_disk_that_cannot_be_written_only_warns(self):
        self.path = "/proc/nowhere/rates.json"
        daemon = self.daemon()
        self.assertIn("/proc/nowhere/rates.json cannot be written", daemon.log_text())
        self.assertEqual(daemon.get("/readyz").status, 200)

    def test_a_wrong_file_is_refused(self):
        rates = self.calibrated()
        for change, says in (({"draw_ns": -1}, "draw_ns is -1"), ({"draw_ns": None}, "draw_ns is a list, an object or null"),
                             ({"isa": "neon"}, "isa is \"neon\""), ({"flops": 1}, "unknown key")):
            self.save({**rates, **change})
            for flags in ((), ("--check-config",)):
                with self.subTest(change=change, flags=flags):
                    ended = self.refused("--calibration-file", self.path, *flags)
                    self.assertEqual(ended.returncode, 2, ended.stderr)
                    self.assertIn(says, ended.stderr + ended.stdout)
                    self.assertIn(self.path, ended.stderr + ended.stdout)


class Rates(CostCase):
    def test_scaling_a_rate_moves_only_who_uses_it(self):
        """Of a plan without tensors; all other figures stay to the digit."""
        rates = self.calibrated()
        before = considered(self.planned({"shape": SHAPE}))
        uses = {"draw_ns": {"performer"}, "turn_ns": {"performer"}, "feature_ns": {"performer"},
                "product_flop_ns": {"performer"}, "gelu_ns": set(), "print_number_ns": set(),
                "attend_flop_ns": set(before) - {"performer"}, "barrier_ns": set(before)}
        for rate, users in uses.items():
            self.save({**rates, rate: rates[rate] * SCALE})
            after = considered(self.planned({"shape": SHAPE}))
            with self.subTest(rate=rate):
                self.assertEqual({name for name in after if after[name] != before[name]}, users)
                self.assertTrue(all(after[name] > before[name] for name in users), (before, after))

    def test_scaling_a_rate_changes_the_cheapest(self):
        """Performer alone draws numbers, and alone does without fused attention."""
        rates = self.calibrated()
        for rate, is_cheapest in (("draw_ns", False), ("attend_flop_ns", True)):
            self.save({**rates, rate: rates[rate] * SCALE})
            planned = self.planned({"shape": {"n": 20000, "d": 64}}, "--policy", "cost")
            with self.subTest(rate=rate):
                self.assertEqual(planned["route"]["rule"], "cost")
                self.assertEqual(planned["backend"] == "performer", is_cheapest, str(planned))

    def test_what_is_read_and_printed_counts(self):
        """Rates of one form move the requests of that form."""
        rates = self.calibrated()
        x = samples.normal(1, 40, 8)
        text = {name: x.tolist() for name in "qkv"}
        forms = {"json": lambda daemon: daemon.post("/v1/plan", text),
                 "base64": lambda daemon: daemon.post("/v1/plan", dict.fromkeys(
                     "qkv", client.tensor(x))),
                 "binary": lambda daemon: safetensors.post(daemon, dict.fromkeys("qkv", x),
                                                           path="/v1/plan",
                                                           accept="application/json"),
                 "silent": lambda daemon: daemon.post("/v1/plan", {**text, "return_output": False})}
        moves = {"read_number_byte_ns": {"json", "silent", "base64"}, "read_base64_byte_ns": {"base64"},
                 "read_header_ns": {"binary"}, "read_fields_ns": {"json", "silent", "base64"},
                 "print_number_ns": {"json", "binary"}, "print_base64_ns": {"base64"}}

        def ask():
            daemon = self.daemon()
            found = {}
            for form, call in forms.items():
                answer = call(daemon)
                self.assertEqual(answer.status, 200, str(answer))
                found[form] = considered(answer.json)["exact"]
            self.assertEqual(daemon.stop(), 0)
            return found

        before = ask()
        for rate, moved in moves.items():
            self.save({**rates, rate: rates[rate] * SCALE})
            after = ask()
            with self.subTest(rate=rate):
                self.assertEqual({form for form in forms if after[form] != before[form]}, moved)


class Predictions(CostCase):
    def test_plan_predicts_what_attend_says(self):
        self.calibrated()
        daemon = self.daemon()
        x = samples.normal(2, 2, 60, 16)
        for fields in ({}, {"causal": True}, {"backend": "performer"}, {"return_output": False},
                       {"lengths": [50]}):
            document = {**dict.fromkeys("qkv", x.tolist()), **fields}
            with self.subTest(**fields):
                planned = daemon.post("/v1/plan", document)
                done = daemon.post("/v1/attend", document)
                self.assertEqual(done.status, 200, str(done))
                self.assertEqual(considered(planned.json), considered(done.json))
        binary = safetensors.post(daemon, dict.fromkeys("qkv", x), path="/v1/plan",
                                  accept=safetensors.TYPE)
        _, planned = safetensors.answer_of(binary)
        done = safetensors.post(daemon, dict.fromkeys("qkv", x), accept=safetensors.TYPE)
        self.assertEqual(considered(planned), considered(safetensors.answer_of(done)[1]))

    def test_a_bare_shape_is_binary_in_and_out(self):
        self.calibrated()
        daemon = self.daemon()
        x = np.ones((2, 33, 8), np.float32)
        shaped = daemon.post("/v1/plan", {"shape": {"n": 33, "heads": 2, "d": 8}}).json
        _, stored = safetensors.answer_of(safetensors.post(
            daemon, dict.fromkeys("qkv", x), path="/v1/plan", accept=safetensors.TYPE))
        self.assertEqual(considered(shaped), considered(stored))

    def test_corrections_are_learned_and_told(self):
        rates = self.calibrated()
        self.save({key: value * SCALE if key.startswith("attend_") else value
                   for key, value in rates.items()})
        daemon = self.daemon()
        x = samples.normal(3, 64, 16).tolist()
        document = {**dict.fromkeys("qkv", x), "backend": "exact"}
        first = considered(daemon.post("/v1/plan", document).json)["exact"]
        for _ in range(40):
            self.assertEqual(daemon.post("/v1/attend", document).status, 200)
        self.assertLess(considered(daemon.post("/v1/plan", document).json)["exact"], first)
        samples_of = scrape(daemon)["attnd_cost_correction"].samples
        found = {tuple(sorted(dict(labels).items())): value
                 for (_, labels), value in samples_of.items()}
        for stage, what in (("read", "json"), ("compute", "exact"), ("print", "json")):
            labels = {"stage": stage, "what": what, "call": "raw", "decade": "10"}
            factor = found[tuple(sorted(labels.items()))]
            self.assertTrue(0.25 <= factor <= 4, (labels, factor))
        # What was made a thousand times too long is corrected as far as corrections go.
        self.assertLess(factor_of(found, "compute"), 0.3)

    def test_ratio_is_counted_once_a_request(self):
        self.calibrated()
        daemon = self.daemon()
        x = samples.normal(4, 20, 8).tolist()
        document = dict.fromkeys("qkv", x)
        for _ in range(3):
            daemon.post("/v1/attend", document)
            daemon.post("/v1/plan", document)
        text = daemon.get("/metrics").body.decode()
        counts = {dict(labels)["backend"]: value for (name, labels), value
                  in parse(text)["attnd_cost_prediction_ratio"].samples.items()
                  if name.endswith("_count")}
        self.assertEqual(counts, {"exact": 3})


def factor_of(found, stage):
    factors = [value for labels, value in found.items() if dict(labels)["stage"] == stage]
    assert len(factors) == 1, found
    return factors[0]


if __name__ == "__main__":
    unittest.main()
