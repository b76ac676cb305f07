"""Linformer layers: the article's class unchanged, both ways to name and lay out the projections,
lengths they cover and lengths they do not."""

import itertools

import numpy as np
import reference
import samples
from checkpoints import Checkpoint, attention, linformer_attention, projections
from model_case import ModelCase
from model_reference import attention as layer
from model_reference import linformer_projections

HIDDEN, HEADS, SEQ_LEN, K = 16, 2, 40, 6
NAMES = {"e-f": ("E", "F"), "e": ("E",), "compress": ("compress_k.weight", "compress_v.weight"),
         "compress-k": ("compress_k.weight",)}


def config(**linformer):
    return {"model_type": "layer", "hidden_size": HIDDEN, "num_attention_heads": HEADS,
            "causal": False, "backends": {"linformer": linformer, "exact": {}}}


def checkpoint(seed, names, seq_len=SEQ_LEN, k=K, **linformer):
    return Checkpoint(config(**linformer), {**attention(seed, HIDDEN, HEADS, bias=True),
                                            **projections(seed + 1, seq_len, k, names)})


class LinformerLayers(ModelCase):
    MODELS = {
        **{name: checkpoint(i, names, k=K, seq_len=SEQ_LEN, trained=True)
           for i, (name, names) in enumerate(NAMES.items())},
        # As many positions as projected rows: nothing but the name tells which way they lie.
        "square-e-f": checkpoint(10, ("E", "F"), 12, 12),
        "square-compress": checkpoint(11, ("compress_k.weight", "compress_v.weight"), 12, 12),
        "sized": Checkpoint(config(k=K, seq_len=SEQ_LEN, trained=True),
                            {**attention(12, HIDDEN, HEADS),
                             **projections(13, SEQ_LEN, K)}),
        "article": Checkpoint(config(trained=True), linformer_attention(14, HIDDEN, 64, 8, HEADS)),
        "untrained": checkpoint(15, ("E", "F")),
        "grouped": Checkpoint({**config(), "num_attention_heads": 4, "num_key_value_heads": 2},
                              {**attention(16, HIDDEN, 4, kv_heads=2),
                               **projections(17, SEQ_LEN, K)}),
    }

    def wanted(self, name, x, **masks):
        weights = self.MODELS[name].tensors
        e, f = linformer_projections(weights)
        heads, kv_heads = (4, 2) if name == "grouped" else (HEADS, HEADS)
        return layer(weights, x, heads, kv_heads,
                     lambda q, k, v: reference.linformer(q, k, v, e=e, f=f, **masks))

    def test_every_layout_and_length(self):
        for name, n in itertools.product(self.MODELS, (1, 2, 11, 12, 39, 40)):
            covered = linformer_projections(self.MODELS[name].tensors)[0].shape[1]
            if n > covered:
                continue
            with self.subTest(model=name, n=n):
                x = samples.normal(n, 2, n, HIDDEN)
                got, told = self.run_model(name, x, backend="linformer")
                self.near(got, self.wanted(name, x))
                self.assertFalse([text for text in told["warnings"] if str(covered) in text])

    def test_beyond_the_projections_they_are_interpolated(self):
        for name, n in itertools.product(("e-f", "e", "compress", "square-e-f"), (41, 57, 200)):
            with self.subTest(model=name, n=n):
                x = samples.normal(n, 2, n, HIDDEN)
                got, told = self.run_model(name, x, backend="linformer")
                self.near(got, self.wanted(name, x))
                covered = linformer_projections(self.MODELS[name].tensors)[0].shape[1]
                self.warned(told, str(covered), "interpolated")

    def test_each_row_of_a_batch_has_its_own_length(self):
        """Whether a row is interpolated depends on its own length, not on the longest."""
        x, lengths = samples.normal(3, 4, 60, HIDDEN), [60, 40, 9, 0]
        got, _ = self.run_model("e-f", x, backend="linformer", lengths=lengths)
        wanted = self.wanted("e-f", x, lengths=lengths)
        for row, length in enumerate(lengths):
            self.assertFalse(got[row, length:].any())
            if length:
                self.near(got[row, :length], wanted[row, :length])
                alone, _ = self.run_model("e-f", x[row, :length], backend="linformer")
                self.near(got[row, :length], alone)

    def test_key_mask(self):
        """Masked positions are projected as zeros, and the bias of k and v with them."""
        x, mask = samples.normal(4, 2, 30, HIDDEN), [[0] * 10 + [1] * 20, [1, 0, 1] * 10]
        got, _ = self.run_model("e-f", x, backend="linformer", key_mask=mask)
        kept = np.array(mask, dtype=bool)
        self.near(got[kept], self.wanted("e-f", x, key_mask=mask)[kept])

    def test_there_is_no_causal_form(self):
        self.refuse("e-f", samples.normal(5, 8, HIDDEN), 422, ["unsupported"], causal=True,
                    backend="linformer")

    def test_the_decision_repeats_what_was_trained(self):
        for name, trained in (("sized", True), ("untrained", False)):
            _, told = self.run_model(name, samples.normal(6, 8, HIDDEN), backend="linformer")
            choice = {entry["backend"]: entry for entry in told["route"]["considered"]}
            self.assertEqual(choice["linformer"]["trained"], trained)
            self.assertTrue(choice["exact"]["trained"])
            untrained = [text for text in told["warnings"] if "trained" in text]
            self.assertEqual(bool(untrained), not trained, told["warnings"])
