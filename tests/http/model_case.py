"""What suites about loaded models share: a daemon over a folder of checkpoints, and questions."""

import os
import tempfile

import checkpoints
import client
import numpy as np
import safetensors
from test_errors import ErrorCase

NEAR = 2e-5  # of the largest number of the answer: what float32 may cost a layer, with room


def distance(got, wanted):
    """Largest difference, relative to the largest number wanted."""
    return np.abs(got - wanted).max() / np.abs(wanted).max()


class ModelCase(ErrorCase):
    """`MODELS` is {name: Checkpoint, or (Checkpoint, how to save it)}; they are written once a
    suite and served by a daemon of its own."""

    MODELS = {}
    WORKERS = 2
    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        for name, model in cls.MODELS.items():
            checkpoint, storage = model if isinstance(model[0], tuple) else (model, {})
            checkpoints.save(os.path.join(cls.folder.name, name), checkpoint, **storage)
        cls.finish_folder()
        cls.server = cls.start()

    @classmethod
    def start(cls):
        return client.Daemon("--model-dir", cls.folder.name, *cls.FLAGS, workers=cls.WORKERS)

    @classmethod
    def finish_folder(cls):
        """Whatever a suite does to the files before the daemon reads them."""

    @classmethod
    def tearDownClass(cls):
        code, log = cls.server.stop(), cls.server.log_text()
        cls.folder.cleanup()
        assert code == 0, log[-4000:]

    def setUp(self):
        self.daemon = self.server

    def ask(self, model, x, form="base64", **fields):
        """The answer to `input`, whatever it is."""
        return self.daemon.post("/v1/attend", {"model": model, "input": client.tensor(x, form),
                                               **fields})

    def run_model(self, model, x, form="base64", **fields):
        """(output, the whole answer) of a question that must be answered."""
        answer = self.ask(model, x, form, **fields)
        self.assertEqual(answer.status, 200, str(answer))
        told = answer.json
        self.assertEqual(told["model"], model)
        self.assertEqual(told["backend"], fields.get("backend", told["backend"]))
        self.assertLessEqual(told["memory"]["workspace_bytes"], told["memory"]["predicted_bytes"])
        output, came = client.decode(told["output"])
        self.assertEqual(came, "flat" if form == "nested_data" else form)
        self.assertEqual(output.shape, np.shape(x))
        return output, told

    def run_binary(self, model, x, **options):
        """(output, the other fields) of the same question as safetensors."""
        answer = safetensors.post(self.daemon, {"input": x}, {"model": model, **options},
                                  safetensors.TYPE)
        return safetensors.answer_of(answer)

    def near(self, got, wanted, bound=NEAR):
        self.assertEqual(got.shape, wanted.shape)
        self.assertLessEqual(distance(got, wanted), bound)

    def refuse(self, model, x, status, types, mentions=(), param=None, **fields):
        """The question is refused, and says what is wrong with which field."""
        error = self.check_error(self.ask(model, x, **fields), status, types, mentions)
        if param:
            self.assertTrue((error.get("param") or "").startswith(param), error)
        return error

    def warned(self, told, *words):
        """One warning holds all of the words."""
        self.assertTrue(any(all(word in text for word in words) for text in told["warnings"]),
                        f"{words} in {told['warnings']}")

    def unavailable(self, model, mentions):
        """The model did not load, says why in these words, and is not found by those who ask it."""
        answer = self.daemon.get(f"/v1/models/{model}")
        self.assertEqual(answer.status, 200, str(answer))
        told = answer.json
        self.assertEqual(told["state"], "UNAVAILABLE")
        for word in mentions:
            self.assertIn(str(word), told["reason"])
        self.refuse(model, [[0.0]], 404, ["not_found"], [model], param="model")
