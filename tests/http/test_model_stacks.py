"""Stacks: Hugging Face's Mamba as it is saved, and stacks of our own with every mixer, norm and
feed-forward; Linformer's projections shared by all layers."""

import functools
import itertools

import numpy as np
import reference
import samples
from checkpoints import (STACK, Checkpoint, attention, feed_forward, hugging_face_config,
                         hugging_face_mamba, mamba, norm, prefixed, projections)
from model_case import ModelCase
from model_reference import attention as attention_layer
from model_reference import block, gelu, linformer_projections, mamba_stack, normalized, relu, silu
from model_reference import mamba as mamba_block
from model_reference import under
from test_bounds import resident

HIDDEN, HEADS = 16, 2
ACTIVATIONS = {"gelu": gelu, "relu": relu, "silu": silu}


def layer(seed, entry, bias=True):
    """Tensors of one layer of a stack: its mixer's, a norm, and what its entry asks for."""
    rng = np.random.default_rng(seed)
    mixer = entry["mixer"]
    tensors = mamba(seed, HIDDEN) if mixer == "mamba" else attention(seed, HIDDEN, HEADS)
    if entry.get("norm") != "none":
        tensors.update(norm(rng, STACK["norm"], HIDDEN, bias))
    wide = entry.get("feed_forward")
    if wide is not None:
        tensors.update(norm(rng, STACK["feed_forward_norm"], HIDDEN, bias))
        tensors.update(feed_forward(rng, HIDDEN, 40, bias, wide.get("gated", False)))
    return tensors


def stack(seed, layers, bias=True, shared=None, **more):
    """A stack of these entries; norms are LayerNorm with `bias`, RMSNorm without."""
    config = {"model_type": "stack", "hidden_size": HIDDEN, "num_attention_heads": HEADS,
              "layers": layers, **more}
    tensors = dict(shared or {})
    for i, entry in enumerate(layers):
        tensors.update(prefixed(f"layers.{i}.", layer(seed + i, entry, bias)))
    last = norm(np.random.default_rng(seed - 1), STACK["final_norm"], HIDDEN, bias)
    return Checkpoint(config, {**tensors, **({} if more.get("final_norm") == "none" else last)})


MIXED = [{"mixer": "mamba"}, {"mixer": "window", "window": 4}, {"mixer": "exact"},
         {"mixer": "sparse", "pattern": "fixed", "stride": 5, "summary": 1}]
FORWARD = [{"mixer": "exact", "feed_forward": {}},
           {"mixer": "mamba", "feed_forward": {"activation": "relu"}},
           {"mixer": "window", "window": 3, "feed_forward": {"activation": "silu", "gated": True}}]
LOW_RANK = [{"mixer": "linformer"}, {"mixer": "linformer", "feed_forward": {}}]


def mix(model, weights, entry, x, causal):
    """The float64 mixer of one layer, after its norm."""
    if entry["mixer"] == "mamba":
        return mamba_block(weights, x)
    n = x.shape[1]
    if entry["mixer"] == "linformer":
        e, f = linformer_projections({**model.tensors, **weights})
        mixer = functools.partial(reference.linformer, e=e, f=f)
        return attention_layer(weights, x, HEADS, None, mixer)
    pattern = True
    if entry["mixer"] == "window":
        pattern = reference.window_pattern(n, n, causal, entry["window"])
    if entry["mixer"] == "sparse":
        given = {key: entry[key] for key in ("pattern", "stride", "summary")}
        pattern = reference.sparse_pattern(n, n, causal, **given)
    mixer = functools.partial(reference.attend, causal=causal, pattern=pattern)
    return attention_layer(weights, x, HEADS, None, mixer)


def wanted(model, x):
    """What a stack answers, layer after layer as its configuration lists them."""
    config = model.config
    for i, entry in enumerate(config["layers"]):
        weights = under(model.tensors, f"layers.{i}.")
        wide = entry.get("feed_forward") or {}
        x = block(weights, x,
                  lambda y, w=weights, e=entry: mix(model, w, e, y, config.get("causal", False)),
                  entry.get("residual", True), config.get("norm_eps", 1e-5),
                  ACTIVATIONS[wide.get("activation", "gelu")])
    return normalized(model.tensors, STACK["final_norm"], x, config.get("norm_eps", 1e-5))


class HuggingFace(ModelCase):
    MODELS = {
        "published": Checkpoint(hugging_face_config(24, 3), hugging_face_mamba(1, 24, 3)),
        "one-layer": Checkpoint(hugging_face_config(24, 1, states=4, taps=3, rank=5),
                                hugging_face_mamba(2, 24, 1, states=4, taps=3, rank=5)),
        "other-epsilon": Checkpoint(hugging_face_config(24, 2, layer_norm_epsilon=0.1),
                                    hugging_face_mamba(3, 24, 2)),
        "biased": Checkpoint(hugging_face_config(24, 2, use_bias=True, use_conv_bias=False),
                             hugging_face_mamba(4, 24, 2, bias=True, conv_bias=False)),
        "short-config": Checkpoint({"model_type": "mamba"}, hugging_face_mamba(5, 24, 2)),
        # MambaModel, which has no head, saves the same names without their first part.
        "no-head": Checkpoint(hugging_face_config(24, 2, architectures=["MambaModel"]),
                              under(hugging_face_mamba(6, 24, 2), "backbone.")),
    }

    def wanted(self, name, x, kept=None):
        model = self.MODELS[name]
        tensors = model.tensors
        if name == "no-head":
            tensors = prefixed("backbone.", tensors)
        return mamba_stack(tensors, x, model.config.get("layer_norm_epsilon", 1e-5), kept)

    def test_hidden_states_in_and_out(self):
        for name, n in itertools.product(self.MODELS, (1, 5, 70)):
            with self.subTest(model=name, n=n):
                x = samples.normal(n, 2, n, 24)
                got, told = self.run_model(name, x)
                self.near(got, self.wanted(name, x))
                self.assertEqual(told["backend"], "mamba")
                self.assertEqual(self.run_model(name, x, causal=True)[0].tolist(), got.tolist())

    def test_padding(self):
        x = samples.normal(6, 2, 40, 24)
        got, _ = self.run_model("published", x, lengths=[40, 17])
        self.near(got[1, :17], self.wanted("published", x[1:, :17])[0])
        self.assertFalse(got[1, 17:].any())
        got, _ = self.run_model("published", x, key_mask=[[0] * 15 + [1] * 25] * 2)
        self.near(got[:, 15:], self.wanted("published", x[:, 15:]))

    def test_it_reads_left_to_right_only(self):
        self.refuse("published", samples.normal(7, 5, 24), 422, ["unsupported"], causal=False)


class OwnStacks(ModelCase):
    MODELS = {
        "mixed": stack(10, MIXED, causal=True),
        "mixed-rms": stack(20, MIXED, bias=False, causal=True),
        "not-causal": stack(30, MIXED[1:]),
        "feed-forward": stack(40, FORWARD, causal=True),
        "feed-forward-rms": stack(50, FORWARD, bias=False, causal=True, norm_eps=0.01),
        "bare": stack(60, [{"mixer": "exact", "norm": "none"},
                           {"mixer": "mamba", "norm": "none", "residual": False}], causal=True,
                      final_norm="none"),
        "shared-e-f": stack(70, LOW_RANK, shared=projections(79, 30, 5)),
        "shared-e": stack(80, LOW_RANK, shared=projections(89, 30, 5, ("E",))),
        "named-norms": stack(90, MIXED[:2], bias=False, causal=True, norm="rmsnorm",
                             final_norm="rmsnorm"),
    }

    def test_numbers(self):
        for name, n in itertools.product(self.MODELS, (1, 6, 30)):
            with self.subTest(model=name, n=n):
                x = samples.normal(n, 2, n, HIDDEN)
                self.near(self.run_model(name, x)[0], wanted(self.MODELS[name], x))

    def test_padding(self):
        for name in self.MODELS:
            with self.subTest(model=name):
                x = samples.normal(8, 2, 24, HIDDEN)
                got, _ = self.run_model(name, x, lengths=[24, 10])
                self.near(got[0], wanted(self.MODELS[name], x[:1])[0])
                self.near(got[1, :10], wanted(self.MODELS[name], x[1:, :10])[0])
                self.assertFalse(got[1, 10:].any())

    def test_long_sequences(self):
        for name in ("feed-forward", "bare", "mixed-rms"):
            with self.subTest(model=name):
                x = samples.normal(12, 1, 1100, HIDDEN)
                self.near(self.run_model(name, x)[0], wanted(self.MODELS[name], x))

    def test_several_chunks_of_several_sequences(self):
        x = samples.normal(14, 2, 2100, HIDDEN)
        got, _ = self.run_model("feed-forward", x, lengths=[2100, 1500])
        self.near(got[0], wanted(self.MODELS["feed-forward"], x[:1])[0])
        self.near(got[1, :1500], wanted(self.MODELS["feed-forward"], x[1:, :1500])[0])
        self.assertFalse(got[1, 1500:].any())

    def test_the_longest_plan_is_no_larger(self):
        """A plan has the steps of one chunk of positions, not of all of them."""
        before = resident(self.daemon, "VmHWM")
        for name in ("mixed", "feed-forward", "feed-forward-rms"):
            plan = self.daemon.post("/v1/plan", {"model": name, "shape": {"n": 2**31 - 1}})
            self.assertEqual(plan.status, 200, str(plan))
        self.assertLess(resident(self.daemon, "VmHWM") - before, 16 << 20)

    def test_a_stack_without_mamba_reads_both_ways(self):
        """Different mixers in it do not make it a recurrence."""
        x = samples.normal(13, 1, 20, HIDDEN)
        got, told = self.run_model("not-causal", x, causal=False)
        self.near(got, wanted(self.MODELS["not-causal"], x))
        self.assertFalse([text for text in told["warnings"] if "left to right" in text])

    def test_left_padding(self):
        """No mixer of these sees a padded position, so what is left equals the sequence alone (a
        sparse pattern would count from the first position, padded or not)."""
        for name in ("feed-forward", "bare", "named-norms"):
            model, x = self.MODELS[name], samples.normal(9, 2, 24, HIDDEN)
            with self.subTest(model=name):
                got, _ = self.run_model(name, x, key_mask=[[0] * 7 + [1] * 17] * 2)
                self.near(got[:, 7:], wanted(model, x[:, 7:]))
