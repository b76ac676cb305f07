"""Checkpoints that are not what they say: each stays out, with a reason, and the daemon serves the
good one beside them."""

import json
import os

import checkpoints
import model_reference as models
import numpy as np
import safetensors
import samples
from checkpoints import Checkpoint, attention, hugging_face_config, hugging_face_mamba, mamba
from model_case import ModelCase
from test_model_attention import config

HIDDEN, HEADS = 24, 4
LAYER = attention(1, HIDDEN, HEADS, bias=True)
BLOCK = mamba(2, HIDDEN)
STACK = hugging_face_mamba(3, HIDDEN, 2)
FILE = "model.safetensors"


def other(tensors, changes, without):
    """The tensors with some changed and some left out."""
    return {name: x for name, x in {**tensors, **(changes or {})}.items() if name not in without}


def layer(changes=None, without=(), **keys):
    return Checkpoint({**config(), **keys}, other(LAYER, changes, without))


def block(changes=None, without=(), **keys):
    return Checkpoint({"model_type": "layer", "backends": {"mamba": keys}},
                      other(BLOCK, changes, without))


def stack(changes=None, without=(), **keys):
    return Checkpoint(hugging_face_config(HIDDEN, 2, **keys), other(STACK, changes, without))


def spoiled(x, at, value):
    """A copy with one number replaced."""
    x = np.array(x)
    x[at] = value
    return x


NORM = "backbone.layers.1.norm.weight"
TENSORS = {
    "missing": (layer(without=["k_proj.weight"]), [FILE, "k_proj.weight"]),
    "missing-out": (layer(without=["out_proj.weight"]), [FILE, "out_proj.weight"]),
    "wrong-columns": (layer({"v_proj.weight": LAYER["v_proj.weight"][:, :23]}),
                      [FILE, "v_proj.weight", "23", "24"]),
    "wrong-rows": (layer({"q_proj.weight": LAYER["q_proj.weight"][:20]}),
                   [FILE, "q_proj.weight", "20", "24"]),
    "wrong-rank": (layer({"q_proj.weight": LAYER["q_proj.weight"].ravel()}),
                   [FILE, "q_proj.weight", "576"]),
    "wrong-bias": (layer({"out_proj.bias": LAYER["out_proj.bias"][:5]}),
                   [FILE, "out_proj.bias", "5", "24"]),
    "nan": (layer({"k_proj.weight": spoiled(LAYER["k_proj.weight"], (3, 17), np.nan)}),
            [FILE, "k_proj.weight", "3", "17"]),
    "infinite": (layer({"q_proj.bias": spoiled(LAYER["q_proj.bias"], 7, np.inf)}),
                 [FILE, "q_proj.bias", "7"]),
    "block-missing": (block(without=["A_log"]), [FILE, "A_log"]),
    "block-conv": (block({"conv1d.weight": BLOCK["conv1d.weight"][:, 0]}),
                   [FILE, "conv1d.weight", "48"]),
    "block-states": (block({"A_log": BLOCK["A_log"][:, :9]}), [FILE, "_proj.weight"]),
    "block-config": (block(d_state=8), [FILE, "expected"]),
    "block-article": (block(variant="article"), [FILE, "_proj.weight"]),
    "block-nan": (block({"A_log": spoiled(BLOCK["A_log"], (5, 3), np.nan)}), [FILE, "A_log"]),
    "block-taps": (block({"conv1d.weight": np.zeros((48, 1, 90), np.float32)}),
                   [FILE, "conv1d.weight", "90"]),
    "stack-norm": (stack(without=[NORM]), [FILE, NORM]),
    "stack-layers": (stack(num_hidden_layers=3), [FILE, "backbone.layers.2."]),
    "stack-bias": (stack(use_bias=True), [FILE, "in_proj.bias"]),
}
KEYS = {
    "no-type": (layer(model_type=None), ["config.json", "model_type"]),
    "mamba-2": (layer(model_type="mamba2"), ["config.json", "model_type", "mamba2"]),
    "other-type": (layer(model_type="bert"), ["config.json", "model_type", "bert"]),
    "text-size": (layer(hidden_size="24"), ["config.json", "hidden_size"]),
    "negative": (layer(num_attention_heads=-4), ["config.json", "num_attention_heads"]),
    "no-division": (layer(num_attention_heads=5), ["config.json", "24", "5"]),
    "kv-heads": (layer(num_key_value_heads=3), ["config.json", "num_key_value_heads", "3", "4"]),
    "other-hidden": (layer(hidden_size=32), ["q_proj.weight", "24"]),
    "other-backend": (layer(backends={"flash": {}}), ["config.json", "flash"]),
    "no-window": (layer(backends={"window": {"window": 0}}), ["config.json", "window"]),
    "no-block": (layer(backends={"mamba": {}}), [FILE, "in_proj.weight"]),
    "other-causal": (layer(causal="sometimes"), ["config.json", "causal"]),
}
# What a folder holds in the place of a file; None: nothing.
HEADER = safetensors.dump(LAYER)
FILES = {
    "not-json": ("config.json", "{", ["config.json"]),
    "not-an-object": ("config.json", "[]", ["config.json"]),
    "no-config": ("config.json", None, ["config.json"]),
    "duplicate-key": ("config.json", '{"model_type": "layer", "model_type": "stack"}',
                      ["config.json", "model_type"]),
    "no-weights": (FILE, None, [FILE]),
    "empty-weights": (FILE, b"", [FILE]),
    "truncated": (FILE, HEADER[:-1], [FILE]),
    "trailing": (FILE, HEADER + b"x", [FILE]),
    "huge-header": (FILE, b"\xff" * 7 + b"\x7f" + HEADER[8:], [FILE]),
    "header-not-json": (FILE, safetensors.frame("{]", b""), [FILE]),
    "overlap": (FILE, safetensors.frame({"a": safetensors.entry("F32", [4], 0, 16),
                                         "b": safetensors.entry("F32", [4], 8, 24)}, bytes(24)),
                [FILE]),
    "integers": (FILE, safetensors.frame(
        {name: safetensors.entry("I64" if name == "q_proj.weight" else "F32", [24, 24],
                                 begin, begin + size)
         for name, begin, size in (("q_proj.weight", 0, 4608), ("k_proj.weight", 4608, 2304),
                                   ("v_proj.weight", 6912, 2304), ("out_proj.weight", 9216, 2304))},
        bytes(11520)), [FILE, "q_proj.weight", "I64"]),
}
SHARDS = ("missing-shard", "outside-shard", "absent-tensor", "not-an-index")


class Hostile(ModelCase):
    MODELS = {**{name: model for name, (model, _) in {**TENSORS, **KEYS}.items()},
              **{name: layer() for name in FILES},
              **{name: (layer(), {"shards": 2}) for name in SHARDS}, "good": layer()}

    @classmethod
    def finish_folder(cls):
        for name, (file, content, _) in FILES.items():
            path = os.path.join(cls.folder.name, name, file)
            os.remove(path)
            if content is not None:
                checkpoints.write(os.path.dirname(path), file, content)
        cls.spoil_shards()
        with open(os.path.join(cls.folder.name, "notes.txt"), "wb") as file:
            file.write(b"a file beside the models is none of them")

    @classmethod
    def spoil_shards(cls):
        folders = {name: os.path.join(cls.folder.name, name) for name in SHARDS}
        os.remove(os.path.join(folders["missing-shard"], "model-00002-of-00002.safetensors"))
        cls.change_index(folders["outside-shard"], "q_proj.weight", "../good/model.safetensors")
        cls.change_index(folders["absent-tensor"], "g_proj.weight",
                         "model-00001-of-00002.safetensors")
        checkpoints.write(folders["not-an-index"], f"{FILE}.index.json", "[1, 2]")

    @staticmethod
    def change_index(folder, tensor, file):
        path = os.path.join(folder, f"{FILE}.index.json")
        with open(path, encoding="utf-8") as before:
            index = json.load(before)
        index["weight_map"][tensor] = file
        checkpoints.write(folder, f"{FILE}.index.json", index)

    def test_tensors(self):
        for name, (_, words) in TENSORS.items():
            with self.subTest(model=name):
                self.unavailable(name, words)

    def test_configurations(self):
        for name, (_, words) in KEYS.items():
            with self.subTest(model=name):
                self.unavailable(name, words)

    def test_files(self):
        for name, (_, _, words) in FILES.items():
            with self.subTest(model=name):
                self.unavailable(name, words)

    def test_shards(self):
        index = f"{FILE}.index.json"
        for name, words in (("missing-shard", ["model-00002-of-00002.safetensors"]),
                            ("outside-shard", [index, "../good"]),
                            ("absent-tensor", ["g_proj.weight"]), ("not-an-index", [index])):
            with self.subTest(model=name):
                self.unavailable(name, words)

    def test_the_good_one_answers(self):
        x = samples.normal(4, 2, 12, HIDDEN)
        self.near(self.run_model("good", x)[0], models.attention(LAYER, x, HEADS))
        listed = {entry["name"]: entry["state"]
                  for entry in self.daemon.get("/v1/models").json["models"]}
        self.assertEqual(set(listed), set(self.MODELS))
        self.assertEqual([name for name, state in listed.items() if state == "READY"], ["good"])
