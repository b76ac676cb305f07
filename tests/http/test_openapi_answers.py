"""GET /openapi.json, what it says of answers, held against answers."""

import checkpoints
import client
import numpy as np
import safetensors
import samples
from checkpoints import Checkpoint
from model_case import ModelCase
from schema import faults
from test_errors import GOOD

HIDDEN = 8
LAYER = checkpoints.attention(1, HIDDEN, 2)
CONFIG = {"model_type": "layer", "hidden_size": HIDDEN, "num_attention_heads": 2, "causal": "any",
          "unknown_to_all": 1, "backends": {"exact": {"trained": True}, "window": {"window": 1},
                                            "linformer": {"trained": True}, "sparse": {},
                                            "performer": {}}}
JSON = "application/json"


class Answers(ModelCase):
    MODELS = {
        "layer": Checkpoint(CONFIG, {**LAYER, **checkpoints.projections(2, 16, 4)},
                            {"lora": checkpoints.lora(3, LAYER, ["q_proj"], 1, 2)}),
        "block": Checkpoint({"model_type": "layer", "hidden_size": HIDDEN},
                            checkpoints.mamba(4, HIDDEN)),
        "broken": Checkpoint({"model_type": "layer", "hidden_size": HIDDEN}, {}),
    }
    FLAGS = ("--model-control", "explicit")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, status in (("layer", 200), ("block", 200), ("broken", 400)):
            answer = cls.server.post(f"/v2/repository/models/{name}/load", {})
            assert answer.status == status, f"{name}: {answer}"

    def setUp(self):
        super().setUp()
        self.document = self.daemon.get("/openapi.json").json

    def holds(self, method, path, answer, value=None, kind=JSON):
        """The answer is one that the document lists, and holds what it says."""
        response = self.document["paths"][path][method]["responses"][str(answer.status)]
        self.assertIn(answer.headers["Content-Type"].split(";")[0], response["content"])
        if value is None:
            value = answer.json
        wrong = faults(self.document, response["content"][kind]["schema"], value)
        self.assertEqual(wrong, [], f"{method} {path}: {str(answer)}")

    def asked(self, path, document, status=200):
        answer = self.daemon.post(path, document)
        self.assertEqual(answer.status, status, str(answer))
        self.holds("post", path, answer)
        return answer.json

    def test_every_get(self):
        for path, item in self.document["paths"].items():
            if "get" not in item:
                continue
            for name in ("layer", "block", "broken", "none") if "{m}" in path else ("",):
                answer = self.daemon.get(path.replace("{m}", name))
                with self.subTest(path=path, name=name):
                    if path == "/metrics":
                        self.holds("get", path, answer, answer.body.decode(), "text/plain")
                    else:
                        self.holds("get", path, answer)

    def test_every_answer_of_a_post_is_described(self):
        for path, item in self.document["paths"].items():
            for status, response in item.get("post", {}).get("responses", {}).items():
                self.assertIn(JSON, response["content"], f"{path} {status}")

    def test_attend(self):
        x = samples.normal(5, 6, HIDDEN)
        model = {"model": "layer", "input": x.tolist()}
        for form in ("nested", "flat", "base64"):
            self.asked("/v1/attend", {**GOOD, "q": client.tensor(GOOD["q"], form)})
        told = self.asked("/v1/attend", {**model, "adapter": "lora", "measure_error": True})
        self.assertEqual(set(told["error_estimate"]), {"relative_l2", "rows_sampled"})
        told = self.asked("/v1/attend", {**model, "model": "block", "measure_error": True})
        self.assertIsNone(told["error_estimate"])
        self.asked("/v1/attend", {**model, "return_output": False})
        self.asked("/v1/attend", {**model, "backend": "performer"})
        zeros = {**GOOD, "v": [[0, 0], [0, 0]], "measure_error": True}
        self.asked("/v1/attend", zeros)

    def test_attend_that_moved_on(self):
        q, k, v = (samples.normal(i, 4200, 4) for i in range(3))
        told = self.asked("/v1/attend", {
            "q": client.tensor(q), "k": client.tensor(k), "v": client.tensor(v),
            "hints": {"max_relative_error": 1e-3}, "return_output": False})
        self.assertEqual(told["route"]["rule"], "error_bound")
        self.assertTrue(told["route"]["tried"])

    def test_attend_in_binary(self):
        tensors = {name: np.array(x, np.float32) for name, x in GOOD.items()}
        for path, options in (("/v1/attend", {"measure_error": True}), ("/v1/plan", {})):
            answer = safetensors.post(self.daemon, tensors, options, safetensors.TYPE, path)
            _, fields = safetensors.answer_of(answer)
            self.holds("post", path, answer, fields)

    def test_plan(self):
        self.asked("/v1/plan", GOOD)
        self.asked("/v1/plan", {"shape": {"n": 5000, "heads": 4, "kv_heads": 2, "d": 32}})
        self.asked("/v1/plan", {"model": "layer", "shape": {"n": 50}})

    def test_analyze(self):
        self.asked("/v1/analyze", GOOD)
        told = self.asked("/v1/analyze", {**GOOD, "features": 2**31 - 1, "windows": [1]})
        self.assertIn("why_not", told["heads"][0]["kernel_estimate"])
        self.asked("/v1/analyze", {**GOOD, "v": [[0, 0], [0, 0]]})

    def test_refusals(self):
        self.asked("/v1/attend", {}, 400)
        self.asked("/v1/attend", {**GOOD, "backend": "mamba"}, 422)
        self.asked("/v1/attend", {"model": "none", "input": [[1]]}, 404)
        self.asked("/v1/plan", {"shape": {"n": 50}, "hints": {"deadline_ms": 1e-9}}, 422)

    def test_models_are_changed(self):
        self.asked("/v2/repository/index", {})
        self.asked("/v2/repository/index", {"ready": True})
        self.asked("/v2/repository/index", {"ready": 1}, 400)
        for name, action, status in (("block", "unload", 200), ("block", "load", 200),
                                     ("broken", "load", 400), ("none", "load", 404)):
            answer = self.daemon.post(f"/v2/repository/models/{name}/{action}", {})
            self.assertEqual(answer.status, status, str(answer))
            self.holds("post", f"/v2/repository/models/{{m}}/{action}", answer)
