"""Questions to a model: every form of tensors and options, and what is refused."""

import itertools
import threading

import client
import model_reference as models
import numpy as np
import safetensors
import samples
from checkpoints import (Checkpoint, attention, hugging_face_config, hugging_face_mamba, mamba,
                         prefixed, projections)
from model_case import ModelCase
from test_errors import WRONG_TYPES, changed
from test_model_attention import BACKENDS, config
from test_model_mamba import both_kinds
from test_model_stacks import MIXED, stack

HIDDEN, HEADS = 24, 4
LAYER = {**attention(1, HIDDEN, HEADS, bias=True), **projections(4, 800, 7)}
ALL = {**BACKENDS, "linformer": {}}  # that an attention layer with projections can have
FORMS = ("nested", "flat", "nested_data", "base64")
INVALID = ["invalid_argument"]


def served():
    """One model of each kind, and one of each way to be causal."""
    return {
        "layer": Checkpoint(config("any", backends=ALL), LAYER),
        "causal": Checkpoint(config(True), LAYER),
        "not-causal": Checkpoint(config(False), LAYER),
        "block": Checkpoint({"model_type": "layer", "backends": {"mamba": {}}},
                            prefixed("mamba.", mamba(2, HIDDEN))),
        "both": both_kinds(3),
        "stack": stack(5, MIXED, causal=True),
        "published": Checkpoint(hugging_face_config(HIDDEN, 2), hugging_face_mamba(9, HIDDEN, 2)),
    }


HIDDEN_OF = {"both": 20, "stack": 16}


class Forms(ModelCase):
    MODELS = served()

    def test_every_form_of_input(self):
        for model, form, shape in itertools.product(("layer", "block", "published"), FORMS,
                                                    ((5, HIDDEN), (2, 5, HIDDEN), (1, 1, HIDDEN))):
            with self.subTest(model=model, form=form, shape=shape):
                x = samples.normal(1, *shape)
                got, _ = self.run_model(model, x, form)
                binary, told = self.run_binary(model, x)
                self.assertEqual(got.astype("<f4").tobytes(), binary.tobytes())
                self.assertEqual(binary.shape, shape)
                self.assertEqual(told["model"], model)

    def test_datatypes(self):
        x = samples.normal(2, 4, HIDDEN)
        for datatype in ("FP16", "BF16", "FP64"):
            with self.subTest(datatype=datatype):
                answer = self.daemon.post("/v1/attend", {
                    "model": "layer", "input": client.tensor(x, "base64", datatype)})
                self.assertEqual(answer.status, 200, str(answer))
                output = answer.json["output"]
                self.assertEqual(output["datatype"], "FP32")
                self.near(client.decode(output)[0], models.attention(LAYER, x[None], HEADS)[0],
                          2e-5 if datatype == "FP64" else 2e-2)

    def test_options_in_the_query(self):
        x = samples.normal(3, 2, 30, HIDDEN)
        fields = {"backend": "window", "causal": True, "lengths": [30, 4]}
        got, _ = self.run_model("layer", x, params={"window": 3}, **fields)
        binary, _ = self.run_binary("layer", x, **{**fields, "params.window": 3})
        self.assertEqual(got.astype("<f4").tobytes(), binary.tobytes())

    def test_without_output(self):
        answer = self.ask("layer", samples.normal(4, 3, HIDDEN), return_output=False)
        self.assertEqual(answer.status, 200, str(answer))
        self.assertNotIn("output", answer.json)

    def test_a_row_does_not_depend_on_its_batch(self):
        """The same bits alone and beside another row, for every model and backend."""
        for model, backend in (*itertools.product(["layer"], ALL), ("block", "mamba"),
                               ("both", "hybrid"), ("stack", "auto"), ("published", "auto")):
            for mask in ({}, {"lengths": [40, 23]}, {"key_mask": [[0] * 9 + [1] * 31, [1] * 40]}):
                with self.subTest(model=model, backend=backend, mask=list(mask)):
                    x = samples.normal(5, 2, 40, HIDDEN_OF.get(model, HIDDEN))
                    both, _ = self.batch(model, x, backend, mask)
                    for row in (0, 1):
                        own = {key: value[row:row + 1] for key, value in mask.items()}
                        one, _ = self.batch(model, x[row:row + 1], backend, own)
                        self.assertEqual(one[0].tobytes(), both[row].tobytes())

    def batch(self, model, x, backend, mask):
        chosen = {} if backend == "auto" else {"backend": backend}
        return self.run_model(model, x, **chosen, **mask)


class Refusals(ModelCase):
    MODELS = {name: model for name, model in served().items() if name in ("layer", "block")}

    def test_wrong_inputs(self):
        for shape, words in (((3, 23), ["23", "24"]), ((2, 3, 25), ["25", "24"]),
                             ((HIDDEN,), []), ((1, 1, 3, HIDDEN), []), ((0, HIDDEN), []),
                             ((0, 3, HIDDEN), []), ((3, 0), [])):
            for model in self.MODELS:
                with self.subTest(model=model, shape=shape):
                    self.refuse(model, np.zeros(shape), 400, INVALID, words, param="input")

    def test_faults_are_told_in_the_same_words_as_those_of_q(self):
        faults = ([[1, 2], [3]], [[1, 2], [3, 4, 5]], [[1, 2], 3], [[1, "2"]], [[1, None]], [], [[]],
                  {"shape": [2, 3], "data": [1] * 5}, {"shape": [2, 3], "data": [1] * 7},
                  {"shape": [-1, 8], "data": [1] * 4}, {"shape": [2**33, 2**33], "data": [1] * 4},
                  {"shape": [2, 2], "base64": "AAAA"}, {"shape": [1]}, "text", 5, None, {"0": 1})
        for fault in faults:
            with self.subTest(fault=fault):
                as_q = self.refused(changed(q=fault))
                as_input = self.refused({"model": "layer", "input": fault})
                self.assertEqual(as_input["message"].replace("input", "q"), as_q["message"])
                self.assertEqual(as_input["param"].replace("input", "q"), as_q["param"])
        self.refused({"model": "layer", "input": [[[[1.0] * HIDDEN]]]}, mentions=["input"])

    def test_wrong_type_of_every_field(self):
        good = {"model": "layer", "input": np.zeros((3, HIDDEN)).tolist()}
        legal = {("causal", "True"), ("return_output", "True"), ("measure_error", "True"),
                 ("scale", "-1")}
        for name in ("model", "input", "adapter", "lengths", "key_mask", "causal", "scale", "params",
                     "backend", "hints", "return_output", "measure_error", "q", "e", "omega"):
            for wrong in WRONG_TYPES:
                if (name, str(wrong)) in legal:
                    continue
                answer = self.daemon.post("/v1/attend", {**good, name: wrong})
                with self.subTest(field=name, wrong=wrong):
                    named = wrong == "text" and name in ("model", "adapter")
                    self.check_error(answer, 404 if named else 400, mentions=[name])

    def test_tensors_that_do_not_belong(self):
        x = np.zeros((3, HIDDEN))
        for name in ("q", "k", "v", "e", "f", "omega"):
            with self.subTest(field=name):
                error = self.refuse("layer", x, 400, INVALID, **{name: x.tolist()})
                self.assertEqual(error["param"], name)
        answer = safetensors.post(self.daemon, {"input": x, "q": x}, {"model": "layer"})
        self.assertEqual(self.check_error(answer, 400, INVALID)["param"], "q")
        answer = self.daemon.post("/v1/attend", {"model": "layer"})
        self.assertEqual(self.check_error(answer, 400, INVALID)["param"], "input")
        self.refused_field("input", input=x.tolist())

    def test_unknown_model(self):
        self.refuse("third", np.zeros((3, HIDDEN)), 404, ["not_found"], ["third"], param="model")

    def test_masks(self):
        x = np.zeros((2, 3, HIDDEN))
        for wrong in ({"lengths": [3]}, {"lengths": [3, 4]}, {"lengths": [3, -1]},
                      {"key_mask": [1, 1]}, {"key_mask": [[1, 1, 1]]},
                      {"key_mask": [1, 1, 1], "lengths": [3, 3]}):
            for model in self.MODELS:
                with self.subTest(model=model, wrong=wrong):
                    self.refuse(model, x, 400, INVALID, **wrong)

    def test_parameters(self):
        x = np.zeros((3, HIDDEN))
        self.refuse("layer", x, 400, INVALID, ["windw"], params={"windw": 3})
        self.refuse("layer", x, 400, INVALID, ["window"], backend="exact", params={"window": 3})
        self.refuse("block", x, 400, INVALID, ["window"], backend="mamba", params={"window": 3})
        self.refuse("layer", x, 400, INVALID, ["window"], backend="window", params={"window": 0})

    def test_numbers_that_are_none(self):
        x = np.zeros((3, HIDDEN)).tolist()
        x[1][5] = None
        answer = self.daemon.post("/v1/attend", {"model": "layer", "input": x})
        self.check_error(answer, 400, mentions=["input[1][5]"])
        huge = np.full((3, HIDDEN), 3e38)
        self.refuse("layer", huge, 422, ["non_finite"], backend="exact")


class Full(ModelCase):
    MODELS = {"layer": Checkpoint(config("any"), LAYER)}
    FLAGS = ("--max-queue", "2")

    def test_ten_at_once_with_room_for_two(self):
        x = client.tensor(samples.normal(6, 6000, HIDDEN))
        body = {"model": "layer", "input": x, "backend": "exact", "return_output": False}
        answers = []
        threads = [threading.Thread(
            target=lambda: answers.append(self.daemon.post("/v1/attend", body)))
                   for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(answers), len(threads))
        self.assertGreaterEqual([answer.status for answer in answers].count(200), 2)
        for answer in answers:
            if answer.status != 200:
                self.check_error(answer, 429, ["overloaded"], ["max_queue"])
                self.assertGreaterEqual(int(answer.headers["Retry-After"]), 1)
        self.assertEqual(self.daemon.get("/healthz").status, 200)
