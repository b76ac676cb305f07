"""Mamba blocks: every prefix and optional tensor, both variants of the recurrence, padding; and the
hybrid of a block and windowed attention."""

import itertools

import numpy as np
import reference
import samples
from checkpoints import Checkpoint, attention, mamba, prefixed, selective_ssm
from model_case import ModelCase
from model_reference import attention as attention_layer
from model_reference import hybrid, under
from model_reference import mamba as block

HIDDEN, HEADS = 20, 4
SIZES = {"d_state": 16, "d_conv": 4, "expand": 2, "dt_rank": 2}
# Lengths around the sizes that a scan in chunks might choose.
LENGTHS = (1, 2, 3, 4, 7, 63, 64, 65, 127, 128, 129, 1000, 1023, 1025, 2100)
BLOCKS = {
    "bare": ("", {}), "mamba-prefix": ("mamba.", {}), "mixer-prefix": ("mixer.", {}),
    "first-layer": ("backbone.layers.0.mixer.", {}),
    "no-conv-bias": ("", {"conv_bias": False}), "biased": ("mamba.", {"bias": True}),
    "small-states": ("", {"states": 3, "taps": 2, "rank": 5}),
    "odd-inner": ("", {"inner": 37, "states": 8, "taps": 3}),
}


def config(backend=None, **keys):
    return {"model_type": "layer", "hidden_size": HIDDEN, "causal": True,
            "backends": {"mamba": backend or {}}, **keys}


def strong_decay(seed):
    """Steps of 3 to 8 and rates to 16: products of decays underflow within a few positions."""
    tensors = mamba(seed, HIDDEN)
    return {**tensors, "dt_proj.bias": tensors["dt_proj.bias"] + 8}


def both_kinds(seed, window=5):
    """A layer that holds attention and a block."""
    return Checkpoint(
        {"model_type": "layer", "hidden_size": HIDDEN, "num_attention_heads": HEADS,
         "causal": "any", "backends": {"exact": {}, "window": {"window": 3}, "mamba": SIZES,
                                       "hybrid": {"window": window, "trained": True}}},
        {**prefixed("attn.", attention(seed, HIDDEN, HEADS, bias=True)),
         **prefixed("mamba.", mamba(seed + 1, HIDDEN, rank=2))})


class MambaBlocks(ModelCase):
    MODELS = {
        **{name: Checkpoint(config(), prefixed(prefix, mamba(i, HIDDEN, **sizes)))
           for i, (name, (prefix, sizes)) in enumerate(BLOCKS.items())},
        "sized": Checkpoint(config(SIZES), mamba(20, HIDDEN, rank=2)),
        "article": Checkpoint(config({"variant": "article", "discretization": "article"}),
                              selective_ssm(21, HIDDEN, d_state=8)),
        "article-euler": Checkpoint(config({"variant": "article"}), selective_ssm(22, HIDDEN)),
        "article-says-euler": Checkpoint(config({"variant": "article", "discretization": "euler"}),
                                         selective_ssm(22, HIDDEN)),
        "strong-decay": Checkpoint(config(), strong_decay(23)),
        "not-causal": Checkpoint(config(causal=False), mamba(24, HIDDEN)),
    }

    def wanted(self, name, x, kept=None):
        variant = "article" if name.startswith("article") else "official"
        weights = under(self.MODELS[name].tensors, BLOCKS.get(name, ("",))[0])
        return block(weights, x, variant, euler=name != "article", kept=kept)

    def test_every_block_and_length(self):
        for name, n in itertools.product(self.MODELS, (1, 3, 40)):
            with self.subTest(model=name, n=n):
                x = samples.normal(n, 2, n, HIDDEN)
                got, told = self.run_model(name, x, backend="mamba")
                self.near(got, self.wanted(name, x))
                self.assertNotEqual(told["warnings"] if name == "not-causal" else True, [])

    def test_long_scans(self):
        """Every position is as near as float32 allows, for weak decay and for strong."""
        for name, n in itertools.product(("sized", "strong-decay"), LENGTHS):
            with self.subTest(model=name, n=n):
                x = samples.normal(n, 1, n, HIDDEN)
                got, wanted = self.run_model(name, x)[0], self.wanted(name, x)
                self.near(got, wanted)
                off = np.abs(got - wanted).max(axis=2) / np.abs(wanted).max(axis=2)
                self.assertLess(off.max(), 1e-4)

    def test_padding_on_either_side_is_not_seen(self):
        x, n = samples.normal(1, 1, 30, HIDDEN), 30
        for name in ("bare", "biased", "article"):
            with self.subTest(model=name):
                alone, _ = self.run_model(name, x)
                junk = 100 * samples.normal(2, 1, 9, HIDDEN)
                left, _ = self.run_model(name, np.concatenate([junk, x], axis=1),
                                         key_mask=[0] * 9 + [1] * n)
                self.near(left[:, 9:], alone)
                right = np.concatenate([x, junk], axis=1)
                for mask in ({"key_mask": [1] * n + [0] * 9}, {"lengths": [n]}):
                    got, _ = self.run_model(name, right, **mask)
                    self.near(got[:, :n], alone)
                self.assertFalse(got[:, n:].any(), "rows beyond a length are 0")

    def test_long_padding(self):
        """Lengths and masks that begin and end in other chunks than the sequence."""
        x, n = samples.normal(11, 3, 1100, HIDDEN), [1100, 1026, 1000]
        got, _ = self.run_model("bare", x, lengths=n)
        for row, length in enumerate(n):
            self.near(got[row, :length], self.wanted("bare", x[row:row + 1, :length])[0])
            self.assertFalse(got[row, length:].any())
        got, _ = self.run_model("bare", x[:1], key_mask=[0] * 1030 + [1] * 70)
        self.near(got[:, 1030:], self.wanted("bare", x[:1, 1030:]))

    def test_a_padded_row_alone_and_in_a_batch(self):
        """The same bits: a mask counts whatever the size of the batch."""
        x, mask = samples.normal(3, 2, 25, HIDDEN), [[0] * 6 + [1] * 19, [1] * 25]
        for name in ("bare", "article"):
            both, _ = self.run_model(name, x, key_mask=mask)
            for row in (0, 1):
                one, _ = self.run_model(name, x[row:row + 1], key_mask=mask[row:row + 1])
                self.assertEqual(one[0].tobytes(), both[row].tobytes())
            self.near(both[:1, 6:], self.wanted(name, x[:1, 6:]))

    def test_a_mask_with_holes(self):
        x, mask = samples.normal(4, 2, 25, HIDDEN), np.arange(50).reshape(2, 25) % 3 > 0
        got, _ = self.run_model("bare", x, key_mask=mask.astype(int).tolist())
        self.near(got[mask], self.wanted("bare", x, kept=mask)[mask])

    def test_left_to_right_in_a_model_that_is_not_causal(self):
        x = samples.normal(5, 1, 12, HIDDEN)
        for fields in ({}, {"backend": "mamba"}):
            got, told = self.run_model("not-causal", x, **fields)
            self.near(got, self.wanted("not-causal", x))
            self.warned(told, "left to right")
        for fields in ({}, {"backend": "mamba"}):
            self.refuse("not-causal", x, 422, ["unsupported"], causal=False, **fields)


class Hybrids(ModelCase):
    MODELS = {"both": both_kinds(30), "wide": both_kinds(31, window=64)}

    def test_numbers(self):
        for name, window, params in (("both", 5, {}), ("wide", 64, {}),
                                     ("both", 2, {"window": 2})):
            for n in (1, 4, 50, 130):
                with self.subTest(model=name, params=params, n=n):
                    x = samples.normal(n, 2, n, HIDDEN)
                    got, _ = self.run_model(name, x, backend="hybrid", causal=True, params=params)
                    self.near(got, hybrid(self.MODELS[name].tensors, x, HEADS, window=window))

    def test_padding(self):
        x = samples.normal(6, 2, 30, HIDDEN)
        weights = self.MODELS["both"].tensors
        got, _ = self.run_model("both", x, backend="hybrid", causal=True, lengths=[30, 11])
        self.near(got[0], hybrid(weights, x[:1], HEADS, window=5)[0])
        self.near(got[1, :11], hybrid(weights, x[1:, :11], HEADS, window=5)[0])
        self.assertFalse(got[1, 11:].any())
        mask = [[0] * 8 + [1] * 22] * 2
        got, _ = self.run_model("both", x, backend="hybrid", causal=True, key_mask=mask)
        self.near(got[:, 8:], hybrid(weights, x[:, 8:], HEADS, window=5))

    def test_the_halves_alone(self):
        """Neither has a residual of its own: a layer answers what its weights compute."""
        x, weights = samples.normal(7, 2, 40, HIDDEN), self.MODELS["both"].tensors
        got, _ = self.run_model("both", x, backend="mamba", causal=True)
        self.near(got, block(under(weights, "mamba."), x))
        got, _ = self.run_model("both", x, backend="exact", causal=True)
        causal = lambda q, k, v: reference.attend(q, k, v, causal=True)
        self.near(got, attention_layer(under(weights, "attn."), x, HEADS, None, causal))

    def test_left_to_right_unless_the_request_forbids_it(self):
        x = samples.normal(8, 1, 10, HIDDEN)
        got, told = self.run_model("both", x, backend="hybrid")
        self.near(got, hybrid(self.MODELS["both"].tensors, x, HEADS, window=5))
        self.warned(told, "left to right")
        for backend in ("mamba", "hybrid"):
            self.refuse("both", x, 422, ["unsupported"], causal=False, backend=backend)
