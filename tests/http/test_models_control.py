"""Models by name: what is listed, loaded, replaced and unloaded while the daemon serves."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import client
import exposition
import numpy as np
import safetensors

HIDDEN = 8
ROWS = 64
ROWS_OF_PROBE = 4096
PATIENCE = 10
LONG_MS = 1000
CLIENTS = 8
RELOADS = 100
CYCLES = 200
WAIT_S = 60  # how long something may lag behind its cause before a test gives up
NAME_SENTENCE = "A-Za-z0-9._-"


class Models:
    """A model_dir of attention layers whose answers tell them apart: out_proj is a multiple of the
    identity, so a row that sees only itself comes back multiplied."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="attnd-models-")

    def folder(self, name):
        return os.path.join(self.path, name)

    def write(self, name, factor=1.0, weights=None):
        """The model, or one with other bytes for weights, under the name at once."""
        beside = tempfile.mkdtemp(prefix=".new-", dir=self.path)
        eye = np.eye(HIDDEN, dtype=np.float32)
        tensors = {f"{part}_proj.weight": eye for part in "qkv"}
        tensors["out_proj.weight"] = factor * eye
        config = {"model_type": "layer", "hidden_size": HIDDEN, "num_attention_heads": 2,
                  "causal": False, "backends": {"exact": {"trained": True}}}
        with open(os.path.join(beside, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        with open(os.path.join(beside, "model.safetensors"), "wb") as file:
            file.write(safetensors.dump(tensors) if weights is None else weights)
        old = self.folder(name)
        if os.path.isdir(old):
            os.rename(old, os.path.join(self.path, f".old-{os.path.basename(beside)}"))
        os.rename(beside, old)

    def remove(self, name):
        shutil.rmtree(self.folder(name))

    def close(self):
        shutil.rmtree(self.path)


class Control(unittest.TestCase):
    """A daemon of its own for each test, and models to serve."""

    def setUp(self):
        self.models = Models()
        self.addCleanup(self.models.close)
        self.daemon = None

    def start(self, control="explicit", workers=2, flags=()):
        self.daemon = client.Daemon("--model-dir", self.models.path, "--model-control", control,
                                    *flags, workers=workers)
        self.addCleanup(self.stop)
        return self.daemon

    def stop(self):
        if self.daemon:
            self.assertEqual(self.daemon.stop(), 0, self.daemon.log_text()[-2000:])
        self.daemon = None

    def change(self, name, action, document=None):
        return self.daemon.post(f"/v2/repository/models/{name}/{action}",
                                {} if document is None else document)

    def changed(self, name, action):
        answer = self.change(name, action)
        self.assertEqual((answer.status, answer.json), (200, {}), f"{action} {name}: {answer}")

    def states(self, **body):
        answer = self.daemon.post("/v2/repository/index", body)
        self.assertEqual(answer.status, 200, str(answer))
        for model in answer.json:
            self.assertEqual(set(model), {"name", "version", "state", "reason"})
            self.assertEqual(model["version"], "1")
        return {model["name"]: model["state"] for model in answer.json}

    def model(self, name):
        answer = self.daemon.get(f"/v1/models/{name}")
        return answer.json if answer.status == 200 else answer.status

    def gauges(self, name):
        families = exposition.parse(self.daemon.get("/metrics").body.decode())
        return {dict(labels)["model"]: value
                for (_, labels), value in families[name].samples.items()}

    def until(self, condition, what):
        give_up = time.monotonic() + WAIT_S
        while not condition():
            self.assertLess(time.monotonic(), give_up, f"{what}: {self.daemon.log_text()[-2000:]}")
            time.sleep(0.01)

    def rescan(self):
        """SIGHUP, and wait for its end."""
        def ends():
            return self.daemon.log_text().count('"models scanned"')
        before = ends()
        self.daemon.process.send_signal(signal.SIGHUP)
        self.until(lambda: ends() > before, "a rescan ends")


class Start(Control):
    def test_every_model_is_loaded(self):
        for name in ("b", "a", "c-1.0_x"):
            self.models.write(name)
        self.start("none")
        listed = self.daemon.get("/v1/models").json["models"]
        self.assertEqual([model["name"] for model in listed], ["a", "b", "c-1.0_x"])
        for model in listed:
            self.assertEqual((model["state"], model["reason"]), ("READY", ""), model)
            self.assertEqual(model, self.model(model["name"]))

    def test_a_model_is_described(self):
        self.models.write("m")
        self.start("none")
        model = self.model("m")
        self.assertEqual(
            {key: model[key] for key in ("name", "type", "hidden_size", "layers", "heads",
                                         "kv_heads", "head_dim", "causal", "adapters")},
            {"name": "m", "type": "layer", "hidden_size": HIDDEN, "layers": 1, "heads": 2,
             "kv_heads": 2, "head_dim": HIDDEN // 2, "causal": False, "adapters": []})
        exact = {backend["name"]: backend for backend in model["backends"]}["exact"]
        self.assertEqual((exact["trained"], exact["params"], exact["limits"]), (True, {}, {}))
        size = os.path.getsize(os.path.join(self.models.folder("m"), "model.safetensors"))
        self.assertGreaterEqual(sum(model["bytes"].values()), size // 2)
        self.assertIsInstance(model["warnings"], list)

    def test_one_that_fails_does_not_keep_it_from_being_ready(self):
        self.models.write("good")
        self.models.write("bad", weights=b"\xff" * 100)
        os.mkdir(self.models.folder("empty"))
        self.start("none")  # waits for readiness
        states = {m["name"]: m for m in self.daemon.get("/v1/models").json["models"]}
        self.assertEqual({name: m["state"] for name, m in states.items()},
                         {"good": "READY", "bad": "UNAVAILABLE", "empty": "UNAVAILABLE"})
        self.assertIn("bad", states["bad"]["reason"])
        self.assertIn("empty", states["empty"]["reason"])
        self.assertNotIn("type", states["bad"])
        self.assertIn('"model not loaded"', self.daemon.log_text())
        self.assertEqual(self.gauges("attnd_model_loaded"), {"bad": 0, "empty": 0, "good": 1})
        sizes = self.gauges("attnd_model_bytes")
        self.assertEqual((sizes["bad"], sizes["empty"]), (0, 0))
        self.assertGreater(sizes["good"], 0)

    def test_what_is_no_model_is_passed_over(self):
        self.models.write("m")
        for name in ("with space", ".hidden", "a+b"):
            os.mkdir(self.models.folder(name))
        with open(self.models.folder("README"), "w", encoding="utf-8"):
            pass
        os.symlink("m", self.models.folder("link"))
        self.start("none")
        names = [m["name"] for m in self.daemon.get("/v1/models").json["models"]]
        self.assertEqual(names, ["link", "m"])
        self.assertIn("with space", self.daemon.log_text())
        self.assertNotIn("hidden", self.daemon.log_text())

    def refused(self, *flags):
        done = subprocess.run([client.binary, "serve", *flags], capture_output=True, check=False,
                              text=True, timeout=client.WAIT_S)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def test_configurations_that_are_refused(self):
        gone = self.models.folder("gone")
        self.assertIn(gone, self.refused("--listen", "127.0.0.1:0", "--model-dir", gone))
        self.assertIn("sometimes", self.refused("--model-control", "sometimes"))
        self.assertIn("model_dir", self.refused("--model-control", "explicit"))

    def test_control_is_forbidden_unless_explicit(self):
        self.models.write("m")
        self.start("none")
        for path in ("index", "models/m/load", "models/m/unload", "models/x/load"):
            answer = self.daemon.post(f"/v2/repository/{path}", {})
            self.assertEqual(answer.status, 403, str(answer))
            self.assertIn("model_control", answer.json["error"])
        self.assertEqual(self.model("m")["state"], "READY")
        self.assertEqual(self.daemon.get("/v2").json["extensions"], [])


class Explicit(Control):
    def test_server(self):
        self.start()
        server = self.daemon.get("/v2").json
        self.assertEqual((server["name"], server["extensions"]), ("attnd", ["model_repository"]))
        self.assertTrue(server["version"])
        machine = server["machine"]
        self.assertEqual(machine["workers"], 2)
        self.assertGreater(machine["cores"], 0)
        self.assertGreater(machine["memory_limit_bytes"], 0)
        self.assertIs(machine["vector_scan"], machine["isa"] != "scalar")

    def test_load_and_unload(self):
        self.models.write("m")
        self.start()
        self.until(lambda: self.states() == {"m": "UNAVAILABLE"}, "the folder is listed")
        self.assertEqual(self.states(ready=True), {})
        self.changed("m", "load")
        self.assertEqual(self.states(), {"m": "READY"})
        self.assertEqual(self.states(ready=True), {"m": "READY"})
        self.assertEqual(self.gauges("attnd_model_loaded"), {"m": 1})
        self.changed("m", "load")
        self.changed("m", "unload")
        self.changed("m", "unload")
        self.assertEqual(self.daemon.log_text().count('"model unloaded"'), 1)
        answer = self.daemon.post("/v1/attend", {"model": "m", "input": [[1]]})
        self.assertEqual(answer.status, 404, str(answer))
        self.assertIn("/v2/repository/models/m/load", answer.json["error"]["message"])
        self.assertEqual(self.states(), {"m": "UNAVAILABLE"})
        self.assertEqual(self.model("m")["reason"], "unloaded")
        self.assertEqual(self.gauges("attnd_model_loaded"), {"m": 0})
        self.assertEqual(self.gauges("attnd_model_bytes"), {"m": 0})

    def test_bodies(self):
        self.models.write("m")
        self.start()
        for action, document, status in (
                ("load", "", 200), ("load", "{}", 200), ("load", '{"parameters": {}}', 200),
                ("unload", '{"parameters": {"unload_dependents": false}}', 200),
                ("unload", '{"parameters": {}}', 200), ("load", "[]", 400), ("load", "null", 400),
                ("load", "{", 400), ("load", '{"a": 1}', 400), ("load", "\xff", 400),
                ("load", '{"parameters": {"config": "{}"}}', 400),
                ("load", '{"parameters": {}, "parameters": {}}', 400),
                ("unload", '{"parameters": 1}', 400), ("load", '{"parameters": []}', 400),
                ("unload", '{"parameters": {"unload_dependents": true, "x": 1}}', 400),
                ("load", " " * (1 << 17), 413)):
            with self.subTest(action=action, document=document[:40]):
                answer = self.change("m", action, document)
                self.assertEqual(answer.status, status, str(answer))
                self.assertEqual(set(answer.json), {"error"} if status >= 400 else set())
        for document in ('{"ready": 1}', '{"steady": true}', "[true]"):
            self.assertEqual(self.daemon.post("/v2/repository/index", document).status, 400)
        for kind in (safetensors.TYPE, "text/plain"):
            answer = self.daemon.request("POST", "/v2/repository/index", b"{}", {
                "Content-Type": kind})
            self.assertEqual(answer.status, 415, str(answer))
            self.assertTrue(answer.json["error"].endswith("expected application/json"), str(answer))

    def test_names(self):
        self.models.write("m")
        self.start()
        for name in (".m", "a b", "%C3%A4", "a%5Cb", "a" * 129, "%25", "m%00", "m%00x",
                     "a" * 300):
            answer = self.change(name.replace(" ", "%20"), "load")
            self.assertEqual(answer.status, 400 if len(name) < 200 else 404, f"{name}: {answer}")
            if len(name) < 200:
                self.assertIn(NAME_SENTENCE, answer.json["error"])
        self.assertEqual(self.model("m%00"), 404)
        for name in ("none", "a" * 128, "..%2Fm", "m%2F", ""):
            self.assertEqual(self.change(name, "load").status, 404, name)
            self.assertEqual(self.change(name, "unload").status, 404, name)
            self.assertEqual(self.model(name), 404, name)
        self.changed("%6D", "load")
        self.assertEqual(self.model("m")["state"], "READY")
        self.assertEqual(self.daemon.get("/v1/models/m/").status, 404)
        self.assertEqual(list(self.states()), ["m"])

    def test_labels_are_routes(self):
        self.start()
        for name in ("x", "y", "z"):
            self.change(name, "load")
            self.daemon.get(f"/v1/models/{name}")
        text = self.daemon.get("/metrics").body.decode()
        self.assertIn('route="/v2/repository/models/{m}/load"', text)
        self.assertIn('route="/v1/models/{m}"', text)
        self.assertNotIn("models/x", text)

    def test_a_failed_load_changes_nothing(self):
        self.models.write("m")
        self.start()
        self.changed("m", "load")
        before = self.model("m")
        self.models.write("m", weights=b"not weights")
        answer = self.change("m", "load")
        self.assertEqual(answer.status, 400, str(answer))
        self.assertIn("model.safetensors", answer.json["error"])
        after = self.model("m")
        self.assertEqual(after.pop("reason"), answer.json["error"])
        self.assertEqual(before.pop("reason"), "")
        self.assertEqual(after, before)
        self.models.write("m")
        self.changed("m", "load")
        self.assertEqual(self.model("m")["reason"], "")

    def test_cycles_leave_memory_flat(self):
        self.models.write("m")
        self.start()
        sizes = []
        for i in range(CYCLES):
            self.changed("m", "load")
            self.changed("m", "unload")
            if i in (CYCLES // 4, CYCLES - 1):
                families = exposition.parse(self.daemon.get("/metrics").body.decode())
                sizes.append((exposition.value(families, "process_resident_memory_bytes"),
                              exposition.value(families, "process_open_fds")))
        (early, files), (late, files_late) = sizes
        self.assertLess(files_late - files, CYCLES // 4, "descriptors are kept")
        if "asan" not in client.binary and "tsan" not in client.binary:  # these keep what is freed
            self.assertLess(late - early, 1 << 20, "resident bytes grew")


class Hangup(Control):
    def test_folders_are_followed(self):
        for name in ("same", "changed", "gone"):
            self.models.write(name)
        self.models.write("mended", weights=b"")
        self.start("none")
        loads = self.daemon.log_text().count('"model loaded"')
        self.rescan()
        self.assertEqual(self.daemon.log_text().count('"model loaded"'), loads)
        self.models.write("changed", factor=2.0)
        self.models.write("mended")
        self.models.write("new")
        self.models.remove("gone")
        self.rescan()
        self.assertEqual(self.daemon.log_text().count('"model loaded"'), loads + 3)
        states = {m["name"]: m["state"] for m in self.daemon.get("/v1/models").json["models"]}
        self.assertEqual(states, dict.fromkeys(("changed", "mended", "new", "same"), "READY"))
        self.assertEqual(self.model("gone"), 404)
        self.assertEqual(set(self.gauges("attnd_model_bytes")), set(states))

    def test_explicit_loads_nothing_new(self):
        self.models.write("m")
        self.start()
        self.changed("m", "load")
        self.models.write("n")
        self.models.write("m", factor=2.0)
        self.rescan()
        self.assertEqual(self.states(), {"m": "READY", "n": "UNAVAILABLE"})
        self.assertEqual(self.daemon.log_text().count('"model loaded"'), 2)

    def test_without_models_it_does_no_harm(self):
        daemon = client.Daemon()
        try:
            daemon.process.send_signal(signal.SIGHUP)
            self.assertEqual(daemon.get("/readyz").status, 200)
        finally:
            self.assertEqual(daemon.stop(), 0, daemon.log_text()[-2000:])

    def test_a_storm_of_them(self):
        for i in range(5):
            self.models.write(f"m{i}")
        self.start("none")
        for i in range(50):
            self.models.write(f"m{i % 5}", factor=1.0 + i)
            self.daemon.process.send_signal(signal.SIGHUP)
        self.rescan()
        self.rescan()
        states = {m["state"] for m in self.daemon.get("/v1/models").json["models"]}
        self.assertEqual(states, {"READY"})

    def test_one_that_comes_last(self):
        """While the daemon ends, nobody listens to signals any more."""
        for i in range(20):
            self.models.write(f"m{i}")
        for i in range(20):
            daemon = self.start("none")
            daemon.send_signal()
            time.sleep(i * 0.0005)
            daemon.process.send_signal(signal.SIGHUP)
            self.stop()

    def test_term_among_loads(self):
        for i in range(20):
            self.models.write(f"m{i}")
        self.start("none")
        self.daemon.process.send_signal(signal.SIGHUP)
        self.assertEqual(self.daemon.stop(), 0, self.daemon.log_text()[-2000:])
        self.daemon = None


class Together(Control):
    def test_changes_from_many_clients(self):
        for name in ("a", "b"):
            self.models.write(name)
        self.start()
        wrong = []

        def work(seed):
            for i in range(40):
                name, action = "ab"[(seed + i) % 2], ("load", "unload")[(seed * i) % 2]
                answer = self.change(name, action)
                if answer.status != 200:
                    wrong.append(f"{action} {name}: {answer}")
                self.daemon.get("/v1/models")
                self.daemon.get("/metrics")

        run_all(work, CLIENTS)
        self.assertEqual(wrong, [])
        for name in ("a", "b"):
            self.changed(name, "unload")
        self.assertEqual(set(self.states().values()), {"UNAVAILABLE"})

    def ask(self, rows, name="m"):
        return safetensors.post(self.daemon, {"input": rows}, {"model": name, "backend": "exact"},
                                safetensors.TYPE)

    def factor_of(self, answer, base):
        """The one factor that every number of the answer was multiplied with, or what it was."""
        if answer.status != 200:
            return str(answer)
        output, _ = safetensors.answer_of(answer)
        factor = np.float32(np.rint(output[0, 0] / base[0, 0]))
        return float(factor) if np.array_equal(output, base * factor) else "mixed"

    def test_replies_are_wholly_from_old_or_new_weights(self):
        self.models.write("m", factor=1.0)
        self.start("none", workers=2)
        rows = np.random.default_rng(1).standard_normal((ROWS, HIDDEN)).astype(np.float32)
        base, _ = safetensors.answer_of(self.ask(rows))
        stop, seen = threading.Event(), set()

        def work(_):
            while not stop.is_set():
                seen.add(self.factor_of(self.ask(rows), base))

        def reload(_):
            try:
                for i in range(2, RELOADS + 2):
                    self.models.write("m", factor=float(i))
                    self.rescan()
            finally:
                stop.set()

        run_all(lambda i: (work if i else reload)(i), CLIENTS + 1)
        self.assertLessEqual(seen, {float(i) for i in range(1, RELOADS + 2)})
        self.assertGreater(len(seen), 1)
        self.assertEqual(self.factor_of(self.ask(rows), base), RELOADS + 1)
        loads = self.daemon.log_text().count('"model loaded"')
        self.assertEqual(loads, RELOADS + 1)

    def begin_long(self):
        """A request that uses the model for a while, begun; its answers come to the list."""
        answers = []
        rows = np.random.default_rng(2).standard_normal((self.long_rows(), HIDDEN))
        thread = threading.Thread(target=lambda: answers.append(self.ask(rows)))
        thread.start()
        self.until(lambda: self.active() > 0 or answers, "the request begins")
        return thread, answers

    def long_rows(self):
        """So many that they take about a second on this build."""
        probe = self.ask(np.ones((ROWS_OF_PROBE, HIDDEN)))
        _, told = safetensors.answer_of(probe)
        took_ms = max(told["timing"]["compute_ms"], 0.1)
        return int(ROWS_OF_PROBE * (LONG_MS / took_ms) ** 0.5)

    def active(self):
        families = exposition.parse(self.daemon.get("/metrics").body.decode())
        return exposition.value(families, "attnd_queue_depth")

    def test_an_unload_lets_a_request_finish(self):
        self.models.write("m")
        self.start(workers=1)
        self.changed("m", "load")
        for _ in range(PATIENCE):  # a request that has not yet named its model is too late
            thread, answers = self.begin_long()
            self.changed("m", "unload")
            refused = self.ask(np.ones((1, HIDDEN)))
            thread.join()
            if answers[0].status == 200:
                break
            self.changed("m", "load")
        self.assertEqual(answers[0].status, 200, str(answers[0]))
        self.assertEqual(refused.status, 404, str(refused))
        self.assertEqual(self.gauges("attnd_model_bytes"), {"m": 0})

    def end_during_an_unload(self, *flags):
        """SIGTERM while a request runs and an unload waits for it; what both were told."""
        self.models.write("m")
        self.start(workers=1, flags=flags)
        self.changed("m", "load")
        thread, answers = self.begin_long()
        self.changed("m", "load")
        changes = []
        unload = threading.Thread(target=lambda: changes.append(self.change("m", "unload").status))
        unload.start()
        self.until(lambda: self.model("m")["state"] == "UNAVAILABLE", "the unload begins")
        self.daemon.send_signal()
        for other in (thread, unload):
            other.join()
        self.stop()
        return answers[0].status, changes

    def test_term_waits_for_an_unload(self):
        self.assertEqual(self.end_during_an_unload(), (200, [200]))

    def test_term_does_not_wait_for_ever(self):
        status, changes = self.end_during_an_unload("--drain-timeout-s", "0")
        self.assertIn(status, (200, 503))
        self.assertEqual(changes, [200])


def run_all(work, count):
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
