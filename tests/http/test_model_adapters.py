"""LoRA adapters as peft saves them, beside a model and chosen by a request."""

import os
import shutil

import model_reference as models
import samples
from checkpoints import (Adapter, Checkpoint, attention, hugging_face_config, hugging_face_mamba,
                         lora, mamba, prefixed, projections)
from model_case import ModelCase, distance
from test_model_attention import BACKENDS, config

HIDDEN, HEADS = 24, 4
LAYER = {**attention(1, HIDDEN, HEADS, bias=True), **projections(4, 50, 7)}
BLOCK = prefixed("mamba.", mamba(2, HIDDEN))
STACK = hugging_face_mamba(3, HIDDEN, 2)
BOTH = {**prefixed("attn.", attention(5, HIDDEN, HEADS, out="o_proj")), **BLOCK}
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")
EVERY_LINEAR = [f"mamba.{name}" for name in ("in_proj", "x_proj", "dt_proj", "out_proj")]

ADAPTERS = {
    "layer": {
        "one": lora(10, LAYER, ["q_proj"], 4, 8),
        "all": lora(11, LAYER, PROJECTIONS, 3, 16),
        "rs": lora(12, LAYER, ["q_proj", "v_proj"], 4, 8, use_rslora=True),
        "whole-alpha": lora(13, LAYER, ["out_proj"], 2, 1.5),
        "wide": lora(14, LAYER, ["k_proj"], 20, 20),
        "pattern": Adapter({"q_proj": lora(17, LAYER, ["q_proj"], 4, 8).pairs["q_proj"],
                            "v_proj": lora(18, LAYER, ["v_proj"], 2, 8).pairs["v_proj"]},
                           {"r": 4, "lora_alpha": 8, "rank_pattern": {"v_proj": 2},
                            "alpha_pattern": {"v_proj": 3}}),
    },
    "both": {"attention": lora(15, BOTH, ["attn.q_proj", "attn.o_proj"], 2, 4),
             "both": lora(16, BOTH, ["attn.v_proj", "mamba.out_proj"], 2, 4)},
    "block": {"every-linear": lora(20, BLOCK, EVERY_LINEAR, 2, 4)},
    "stack": {"second": lora(30, STACK, ["backbone.layers.1.mixer.in_proj",
                                         "backbone.layers.1.mixer.x_proj"], 4, 8),
              "both": lora(31, STACK, [f"backbone.layers.{i}.mixer.out_proj" for i in (0, 1)],
                           4, 4)},
}


def with_adapter(tensors, adapter):
    """The weights that a merged checkpoint would have."""
    told = adapter.config
    for module, pair in adapter.pairs.items():
        alpha = told.get("alpha_pattern", {}).get(module, told["lora_alpha"])
        rank = told.get("rank_pattern", {}).get(module, told["r"])
        tensors = models.adapted(tensors, {module: pair}, alpha, rank,
                                 told.get("use_rslora", False))
    return tensors


class Adapters(ModelCase):
    MODELS = {
        "layer": Checkpoint(config(backends={**BACKENDS, "linformer": {}}), LAYER,
                            ADAPTERS["layer"]),
        "block": Checkpoint({"model_type": "layer", "hidden_size": HIDDEN, "causal": True,
                             "backends": {"mamba": {}}}, BLOCK, ADAPTERS["block"]),
        "both": Checkpoint(config(backends={"hybrid": {"window": 5}}), BOTH, ADAPTERS["both"]),
        "stack": Checkpoint(hugging_face_config(HIDDEN, 2), STACK, ADAPTERS["stack"]),
        "none": Checkpoint(config(), LAYER),
    }

    def wanted(self, model, tensors, x):
        if model == "layer":
            return models.attention(tensors, x, HEADS)
        if model == "block":
            return models.mamba(models.under(tensors, "mamba."), x)
        if model == "both":
            return models.hybrid(tensors, x, HEADS, window=5)
        return models.mamba_stack(tensors, x)

    def test_every_adapter(self):
        for model, adapters in ADAPTERS.items():
            for name, adapter in adapters.items():
                for n in (1, 5, 130):
                    with self.subTest(model=model, adapter=name, n=n):
                        x = samples.normal(n, 2, n, HIDDEN)
                        got, _ = self.run_model(model, x, adapter=name)
                        tensors = with_adapter(self.MODELS[model].tensors, adapter)
                        self.near(got, self.wanted(model, tensors, x))

    def test_nothing_is_merged(self):
        """Without an adapter the base answers, before and after one was used."""
        x = samples.normal(4, 2, 9, HIDDEN)
        before, _ = self.run_model("layer", x)
        changed, _ = self.run_model("layer", x, adapter="all")
        after, _ = self.run_model("layer", x)
        self.assertEqual(before.tolist(), after.tolist())
        self.near(before, models.attention(LAYER, x, HEADS))
        self.assertGreater(distance(changed, before), 0.1)

    def test_with_every_backend_and_in_binary(self):
        x = samples.normal(5, 2, 40, HIDDEN)
        merged = with_adapter(LAYER, ADAPTERS["layer"]["all"])
        for backend in ("window", "sparse", "linformer", "performer"):
            with self.subTest(backend=backend):
                got, _ = self.run_model("layer", x, backend=backend, adapter="all")
                base, _ = self.run_model("layer", x, backend=backend)
                self.assertGreater(distance(got, base), 0.1)
                binary, _ = self.run_binary("layer", x, backend=backend, adapter="all")
                self.assertEqual(got.astype("<f4").tobytes(), binary.tobytes())
        self.near(self.run_model("layer", x, adapter="all")[0],
                  models.attention(merged, x, HEADS))

    def test_unknown(self):
        x = samples.normal(6, 3, HIDDEN)
        for model in ("layer", "none"):
            self.refuse(model, x, 404, ["not_found"], ["third"], param="adapter", adapter="third")
        for wrong in (3, ["one"], ""):
            with self.subTest(adapter=wrong):
                error = self.check_error(self.ask("layer", x, adapter=wrong), 400)
                self.assertEqual(error["param"], "adapter")

    def test_an_adapter_needs_a_model(self):
        self.refused_field("adapter", adapter="one")


WRONG_ADAPTERS = {
    "no-such-module": (Adapter({"g_proj": ADAPTERS["layer"]["one"].pairs["q_proj"]},
                               {"r": 4, "lora_alpha": 8}), ["g_proj"]),
    "wrong-shape": (Adapter({"q_proj": (samples.normal(1, 4, 23), samples.normal(2, 24, 4))},
                            {"r": 4, "lora_alpha": 8}), ["q_proj", "23", "24"]),
    "wrong-rank": (Adapter(ADAPTERS["layer"]["one"].pairs, {"r": 5, "lora_alpha": 8}),
                   ["q_proj", "4", "5"]),
    "magnitudes": (lora(40, LAYER, ["q_proj"], 4, 8, use_dora=True), ["use_dora"]),
    "other-kind": (lora(41, LAYER, ["q_proj"], 4, 8, peft_type="LOHA"), ["LOHA"]),
    "transposed": (lora(42, LAYER, ["q_proj"], 4, 8, fan_in_fan_out=True), ["fan_in_fan_out"]),
}


class WrongAdapters(ModelCase):
    """A model whose adapter cannot be what it says does not load, and the reason says why."""

    MODELS = {**{name: Checkpoint(config(), LAYER, {"wrong": adapter})
                 for name, (adapter, _) in WRONG_ADAPTERS.items()},
              "half": Checkpoint(config(), LAYER, {"wrong": ADAPTERS["layer"]["one"]}),
              "good": Checkpoint(config(), LAYER)}

    @classmethod
    def finish_folder(cls):
        os.remove(os.path.join(cls.folder.name, "half/adapters/wrong/adapter_model.safetensors"))
        # Neither hidden folders nor files are adapters.
        os.makedirs(os.path.join(cls.folder.name, "good/adapters/.cache"))
        shutil.copy(os.path.join(cls.folder.name, "good/config.json"),
                    os.path.join(cls.folder.name, "good/adapters/notes.json"))

    def test_reasons(self):
        wanted = {name: words for name, (_, words) in WRONG_ADAPTERS.items()}
        for name, words in {**wanted, "half": ["adapter_model.safetensors"]}.items():
            with self.subTest(model=name):
                self.unavailable(name, ["wrong", *words])
        self.run_model("good", samples.normal(7, 3, HIDDEN))
