"""One allocation of the daemon fails: the first, the second, and so on through a whole request.

An LD_PRELOAD library counts down in a file that the test maps too (../alloc/fail_alloc.c). The
request whose allocation fails may be refused, or its connection closed; nothing may be held or
broken afterwards.
"""

import contextlib
import http.client
import json
import mmap
import os
import struct
import tempfile
import time
import unittest
from unittest import mock

import checkpoints
import client
import exposition
import numpy as np
import safetensors

PRELOAD = os.path.join(os.path.dirname(os.path.abspath(client.binary or "")), "fail_alloc.so")
MOST = 2000  # allocations of one request, many times what is seen
GOOD = {"q": [[1, 2], [3, 4]], "k": [[1, 0], [0, 1]], "v": [[5, 6], [7, 8]]}
RIGHT = np.array([[6.339523, 7.339523]] * 2)
CONNECTIONS = 60
LARGE = 20000  # numbers of a body that comes in many pieces


class Control:
    """What the library and the test share: countdown, allocations seen, allocations failed."""

    def __init__(self):
        self.file = tempfile.NamedTemporaryFile()
        self.file.write(bytes(24))
        self.file.flush()
        self.memory = mmap.mmap(self.file.fileno(), 24)

    def arm(self, number):
        """Fail the number-th allocation from now; 0: none."""
        self.memory[:8] = struct.pack("=q", number)

    @property
    def failed(self):
        return struct.unpack("=q", self.memory[16:24])[0]

    def close(self):
        self.memory.close()
        self.file.close()


class Base(unittest.TestCase):
    """A daemon under failing allocations, and what must hold after each."""

    @classmethod
    def setUpClass(cls):
        cls.control = Control()
        cls.daemon = start(cls.control)

    @classmethod
    def tearDownClass(cls):
        code, log = cls.daemon.stop(), cls.daemon.log_text()
        cls.control.close()
        assert code == 0, f"ended with {code}: {log[-2000:]}"

    def each_failure(self, ask, check, status=200):
        """Ask again and again, a later allocation failing each time, until none fails."""
        for number in range(1, MOST):
            failed = self.control.failed
            self.control.arm(number)
            answer = answer_of(ask)
            self.control.arm(0)
            with self.subTest(allocation=number):
                if answer is not None and answer.status == status:
                    check(answer)
                elif answer is not None:
                    self.check_refusal(answer)
                self.check_health()
            if self.control.failed == failed:
                self.assertIsNotNone(answer)
                self.assertEqual(answer.status, status, str(answer))
                self.assertGreater(number, 1, "no allocation was seen")
                return
        self.fail(f"more than {MOST} allocations")

    def check_refusal(self, answer):
        """Too little memory is the daemon's trouble and passes; a body says so, if there is one."""
        self.assertIn(answer.status, (429, 503), str(answer))
        if answer.body:
            self.assertIn(answer.json["error"]["type"], ("overloaded", "unavailable"))

    def check_health(self):
        """Nothing is held, and the next request is answered right."""
        self.assertTrue(self.daemon.alive(), self.daemon.log_text()[-2000:])
        self.check_output(self.daemon.post("/v1/attend", GOOD))
        give_up = time.monotonic() + client.WAIT_S
        while held(self.daemon) and time.monotonic() < give_up:
            pass  # a request is over just after its last byte went out
        self.assertEqual(held(self.daemon), 0)

    def check_output(self, answer):
        self.assertEqual(answer.status, 200, str(answer))
        output, _ = client.decode(answer.json["output"])
        np.testing.assert_allclose(output, RIGHT, rtol=1e-6)

    def check_json(self, answer):
        self.assertIsInstance(answer.json, dict)


@unittest.skipUnless(os.path.exists(PRELOAD), "a sanitizer has the allocator to itself")
class Allocation(Base):
    def test_attend(self):
        self.each_failure(lambda: self.daemon.post("/v1/attend", GOOD), self.check_output)

    def test_new_daemon(self):
        """What grows once, like the loop's table of descriptors, grows in a daemon's first request."""
        for number in range(1, MOST):
            with contextlib.ExitStack() as stack, self.subTest(allocation=number):
                control = stack.enter_context(contextlib.closing(Control()))
                daemon = start(control)
                for _ in range(CONNECTIONS):
                    stack.enter_context(daemon.socket())
                control.arm(number)
                answer_of(lambda daemon=daemon: daemon.post("/v1/attend", GOOD))
                control.arm(0)
                failed = control.failed
                self.assertEqual(daemon.stop(), 0, daemon.log_text()[-2000:])
            if not failed:
                return
        self.fail(f"more than {MOST} allocations")

    def test_attend_base64(self):
        body = {name: client.tensor(x, "base64", "FP16") for name, x in GOOD.items()}
        self.each_failure(lambda: self.daemon.post("/v1/attend", body), self.check_output)

    def test_attend_binary(self):
        body = safetensors.dump(GOOD)

        def check(answer):
            output, _ = safetensors.answer_of(answer)
            np.testing.assert_allclose(output, RIGHT, rtol=1e-6)

        self.each_failure(
            lambda: safetensors.post(self.daemon, body, {"scale": 2 ** -0.5, "lengths": 2},
                                     accept=safetensors.TYPE), check)

    def test_plan(self):
        body = {"shape": {"n": 100}, "hints": {"long_range": True}}
        self.each_failure(lambda: self.daemon.post("/v1/plan", body), self.check_json)

    def test_analyze(self):
        """The same body; its answer says how much its rows look at themselves."""
        def check(answer):
            mass = answer.json["heads"][0]["window_mass"]["1"]
            self.assertGreater(len(answer.json["advice"]), 1)
            self.assertAlmostEqual(mass, 1)

        body = {**GOOD, "windows": [1], "features": 2, "params": {"features": 2}}
        self.each_failure(lambda: self.daemon.post("/v1/analyze", body), check)

    def test_operations(self):
        for path in ("/v1/models", "/healthz", "/readyz", "/openapi.json"):
            with self.subTest(path=path):
                self.each_failure(lambda path=path: self.daemon.get(path), self.check_json)

    def test_metrics(self):
        self.each_failure(lambda: self.daemon.get("/metrics"),
                          lambda answer: exposition.parse(answer.body.decode()))

    def test_refused(self):
        for body, status in (('{"q":[[1', 400), ({**GOOD, "colour": 1}, 400),
                             ({"model": "demo", "input": [[1]]}, 404)):
            with self.subTest(body=body):
                self.each_failure(lambda body=body: self.daemon.post("/v1/attend", body),
                                  self.check_json, status)
        self.each_failure(lambda: self.daemon.get("/nothing"), self.check_json, 404)

    def test_refused_before_the_body(self):
        self.each_failure(
            lambda: self.daemon.post("/v1/attend", "x" * LARGE, {"Content-Type": "text/plain"}),
            self.check_json, 415)

    def test_large_body(self):
        values = np.arange(LARGE).reshape(-1, 100).tolist()
        body = {**GOOD, "q": values, "k": values, "v": values, "return_output": False}
        self.each_failure(lambda: self.daemon.post("/v1/attend", body), self.check_json)

    def test_large_body_in_chunks(self):
        text = json.dumps({**GOOD, "key_mask": [1, 1]}) + " " * LARGE
        chunks = [text[i:i + 1000].encode() for i in range(0, len(text), 1000)]
        self.each_failure(
            lambda: self.daemon.request("POST", "/v1/attend", iter(chunks),
                                        {"Content-Type": "application/json"}), self.check_output)


@unittest.skipUnless(os.path.exists(PRELOAD), "a sanitizer has the allocator to itself")
class ModelAllocation(Base):
    """The same daemon with a model, which is loaded, asked and unloaded."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        checkpoints.save(os.path.join(cls.folder.name, "m"), checkpoints.Checkpoint(
            {"model_type": "layer", "hidden_size": 8, "num_attention_heads": 2},
            checkpoints.attention(1, 8, 2)))
        cls.control = Control()
        cls.daemon = start(cls.control, "--model-dir", cls.folder.name, "--model-control",
                           "explicit")

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def check_refusal(self, answer):
        """400 as well: out of memory for a long key, jansson drops a byte of it and goes on, and a
        number that follows clears errno; so a load may find a key or tensor missing."""
        self.assertIn(answer.status, (400, 429, 503), str(answer))
        if answer.body:
            self.assertTrue(answer.json["error"])

    def change(self, action):
        return self.daemon.post(f"/v2/repository/models/m/{action}", {"parameters": {}})

    def test_load_and_unload(self):
        self.each_failure(lambda: self.change("load"), self.check_json)
        self.each_failure(lambda: self.daemon.get("/v1/models/m"), self.check_json)
        self.each_failure(
            lambda: self.daemon.post("/v1/attend", {"model": "m", "input": [[1] * 8]}),
            self.check_json)
        self.each_failure(lambda: self.change("unload"), self.check_json)
        self.each_failure(lambda: self.daemon.post("/v2/repository/index", {"ready": True}),
                          lambda answer: self.assertEqual(answer.json, []))


def start(control, *flags):
    """A daemon whose allocations the control can make fail."""
    with mock.patch.dict(os.environ, LD_PRELOAD=PRELOAD, FAIL_ALLOC=control.file.name):
        return client.Daemon(*flags)


def answer_of(ask):
    """The answer, or None when the connection was closed instead."""
    try:
        return ask()
    except (OSError, http.client.HTTPException):
        return None


def held(daemon):
    """Bytes of the budget that requests hold."""
    families = exposition.parse(daemon.get("/metrics").body.decode())
    return exposition.value(families, "attnd_memory_reserved_bytes")
