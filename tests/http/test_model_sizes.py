"""Models at sizes that no tile divides, on every instruction set, and under load."""

import itertools

import client
import model_reference as models
import numpy as np
import samples
from checkpoints import Checkpoint, attention, hugging_face_mamba, lora, mamba, prefixed
from model_case import ModelCase
from test_determinism import output_text
from test_model_attention import config

# hidden, heads, kv_heads, head_dim; and hidden, channels, states, taps, rank.
LAYERS = ((1, 1, 1, 1), (3, 2, 1, 7), (97, 5, 5, 19), (130, 2, 1, 65), (257, 4, 2, 33))
BLOCKS = ((1, 1, 1, 1, 1), (3, 5, 2, 2, 1), (33, 65, 17, 5, 3), (130, 260, 16, 4, 9),
          (97, 130, 3, 8, 20))


def name_of(kind, sizes):
    return "-".join([kind, *map(str, sizes)])


def served():
    made = {}
    for sizes in LAYERS:
        hidden, heads, kv_heads, d = sizes
        tensors = attention(1, hidden, heads, kv_heads, d, bias=True)
        made[name_of("layer", sizes)] = Checkpoint(
            config(False, hidden, heads, {"exact": {}}, kv_heads=kv_heads, head_dim=d), tensors,
            {"one": lora(2, tensors, ["q_proj", "v_proj", "out_proj"], 3, 6)})
    for sizes in BLOCKS:
        hidden, inner, states, taps, rank = sizes
        tensors = prefixed("mamba.", mamba(3, hidden, inner, states, taps, rank))
        made[name_of("block", sizes)] = Checkpoint(
            {"model_type": "layer", "causal": True}, tensors,
            {"one": lora(4, tensors, ["mamba.in_proj", "mamba.dt_proj", "mamba.out_proj"], 5, 5)})
    made["stack"] = Checkpoint({"model_type": "mamba"}, hugging_face_mamba(5, 130, 2))
    return made


class Sizes(ModelCase):
    MODELS = served()

    def wanted(self, name, x, adapter=None):
        kind, *sizes = name.split("-")
        checkpoint = self.MODELS[name]
        tensors = checkpoint.tensors
        if adapter:
            given = checkpoint.adapters[adapter]
            tensors = models.adapted(tensors, given.pairs, given.config["lora_alpha"],
                                     given.config["r"])
        if kind == "stack":
            return models.mamba_stack(tensors, x)
        if kind == "block":
            return models.mamba(models.under(tensors, "mamba."), x)
        return models.attention(tensors, x, int(sizes[1]), int(sizes[2]))

    def input_of(self, name, batch, n):
        hidden = 130 if name == "stack" else int(name.split("-")[1])
        return samples.normal(n, batch, n, hidden)

    def test_numbers(self):
        for name, (batch, n) in itertools.product(self.MODELS, ((1, 1), (3, 5), (2, 257))):
            for adapter in (None, "one")[:1 if name == "stack" else 2]:
                with self.subTest(model=name, batch=batch, n=n, adapter=adapter):
                    x = self.input_of(name, batch, n)
                    fields = {"adapter": adapter} if adapter else {}
                    got, _ = self.run_model(name, x, **fields)
                    self.near(got, self.wanted(name, x, adapter))

    def test_a_large_batch_and_a_long_sequence(self):
        for name, (batch, n) in itertools.product(
                (name_of("layer", LAYERS[2]), name_of("block", BLOCKS[2])), ((70, 3), (1, 1500))):
            with self.subTest(model=name, batch=batch, n=n):
                x = self.input_of(name, batch, n)
                self.near(self.run_model(name, x)[0], self.wanted(name, x))

    def test_every_instruction_set(self):
        for isa in ("scalar", "avx2", "avx512"):
            try:
                daemon = client.Daemon("--model-dir", self.folder.name, "--isa", isa)
            except RuntimeError as error:
                self.assertIn(isa, str(error))
                print(f"SKIP {isa}: this CPU lacks it")
                continue
            try:
                for name in self.MODELS:
                    with self.subTest(isa=isa, model=name):
                        x = self.input_of(name, 2, 40)
                        answer = daemon.post("/v1/attend", {"model": name,
                                                            "input": client.tensor(x)})
                        self.assertEqual(answer.status, 200, str(answer))
                        got, _ = client.decode(answer.json["output"])
                        self.near(got, self.wanted(name, x))
            finally:
                self.assertEqual(daemon.stop(), 0, daemon.log_text()[-2000:])

    def test_under_load(self):
        """Many at once, with and without adapters: each answer is what it is alone."""
        bodies = [{"model": name, "input": client.tensor(self.input_of(name, 2, 60)), **fields}
                  for name in self.MODELS if name != "stack" for fields in ({}, {"adapter": "one"})]
        alone = [output_text(self.daemon.post("/v1/attend", body)) for body in bodies]

        def ask(start, wrong):
            for i in (np.arange(2 * len(bodies)) + start) % len(bodies):
                if output_text(self.daemon.post("/v1/attend", bodies[i])) != alone[i]:
                    wrong.append((start, bodies[i]["model"]))

        self.assertEqual(client.at_once(ask, range(0, len(bodies), 3)), [])
