"""How a checkpoint lies on disk: dtypes, shards, alignment, tensors that nobody reads, links."""

import itertools
import os

import checkpoints
import model_reference as models
import numpy as np
import safetensors
import samples
from checkpoints import Checkpoint, attention, hugging_face_config, hugging_face_mamba, projections
from model_case import ModelCase
from test_model_attention import config

HIDDEN, HEADS, SEQ_LEN = 24, 4, 31
DTYPES = ("F32", "F16", "BF16", "F64")
LAYER = {**attention(1, HIDDEN, HEADS, bias=True), **projections(2, SEQ_LEN, 7)}
STACK = hugging_face_mamba(3, HIDDEN, 2)
# One tensor of each kind in a dtype of its own.
MIXED = {"q_proj.weight": "F16", "k_proj.weight": "BF16", "v_proj.bias": "F64", "E": "F16"}
ADAPTER = checkpoints.lora(4, LAYER, ["q_proj"], 2, 4)
ODD = (1, 2, 3)  # bytes that the data is off from alignment


def layer(**more):
    return Checkpoint(config(causal=False, backends={"exact": {}, "linformer": {}}),
                      {**LAYER, **more}, {"one": ADAPTER})


def stack():
    return Checkpoint(hugging_face_config(HIDDEN, 2), STACK)


def models_of_this_suite():
    """{name: (checkpoint, storage)}: both kinds in every dtype, shards and alignment."""
    made = {}
    for dtype in DTYPES:
        made[f"layer-{dtype}"] = layer(), {"dtypes": dtype, "adapter_dtypes": dtype}
        made[f"stack-{dtype}"] = stack(), {"dtypes": dtype}
        made[f"stack-shards-{dtype}"] = stack(), {"dtypes": dtype, "shards": 3}
        for odd in ODD:
            made[f"layer-{dtype}-off-{odd}"] = layer(), {"dtypes": dtype,
                                                         "header_length": 4096 + odd}
    made["layer-mixed"] = layer(), {"dtypes": MIXED}
    made["layer-shards"] = layer(), {"shards": 4}
    made["layer-more-tensors"] = layer(unknown=np.full(3, np.nan, np.float32)), {}
    return made


class Storage(ModelCase):
    MODELS = models_of_this_suite()

    @classmethod
    def finish_folder(cls):
        """A download cache keeps files elsewhere, under their hashes, and links to them."""
        source = os.path.join(cls.folder.name, "layer-F32")
        blobs = os.path.join(cls.folder.name, ".blobs")
        linked = os.path.join(cls.folder.name, "layer-links")
        os.makedirs(blobs)
        os.makedirs(linked)
        for i, name in enumerate(("config.json", "model.safetensors")):
            with open(os.path.join(source, name), "rb") as file:
                checkpoints.write(blobs, str(i), file.read())
            os.symlink(os.path.join(blobs, str(i)), os.path.join(linked, name))
        os.symlink(source, os.path.join(cls.folder.name, "layer-link"))

    def stored(self, name):
        """The tensors as a reader finds them."""
        checkpoint, storage = self.MODELS.get(name, (layer(), {}))
        dtypes = storage.get("dtypes", "F32")
        return {tensor: checkpoints.as_stored(
            x, dtypes if isinstance(dtypes, str) else dtypes.get(tensor, "F32"))
                for tensor, x in checkpoint.tensors.items()}

    def wanted(self, name, x):
        stack_or_layer = models.mamba_stack if name.startswith("stack") else models.attention
        rest = () if name.startswith("stack") else (HEADS,)
        return stack_or_layer(self.stored(name), x, *rest)

    def test_every_storage(self):
        for name, n in itertools.product([*self.MODELS, "layer-links", "layer-link"], (1, 40)):
            with self.subTest(model=name, n=n):
                x = samples.normal(n, 2, n, HIDDEN)
                self.near(self.run_model(name, x)[0], self.wanted(name, x))

    def test_projections_in_every_dtype(self):
        """Those of Linformer are read another way, across their rows."""
        for name in self.MODELS:
            if not name.startswith("layer"):
                continue
            with self.subTest(model=name):
                x, weights = samples.normal(5, 1, SEQ_LEN, HIDDEN), self.stored(name)
                got, _ = self.run_model(name, x, backend="linformer")
                e, f = models.linformer_projections(weights)
                self.near(got, models.attention(
                    weights, x, HEADS, None,
                    lambda q, k, v, e=e, f=f: models.reference.linformer(q, k, v, e=e, f=f)))

    def test_adapters_on_every_dtype(self):
        for dtype in DTYPES:
            with self.subTest(dtype=dtype):
                name, x = f"layer-{dtype}", samples.normal(6, 1, 9, HIDDEN)
                pairs = {module: [checkpoints.as_stored(factor, dtype) for factor in pair]
                         for module, pair in ADAPTER.pairs.items()}
                tensors = models.adapted(self.stored(name), pairs, 4, 2)
                got, _ = self.run_model(name, x, adapter="one")
                self.near(got, models.attention(tensors, x, HEADS))

    def test_the_same_numbers_give_the_same_bits(self):
        """However float32 weights lie: in one file or in four, aligned or not."""
        x = samples.normal(7, 2, 50, HIDDEN)
        names = ["layer-F32", "layer-shards", "layer-more-tensors", "layer-link",
                 *(f"layer-F32-off-{odd}" for odd in ODD)]
        answers = {name: self.run_model(name, x)[0].tobytes() for name in names}
        self.assertEqual(len(set(answers.values())), 1, names)

    def test_the_writer_means_what_it_says(self):
        """Data off alignment is off in the file too."""
        for odd in ODD:
            path = os.path.join(self.folder.name, f"layer-F32-off-{odd}", "model.safetensors")
            with open(path, "rb") as file:
                body = file.read()
            self.assertEqual((8 + int.from_bytes(body[:8], "little")) % 4, odd)
            tensors, _ = safetensors.load(body)
            self.assertEqual(tensors["E"].tolist(), LAYER["E"].tolist())
