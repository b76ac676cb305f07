"""`attnd init-model`: the files it writes, what it refuses, and what an interruption leaves."""

import contextlib
import fcntl
import json
import os
import resource
import signal
import subprocess
import tempfile
import time
import unittest

import client
import numpy as np
import safetensors

LIMIT_S = 240
SMALL = ("--dim", "24", "--heads", "6", "--kv-heads", "2", "--seq-len", "40", "--k", "5")
CONFIG, WEIGHTS = "config.json", "model.safetensors"
LAYER_BACKENDS = ["exact", "window", "sparse", "linformer", "performer", "mamba", "hybrid"]


def arguments(folder, *flags):
    return [client.binary, "init-model", folder, *flags]


def init_model(folder, *flags, **options):
    """How `attnd init-model` ended."""
    return subprocess.run(arguments(folder, *flags), capture_output=True, text=True,
                          timeout=LIMIT_S, check=False, **options)


def read(folder, name):
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


class Case(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.parent = temporary.name
        self.folder = os.path.join(temporary.name, "model")

    def written(self, *flags):
        """The configuration and the tensors of a run that must succeed."""
        ended = init_model(self.folder, *flags)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertEqual(sorted(os.listdir(self.folder)), [CONFIG, WEIGHTS])
        tensors, self.metadata = safetensors.load(read(self.folder, WEIGHTS))
        return json.loads(read(self.folder, CONFIG)), tensors

    def refused(self, code, said, *flags, folder=None, **options):
        ended = init_model(self.folder if folder is None else folder, *flags, **options)
        self.assertEqual((ended.returncode, ended.stdout), (code, ""), ended.stderr)
        self.assertIn(said, ended.stderr)
        self.assertEqual(ended.stderr.count("\n"), 1, ended.stderr)


class Layer(Case):
    def test_default(self):
        config, tensors = self.written()
        self.assertEqual(
            [config[key] for key in ("model_type", "hidden_size", "num_attention_heads",
                                     "num_key_value_heads", "head_dim", "causal")],
            ["layer", 256, 4, 4, 64, "any"])
        self.assertEqual(list(config["backends"]), LAYER_BACKENDS)
        for name, keys in config["backends"].items():
            self.assertIs(keys["trained"], False, name)
        self.assertEqual(config["backends"]["linformer"],
                         {"trained": False, "k": 64, "seq_len": 32768})
        self.assertEqual(config["backends"]["mamba"],
                         {"trained": False, "d_state": 16, "d_conv": 4, "expand": 2, "dt_rank": 16})
        self.assertEqual({name: x.shape for name, x in tensors.items()}, {
            "attn.q_proj.weight": (256, 256), "attn.k_proj.weight": (256, 256),
            "attn.v_proj.weight": (256, 256), "attn.out_proj.weight": (256, 256),
            "attn.E": (32768, 64),
            "mamba.in_proj.weight": (1024, 256), "mamba.conv1d.weight": (512, 1, 4),
            "mamba.conv1d.bias": (512,), "mamba.x_proj.weight": (48, 512),
            "mamba.dt_proj.weight": (512, 16), "mamba.dt_proj.bias": (512,),
            "mamba.A_log": (512, 16), "mamba.D": (512,), "mamba.out_proj.weight": (256, 512)})
        self.assertIn("random", self.metadata["weights"])

    def test_moments(self):
        """Normals of variance 1 / (last dimension): five deviations of mean and mean square."""
        _, tensors = self.written()
        for name, x in tensors.items():
            if name.endswith((".bias", ".A_log", ".D")):
                continue
            x = x.astype(np.float64) * np.sqrt(x.shape[-1])
            with self.subTest(name=name):
                self.assertLess(abs(x.mean()), 5 / np.sqrt(x.size))
                self.assertLess(abs((x * x).mean() - 1), 5 * np.sqrt(2 / x.size))
        self.assertTrue((tensors["mamba.D"] == 1).all())
        self.assertTrue((tensors["mamba.conv1d.bias"] == 0).all())
        np.testing.assert_array_equal(
            tensors["mamba.A_log"], np.tile(np.log(np.arange(1, 17)).astype(np.float32), (512, 1)))
        steps = np.log1p(np.exp(tensors["mamba.dt_proj.bias"].astype(np.float64)))
        self.assertTrue(((0.000999999 < steps) & (steps < 0.1000001)).all())

    def test_small_folder(self):
        """E stands once, in two bytes a number."""
        _, tensors = self.written()
        expected = sum(x.size * (2 if name.endswith("E") else 4) for name, x in tensors.items())
        header = len(read(self.folder, WEIGHTS)) - expected
        self.assertTrue(0 < header < 4096, header)

    def test_grouped(self):
        config, tensors = self.written(*SMALL)
        self.assertEqual((config["num_key_value_heads"], config["head_dim"]), (2, 4))
        self.assertEqual(tensors["attn.k_proj.weight"].shape, (8, 24))
        self.assertEqual(tensors["attn.E"].shape, (40, 5))
        self.assertEqual(tensors["mamba.dt_proj.weight"].shape, (48, 2))

    def test_some_backends(self):
        for backends, there, missing in (("exact", "q_proj.weight", "E"),
                                         ("window,linformer", "E", "in_proj.weight"),
                                         ("mamba", "in_proj.weight", "q_proj.weight"),
                                         ("hybrid", "attn.q_proj.weight", "attn.E")):
            with self.subTest(backends=backends):
                config, tensors = self.written(*SMALL, "--backends", backends, "--force")
                self.assertEqual(list(config["backends"]), backends.split(","))
                self.assertIn(there, tensors)
                self.assertNotIn(missing, tensors)

    def test_causal(self):
        for said, meant in (("true", True), ("false", False), ("any", "any")):
            config, _ = self.written(*SMALL, "--causal", said, "--force")
            self.assertEqual(config["causal"], meant)
            self.assertEqual("linformer" in config["backends"], said != "true")

    def test_parameters(self):
        config, _ = self.written(*SMALL, "--window", "7", "--features", "9", "--seed",
                                 "9007199254740991")
        self.assertEqual(config["backends"]["window"]["window"], 7)
        self.assertEqual(config["backends"]["hybrid"]["window"], 7)
        self.assertEqual(config["backends"]["performer"],
                         {"trained": False, "features": 9, "seed": 9007199254740991})


class Stack(Case):
    def test_default_is_the_hybrid(self):
        config, tensors = self.written(*SMALL, "--layers", "5")
        self.assertEqual((config["model_type"], config["causal"], config["norm"],
                          config["residual"]), ("stack", True, "rmsnorm", True))
        self.assertEqual([layer["mixer"] for layer in config["layers"]],
                         ["mamba", "window", "mamba", "window", "mamba"])
        self.assertEqual({layer["trained"] for layer in config["layers"]}, {False})
        for i in range(5):
            self.assertTrue((tensors[f"layers.{i}.norm.weight"] == 1).all())
            kind = "q_proj" if i % 2 else "in_proj"
            self.assertIn(f"layers.{i}.{kind}.weight", tensors)
        self.assertFalse((tensors["layers.1.q_proj.weight"] ==
                          tensors["layers.3.q_proj.weight"]).any())

    def test_mixers_in_turn(self):
        config, tensors = self.written(*SMALL, "--layers", "5", "--causal", "false", "--backends",
                                       "exact,linformer,linformer,performer")
        self.assertEqual([layer["mixer"] for layer in config["layers"]],
                         ["exact", "linformer", "linformer", "performer", "exact"])
        self.assertEqual([name for name in tensors if name.endswith("E")], ["E"])

    def test_many_layers(self):
        config, tensors = self.written("--dim", "1", "--heads", "1", "--layers", "4096")
        self.assertEqual(len(config["layers"]), 4096)
        self.assertIn("layers.4095.q_proj.weight", tensors)
        self.assertLess(len(read(self.folder, CONFIG)), 1 << 20)  # what the loader reads


class Bytes(Case):
    def test_seed(self):
        def run(name, *flags):
            folder = os.path.join(self.parent, name)
            self.assertEqual(init_model(folder, *SMALL, *flags).returncode, 0)
            return read(folder, CONFIG), read(folder, WEIGHTS)
        first = run("first")
        self.assertEqual(run("second"), first)
        self.assertEqual(run("zero", "--seed", "0"), first)
        self.assertNotEqual(run("other", "--seed", "1")[1], first[1])

    def test_memory_is_bounded(self):
        """A model of 64 MB takes no more memory than a small one, but for noise."""
        def peak(folder, dim):
            child = subprocess.Popen(arguments(folder, "--dim", dim, "--backends", "exact"),
                                     stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(child.returncode, 0)
            return usage.ru_maxrss >> 10
        small, large = peak(self.folder, "64"), peak(self.folder + "2", "2048")
        self.assertLess(large, small + 16, f"{small} MB for the small one")


class Refusals(Case):
    def test_bad_arguments(self):
        for flags, said in ((["--dims", "8"], "--dim"),
                            (["--dim", "0"], "1 to"),
                            (["--dim", "65537"], "65536"),
                            (["--dim", "9" * 30], "65536"),
                            (["--dim"], "needs a value"),
                            (["--heads", "3"], "does not divide the 256 of --dim"),
                            (["--kv-heads", "3"], "does not divide the 4 of --heads"),
                            (["--k", "65", "--seq-len", "64"], "more than the 64 positions"),
                            (["--backends", "exakt"], '"exact"'),
                            (["--backends", "exact,exact"], "twice"),
                            (["--backends", "exact," * 65], "more than 64"),
                            (["--causal", "yes"], "false, true or any"),
                            (["--causal", "true", "--backends", "linformer"], "causal"),
                            (["--layers", "2", "--backends", "hybrid"], "mamba,window"),
                            (["--layers", "2", "--backends", "linformer"], "--causal false"),
                            (["--layers", "2", "--backends", "exact,window,mamba"], "3 mixers"),
                            (["--seed", "-1"], "0 to"),
                            (["another"], "another")):
            with self.subTest(flags=flags):
                self.refused(2, said, *flags)
                self.assertFalse(os.path.exists(self.folder))

    def test_no_folder(self):
        self.refused(2, "which folder", folder="--force")
        self.refused(2, "which folder", folder="")

    def test_a_model_is_kept(self):
        for there in (CONFIG, WEIGHTS):
            with self.subTest(there=there), tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(folder, there), "wb") as file:
                    file.write(b"precious")
                self.refused(2, "--force", *SMALL, folder=folder)
                self.assertEqual(os.listdir(folder), [there])
                self.assertEqual(read(folder, there), b"precious")
                self.assertEqual(init_model(folder, *SMALL, "--force").returncode, 0)
                self.assertEqual(sorted(os.listdir(folder)), [CONFIG, WEIGHTS])

    def test_what_is_beside_stays(self):
        os.makedirs(os.path.join(self.folder, "adapters"))
        self.assertEqual(init_model(self.folder, *SMALL).returncode, 0)
        self.assertEqual(sorted(os.listdir(self.folder)), ["adapters", CONFIG, WEIGHTS])

    def test_impossible_folders(self):
        in_the_way = os.path.join(self.parent, "file")
        with open(in_the_way, "wb"):
            pass
        self.refused(1, "Not a directory", *SMALL, folder=in_the_way)
        self.refused(1, "Not a directory", *SMALL, folder=in_the_way + "/model")
        self.refused(1, "too long", *SMALL, folder="x" * 300)
        self.refused(1, "too long", *SMALL, folder="x/" * 3000)

    def test_folders_above_are_made(self):
        folder = os.path.join(self.parent, "a", "b", "model")
        self.assertEqual(init_model(folder + "//", *SMALL).returncode, 0)
        self.assertEqual(sorted(os.listdir(folder)), [CONFIG, WEIGHTS])

    def test_two_at_once(self):
        os.mkdir(self.folder)
        lock = os.open(self.folder, os.O_RDONLY)
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX)
            with open(os.path.join(self.folder, WEIGHTS + ".partial"), "wb") as file:
                file.write(b"theirs")
            self.refused(1, "another run", *SMALL)
            self.assertEqual(read(self.folder, WEIGHTS + ".partial"), b"theirs")
        self.assertEqual(init_model(self.folder, *SMALL).returncode, 0)
        self.assertEqual(sorted(os.listdir(self.folder)), [CONFIG, WEIGHTS])


class Interruptions(Case):
    def test_no_room(self):
        """A file may not grow beyond 100 kB, as if the disk ended there."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
        self.refused(1, "make room", preexec_fn=limit)
        self.assertFalse(os.path.exists(self.folder), "something is left")

    def test_no_room_keeps_the_old(self):
        self.assertEqual(init_model(self.folder, *SMALL).returncode, 0)
        before = read(self.folder, CONFIG), read(self.folder, WEIGHTS)

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
        self.refused(1, "make room", "--force", preexec_fn=limit)
        self.assertEqual(sorted(os.listdir(self.folder)), [CONFIG, WEIGHTS])
        self.assertEqual((read(self.folder, CONFIG), read(self.folder, WEIGHTS)), before)

    def test_killed(self):
        """In the middle of a model of 1 GB: nothing under a final name, and the next run is as if
        nothing had happened."""
        child = subprocess.Popen(arguments(self.folder, "--dim", "8192", "--backends", "exact"),
                                 stderr=subprocess.DEVNULL)
        partial = os.path.join(self.folder, WEIGHTS + ".partial")
        deadline = time.monotonic() + LIMIT_S
        while not os.path.exists(partial) and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.05)
        child.send_signal(signal.SIGKILL)
        self.assertEqual(child.wait(), -signal.SIGKILL)
        self.assertEqual(os.listdir(self.folder), [WEIGHTS + ".partial"])
        self.written(*SMALL)


class Help(unittest.TestCase):
    def test_help(self):
        ended = init_model("--help")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        for said in ("RANDOM", "--dim ", "--kv-heads", "--seq-len", "--layers", "--force", "try:",
                     *LAYER_BACKENDS):
            self.assertIn(said, ended.stdout)

    def test_the_outcome_says_random(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("random", init_model(folder, *SMALL).stdout)
