"""`attnd bench`: what it prints for tiny sizes, and what it refuses."""

import json
import subprocess
import tempfile
import unittest

import client

BACKENDS = ["exact", "window", "sparse", "linformer", "performer"]
TINY = ["--n", "33,48", "--d", "8", "--heads", "4", "--kv-heads", "2", "--k", "7", "--features",
        "9", "--window", "5", "--repeat", "3"]
LIMIT_S = 240


def bench(*flags):
    """How `attnd bench` ended."""
    return subprocess.run([client.binary, "bench", *flags], capture_output=True, text=True,
                          timeout=LIMIT_S, check=False)


def document(*flags):
    ended = bench(*TINY, "--json", *flags)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def runs(found, n):
    """The runs of one n by backend."""
    rounds = [r for r in found["rounds"] if r["n"] == n]
    assert len(rounds) == 1, found
    return {run["backend"]: run for run in rounds[0]["runs"]}


class Json(unittest.TestCase):
    def check_run(self, run):
        ms = run["ms"]
        self.assertLess(0, ms["min"])
        self.assertLessEqual(ms["min"], ms["median"])
        self.assertLessEqual(ms["median"], ms["max"])
        rate = run["flops"] / ms["min"] / 1e6
        self.assertAlmostEqual(run["gflops"]["max"], rate, delta=1e-6 * rate)
        self.assertLess(0, run["of_sgemm"])
        self.assertLess(0, run["of_sgemm_busy"])
        self.assertLess(0, run["busy_ms"])
        self.assertLess(0, run["predicted_ms"])
        workspace = run["workspace_bytes"]
        self.assertLess(0, workspace["measured"])
        self.assertLessEqual(workspace["measured"], workspace["predicted"])

    def test_every_backend(self):
        found = document("--workers", "2")
        self.assertEqual((found["workers"], found["d"], found["heads"], found["kv_heads"]),
                         (2, 8, 4, 2))
        self.assertEqual([r["n"] for r in found["rounds"]], [33, 48])
        for n in (33, 48):
            by_name = runs(found, n)
            self.assertEqual(sorted(by_name), sorted(BACKENDS))
            self.assertEqual(by_name["exact"]["times_exact"], 1)
            for name, run in by_name.items():
                with self.subTest(n=n, backend=name):
                    self.check_run(run)

    def test_flops_by_hand(self):
        by_name = runs(document("--workers", "1"), 48)
        columns = 2 * (8 + 8)
        pairs = sum(min(i + 5, 47) - max(i - 5, 0) + 1 for i in range(48))
        self.assertEqual(by_name["exact"]["flops"], 4 * 48 * 48 * columns)
        self.assertEqual(by_name["window"]["flops"], 4 * pairs * columns)
        self.assertEqual(by_name["linformer"]["flops"], (4 * 48 + 2 * 48) * 7 * columns)
        self.assertEqual(by_name["performer"]["flops"], (4 * 48 + 2 * 48) * 9 * columns)

    def test_causal_leaves_out_what_cannot(self):
        found = document("--causal")
        self.assertNotIn("linformer", runs(found, 33))
        self.assertIn("causal", found["rounds"][0]["left_out"]["linformer"])
        self.assertEqual(runs(found, 48)["exact"]["flops"], 4 * 48 * 48 * 16)

    def test_chosen_backends_alone(self):
        by_name = runs(document("--backends", "window,performer", "--drawn"), 33)
        self.assertEqual(sorted(by_name), ["performer", "window"])
        self.assertIsNone(by_name["window"]["times_exact"])


class Model(unittest.TestCase):
    """A model's backends, of hidden size 32: 4 heads, Di 64, N 16, R 2."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="attnd-bench-")
        subprocess.run([client.binary, "init-model", cls.folder.name, "--dim", "32", "--seq-len",
                        "64", "--k", "8", "--force"], check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def document(self, *flags):
        ended = bench("--model", self.folder.name, "--n", "33,48", "--repeat", "2", "--json", *flags)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return json.loads(ended.stdout)

    def test_every_backend(self):
        found = self.document("--workers", "2", "--batch", "3")
        self.assertEqual((found["hidden"], found["heads"], found["batch"], found["causal"]),
                         (32, 4, 3, False))
        attention, mamba = 4 * 32 * 32, 128 * 32 + 34 * 64 + 64 * 2 + 32 * 64
        for n in (33, 48):
            by_name = runs(found, n)
            self.assertEqual(sorted(by_name), sorted([*BACKENDS, "mamba", "hybrid"]))
            for name, run in by_name.items():
                with self.subTest(n=n, backend=name):
                    Json.check_run(self, run)
                    weights = {"mamba": mamba, "hybrid": mamba + attention}.get(name, attention)
                    self.assertEqual(run["flops"], 2 * 3 * n * weights)

    def test_chosen_backends_causal(self):
        found = self.document("--backends", "mamba,exact", "--causal")
        self.assertTrue(found["causal"])
        self.assertEqual(sorted(runs(found, 33)), ["exact", "mamba"])

    def test_what_the_model_refuses_is_left_out(self):
        found = self.document("--causal")
        self.assertIn("causal", found["rounds"][0]["left_out"]["linformer"])

    def test_refusals(self):
        for flags, status, said in ((["--model", "/nowhere"], 2, "/nowhere/config.json"),
                                    (["--model", self.folder.name, "--backends", "exakt"], 2,
                                     "it has exact, window")):
            with self.subTest(flags=flags):
                ended = bench(*flags)
                self.assertEqual((ended.returncode, ended.stdout), (status, ""))
                self.assertIn(said, ended.stderr)


class Table(unittest.TestCase):
    def test_a_line_for_each_backend(self):
        ended = bench(*TINY)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        for name in BACKENDS:
            self.assertEqual(ended.stdout.count(f"  {name} "), 2, ended.stdout)

    def test_help(self):
        ended = bench("--help")
        self.assertEqual(ended.returncode, 0)
        for flag in ("--n ", "--kv-heads", "--backends", "--causal", "--json", "--repeat"):
            self.assertIn(flag, ended.stdout)


class Refusals(unittest.TestCase):
    def test_bad_arguments(self):
        for flags, said in ((["--bakends", "exact"], "--backends"),
                            (["--backends", "exakt"], '"exact"'),
                            (["--backends", "mamba"], "--model"),
                            (["--backends", ","], '""'),
                            (["--batch", "0"], "1 to"),
                            (["--n", "many"], "many"),
                            (["--n", "0"], "1 to"),
                            (["--n", ","], "number"),
                            (["--n"], "needs a value"),
                            (["--repeat", "100"], "99"),
                            (["--d", "9" * 30], "4096"),
                            (["--isa", "avx3"], "avx2"),
                            (["--heads", "4", "--kv-heads", "3"], "divide"),
                            (["4096"], "a flag begins with --")):
            with self.subTest(flags=flags):
                ended = bench(*flags)
                self.assertEqual((ended.returncode, ended.stdout), (2, ""))
                self.assertIn(said, ended.stderr)
