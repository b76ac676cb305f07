"""Attention layers: every layout of the projections, every backend that needs no more weights."""

import itertools

import client
import numpy as np
import reference
import samples
from checkpoints import Checkpoint, attention
from model_case import ModelCase
from model_reference import attention as layer
from model_reference import linear, merge_heads, projected

# name: sizes of the layer; hidden is 24.
LAYOUTS = {
    "plain": {"heads": 4},
    "biased": {"heads": 4, "bias": True},
    "o-proj": {"heads": 3, "out": "o_proj", "bias": True},
    "grouped": {"heads": 6, "kv_heads": 2},
    "wide-heads": {"heads": 2, "kv_heads": 1, "head_dim": 40, "bias": True},
    "narrow-heads": {"heads": 5, "head_dim": 3, "out": "o_proj"},
}
BACKENDS = {"exact": {"trained": True}, "window": {"window": 5},
            "sparse": {"pattern": "strided", "stride": 4},
            "performer": {"features": 24, "seed": 3}}
# Calls that override what the configuration says.
CALLS = [("exact", {}), ("window", {}), ("window", {"window": 1}), ("sparse", {}),
         ("sparse", {"pattern": "fixed", "stride": 5, "summary": 2}),
         ("sparse", {"pattern": "local", "stride": 3})]


def config(causal="any", hidden=24, heads=4, backends=None, **sizes):
    """config.json of a layer of these sizes."""
    keys = {"kv_heads": "num_key_value_heads", "head_dim": "head_dim"}
    return {"model_type": "layer", "hidden_size": hidden, "num_attention_heads": heads,
            "causal": causal, "backends": BACKENDS if backends is None else backends,
            **{key: sizes[name] for name, key in keys.items() if name in sizes}}


def checkpoint(seed, sizes, **more):
    return Checkpoint(config(**sizes, **more), attention(seed, 24, **sizes))


def mixer(backend, params, n, causal=False, **masks):
    """The float64 function of q, k and v that a call stands for."""
    given, pattern = {**BACKENDS.get(backend, {}), **params}, True
    if backend == "window":
        pattern = reference.window_pattern(n, n, causal, given["window"])
    if backend == "sparse":
        pattern = reference.sparse_pattern(n, n, causal, **given)
    return lambda q, k, v: reference.attend(q, k, v, causal=causal, pattern=pattern, **masks)


class AttentionLayers(ModelCase):
    MODELS = {**{name: checkpoint(i, sizes) for i, (name, sizes) in enumerate(LAYOUTS.items())},
              "from-tensors": Checkpoint({"model_type": "layer", "num_attention_heads": 4},
                                         attention(20, 24, 4)),
              "fixed": checkpoint(21, {"heads": 4}, backends={
                  "sparse": {"pattern": "fixed", "stride": 7, "summary": 2}}),
              "pooled": checkpoint(22, {"heads": 4}, causal=False,
                                   backends={"exact": {}, "linformer": {"k": 6}})}

    def weights(self, name):
        return self.MODELS[name].tensors

    def wanted(self, name, x, backend="exact", params=None, **masks):
        sizes = LAYOUTS.get(name, {"heads": 4})
        mix = mixer(backend, params or {}, x.shape[1], **masks)
        return layer(self.weights(name), x, sizes["heads"], sizes.get("kv_heads"), mix)

    def test_every_layout_and_backend(self):
        for name, (backend, params), n, causal in itertools.product(
                LAYOUTS, CALLS, (1, 2, 37, 150), (False, True)):
            with self.subTest(model=name, backend=backend, params=params, n=n, causal=causal):
                x = samples.normal(n, 2, n, 24)
                got, _ = self.run_model(name, x, backend=backend, params=params, causal=causal)
                self.near(got, self.wanted(name, x, backend, params, causal=causal))

    def test_lengths(self):
        """Rows at or beyond a length are 0, bias or not; the others do not see what lies there."""
        for name, (backend, params), causal in itertools.product(
                ("biased", "grouped"), CALLS, (False, True)):
            with self.subTest(model=name, backend=backend, params=params, causal=causal):
                x, lengths = samples.normal(5, 3, 20, 24), [20, 7, 0]
                x[1, 7:] = 1e4
                got, _ = self.run_model(name, x, backend=backend, params=params, causal=causal,
                                        lengths=lengths)
                wanted = self.wanted(name, x, backend, params, causal=causal, lengths=lengths)
                for row, length in enumerate(lengths):
                    self.assertFalse(got[row, length:].any())
                    if length:
                        self.near(got[row, :length], wanted[row, :length])

    def test_key_mask(self):
        mask = [[1] * 9 + [0] * 4, [0] * 5 + [1] * 8, [1, 0] * 6 + [1]]
        for backend, params in CALLS:
            for causal in (False, True):
                with self.subTest(backend=backend, params=params, causal=causal):
                    x = samples.normal(6, 3, 13, 24)
                    got, _ = self.run_model("biased", x, backend=backend, params=params,
                                            causal=causal, key_mask=mask)
                    kept = np.array(mask, dtype=bool)
                    wanted = self.wanted("biased", x, backend, params, causal=causal,
                                         key_mask=mask)
                    self.near(got[kept], wanted[kept])

    def test_scale(self):
        x = samples.normal(7, 1, 30, 24)
        got, _ = self.run_model("plain", x, backend="exact", scale=0.9)
        self.near(got, self.wanted("plain", x, scale=0.9))

    def test_sizes_from_the_tensors(self):
        x = samples.normal(8, 1, 30, 24)
        self.near(self.run_model("from-tensors", x)[0], self.wanted("from-tensors", x))

    def test_parameters_of_the_configuration(self):
        x = samples.normal(9, 1, 40, 24)
        given = {"pattern": "fixed", "stride": 7, "summary": 2}
        got, told = self.run_model("fixed", x)
        self.assertEqual(told["backend"], "sparse", "the only one that this model has")
        self.near(got, self.wanted("fixed", x, "sparse", given))

    def test_linformer_without_projections_takes_means(self):
        x = samples.normal(11, 2, 40, 24)
        for params, lengths in (({}, [40, 11]), ({"k": 3}, [40, 2])):
            with self.subTest(params=params):
                got, _ = self.run_model("pooled", x, backend="linformer", params=params,
                                        lengths=lengths)
                wanted = layer(self.weights("pooled"), x, 4, None,
                               lambda q, k, v, segments=params.get("k", 6), lengths=lengths:
                               reference.linformer(q, k, v, segments, lengths=lengths))
                for row, length in enumerate(lengths):
                    self.near(got[row, :length], wanted[row, :length])

    def test_performer_draws_as_the_raw_call_does(self):
        """Directions are the daemon's own; q, k and v are ours."""
        x = samples.normal(10, 2, 50, 24)
        for name, params, causal in itertools.product(
                ("biased", "grouped"), ({}, {"seed": 4}, {"features": 9, "orthogonal": False}),
                (False, True)):
            with self.subTest(model=name, params=params, causal=causal):
                sizes = LAYOUTS[name]
                qkv = projected(self.weights(name), x, sizes["heads"], sizes.get("kv_heads"))
                raw = self.daemon.post("/v1/attend", {
                    **{tensor: client.tensor(y) for tensor, y in zip("qkv", qkv)},
                    "backend": "performer", "causal": causal,
                    "params": {**BACKENDS["performer"], **params}})
                self.assertEqual(raw.status, 200, str(raw))
                mixed, _ = client.decode(raw.json["output"])
                out = "out_proj" if "out_proj.weight" in self.weights(name) else "o_proj"
                got, _ = self.run_model(name, x, backend="performer", causal=causal, params=params)
                self.near(got, linear(self.weights(name), out, merge_heads(mixed)))
