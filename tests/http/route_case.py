"""What suites about the router share: models to choose among, thresholds low enough to be quick,
and checks of the account that every answer gives."""

import os

import client
import numpy as np
import samples
from checkpoints import Checkpoint, attention
from model_case import ModelCase
from test_model_attention import config
from test_model_mamba import both_kinds
from test_model_requests import HIDDEN, HEADS
from test_model_stacks import MIXED, stack

BACKENDS = ["exact", "window", "sparse", "linformer", "performer", "mamba", "hybrid"]
SHORT_BELOW, LONG_ABOVE = 16, 64
COVERED, SEGMENT = 48, 4  # positions that the trained model's projection covers, and averages
THRESHOLDS = ("--short-below", str(SHORT_BELOW), "--long-above", str(LONG_ABOVE))
HIDDEN_OF = {"trained": HIDDEN, "demo": 32, "both": 20, "stack": 16}


def trained():
    """A layer whose projection averages segments: where hidden states are the same all over a
    segment, linformer is exact attention."""
    means = np.kron(np.eye(COVERED // SEGMENT), np.full((SEGMENT, 1), 1 / SEGMENT))
    backends = {"exact": {"trained": True}, "window": {"window": 3}, "sparse": {},
                "linformer": {"trained": True}, "performer": {"features": 16}}
    tensors = {**attention(7, HIDDEN, HEADS), "E": means.astype(np.float32)}
    return Checkpoint(config("any", backends=backends), tensors)


def smooth(seed, n=COVERED):
    """Hidden states that are the same all over each segment."""
    return np.repeat(samples.normal(seed, n // SEGMENT, HIDDEN), SEGMENT, axis=0)


def raw(seed, n, heads=2, d=8, form="base64"):
    """q, k and v of a raw call."""
    return {name: client.tensor(samples.normal(seed + i, heads, n, d), form)
            for i, name in enumerate("qkv")}


def entries(told):
    """{backend: what is said of it}."""
    return {entry["backend"]: entry for entry in told["route"]["considered"]}


class RouteCase(ModelCase):
    """A daemon over a trained layer, a demo layer, one with attention and Mamba, and a stack."""

    MODELS = {"trained": trained(), "both": both_kinds(3), "stack": stack(5, MIXED, causal=True)}
    FLAGS = THRESHOLDS

    @classmethod
    def finish_folder(cls):
        made = client.run_command("init-model", os.path.join(cls.folder.name, "demo"), "--dim",
                                  "32", "--window", "3", "--seq-len", str(COVERED), "--k", "8",
                                  "--features", "16")
        assert made.returncode == 0, made.stderr

    def attend_raw(self, tensors, headers=None, **fields):
        """The answer to a raw call that must be answered."""
        answer = self.daemon.post("/v1/attend", {**tensors, **fields}, headers)
        self.assertEqual(answer.status, 200, str(answer))
        return answer.json

    def ask_any(self, model, n, **fields):
        """The answer's account of a raw call, or of a call to the model."""
        if model:
            return self.run_model(model, samples.normal(n, n, HIDDEN_OF[model]), **fields)[1]
        return self.attend_raw(raw(n, n), **fields)

    def plan(self, **document):
        answer = self.daemon.post("/v1/plan", document)
        self.assertEqual(answer.status, 200, str(answer))
        return answer.json

    def routed(self, told, backend, rule):
        self.assertEqual((told["backend"], told["route"]["rule"]), (backend, rule), told["route"])

    def check_account(self, told):
        """Every backend once, with all there is to say of it."""
        self.assertEqual(sorted(entries(told)), sorted(BACKENDS))
        self.assertEqual(len(told["route"]["considered"]), len(BACKENDS))
        for entry in told["route"]["considered"]:
            self.assertIsInstance(entry["trained"], bool)
            self.assertEqual(entry["chosen"], entry["backend"] == told["backend"])
            self.assertEqual("why_not" in entry, not entry["chosen"], entry)
            if "predicted_ms" in entry:
                self.assertGreater(entry["predicted_ms"], 0)
                self.assertGreater(entry["predicted_bytes"], 0)
            self.assertTrue(not entry["eligible"] or "predicted_ms" in entry, entry)
            if entry["chosen"]:
                self.assertTrue(entry["eligible"])
