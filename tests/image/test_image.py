#!/usr/bin/python3
"""Questions to the image: usage test_image.py SCRATCH ROOT.

SCRATCH holds image.json, what buildah says of the image, and takes the containers' folders; ROOT is
the image's file system. The last line is "image: N passed, N failed".
"""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "http"))
import client  # noqa: E402
import exposition  # noqa: E402
import run  # noqa: E402
import work  # noqa: E402
from container import Container  # noqa: E402

SCRATCH, ROOT, IMAGE = None, None, None
UNKNOWN_USER = (1000650000, 0)  # as OpenShift picks them: in no passwd, group root
BUILD_TOOLS = ("gcc", "cc", "c++", "clang", "ld", "as", "make", "cmake", "git", "pkg-config",
               "python3", "curl", "wget")
GIB = 1 << 30
DRAIN_TIMEOUT_S = 30  # the daemon's default
ONE = {"q": [[1, 0]], "k": [[1, 0], [0, 1]], "v": [[1], [2]]}


def output_of(answer):
    """exp(1/sqrt(2)) to 1 is the odds of the first value, 1, to the second, 2."""
    return answer.json["output"][0][0]


def metrics_of(container):
    return exposition.parse(container.get("/metrics").body.decode())


class Case(unittest.TestCase):
    def start(self, **options):
        container = Container(IMAGE, ROOT, SCRATCH, **options)
        self.addCleanup(container.kill)
        return container

    def serves(self, container):
        answer = container.post("/v1/attend", ONE)
        self.assertEqual(answer.status, 200, str(answer))
        odds = 2.718281828459045 ** 0.5 ** 0.5
        self.assertAlmostEqual(output_of(answer), (odds + 2) / (odds + 1), delta=1e-6)

    def stops(self, container):
        began = time.monotonic()
        self.assertEqual(container.stop(), 0, container.log_text()[-2000:])
        self.assertLess(time.monotonic() - began, DRAIN_TIMEOUT_S, "waited for nothing")


class Contents(unittest.TestCase):
    def test_command(self):
        self.assertEqual(IMAGE["Entrypoint"], ["/usr/local/bin/attnd"])
        self.assertEqual(IMAGE["Cmd"], ["serve"])
        self.assertEqual(IMAGE["StopSignal"], "SIGTERM")
        self.assertEqual(list(IMAGE["ExposedPorts"]), ["8080/tcp"])
        self.assertFalse(IMAGE.get("Volumes"))

    def test_user_is_a_number_and_not_root(self):
        uid, gid = (int(part) for part in IMAGE["User"].split(":"))
        self.assertGreater(min(uid, gid), 0)
        with open(os.path.join(ROOT, "etc/passwd"), encoding="utf-8") as file:
            self.assertNotIn(uid, [int(line.split(":")[2]) for line in file])

    def test_labels(self):
        label = {name.rpartition(".")[2]: text for name, text in IMAGE["Labels"].items()
                 if name.startswith("org.opencontainers.image.")}
        self.assertEqual((label["title"], label["revision"]), ("attnd", "image-check"))
        self.assertRegex(label["version"], r"^\d+\.\d+\.\d+$")

    def test_nothing_to_build_with(self):
        found = [tool for tool in BUILD_TOOLS
                 if shutil.which(tool, path=os.pathsep.join(
                     os.path.join(ROOT, folder) for folder in ("usr/bin", "usr/local/bin", "bin")))]
        self.assertEqual(found, [])
        self.assertFalse(os.path.exists(os.path.join(ROOT, "src")), "the sources are in the image")

    def test_nothing_left_of_the_installation(self):
        self.assertEqual(os.listdir(os.path.join(ROOT, "var/lib/apt/lists")), [])

    def test_nothing_runs_as_its_owner(self):
        added = os.stat(os.path.join(ROOT, "usr/local/bin/attnd"))
        self.assertEqual((added.st_uid, added.st_mode & 0o7777), (0, 0o755))


class Confined(Case):
    def test_first_process(self):
        container = self.start()
        status = container.status()
        uid, gid = IMAGE["User"].split(":")
        self.assertEqual(status["Name"], "attnd")
        self.assertEqual(status["NSpid"].split()[-1], "1")
        self.assertEqual((set(status["Uid"].split()), set(status["Gid"].split())), ({uid}, {gid}))
        for held in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertEqual(int(status[held], 16), 0, held)
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
        self.serves(container)
        self.stops(container)

    def test_no_threads_but_its_own(self):
        container = self.start()
        workers = json.loads(container.log_text().splitlines()[0])["workers"]
        self.assertEqual(int(container.status()["Threads"]), 1 + workers)

    def test_without_any_writable_place(self):
        container = self.start()
        find = container.execute("find", "/", "-path", "/proc", "-prune", "-o", "-type", "d",
                                 "-writable", "-print")
        self.assertEqual(find.stdout, "", find.stderr)
        self.serves(container)
        self.stops(container)

    def test_with_tmp(self):
        container = self.start(tmp=True)
        self.serves(container)
        left = container.execute("find", "/tmp", "-mindepth", "1")
        self.assertEqual((left.returncode, left.stdout), (0, ""), left.stderr)
        self.stops(container)

    def test_any_user_and_no_home(self):
        container = self.start(user=UNKNOWN_USER)
        self.assertEqual(container.status()["Uid"].split()[0], str(UNKNOWN_USER[0]))
        self.assertNotIn("HOME=", " ".join(IMAGE["Env"]))
        self.serves(container)
        self.stops(container)

    def test_large_upload_needs_no_file(self):
        container = self.start()
        rows = 48 * 2**20 // (64 * 11)
        numbers = ",".join(["0.12345678"] * (rows * 64))
        key = json.dumps([[1.0] * 64])
        body = (f'{{"return_output": false, "q": {{"shape": [{rows}, 64], "data": [{numbers}]}},'
                f' "k": {key}, "v": {key}}}')
        answer = container.post("/v1/attend", body)
        self.assertEqual(answer.status, 200, str(answer))
        self.stops(container)

    def test_limits_of_the_container_are_seen(self):
        container = self.start(resources={"memory": {"limit": GIB},
                                          "cpu": {"quota": 50000, "period": 100000}})
        self.assertEqual(exposition.value(metrics_of(container), "attnd_memory_limit_bytes"),
                         GIB * 3 // 4)
        self.assertEqual(json.loads(container.log_text().splitlines()[0])["workers"], 1)
        self.serves(container)


class Operated(Case):
    def test_version_and_revision(self):
        done = self.start().execute("attnd", "version")
        version = IMAGE["Labels"]["org.opencontainers.image.version"]
        self.assertEqual(done.stdout, f"attnd {version} (image-check)\n", done.stderr)

    def test_health_command(self):
        container = self.start()
        kind, *command = IMAGE["Healthcheck"]["Test"]
        self.assertEqual(kind, "CMD", "a health check in shell form")
        done = container.execute(*command)
        self.assertEqual(done.returncode, 0, done.stderr)
        for wrong in ("http://127.0.0.1:9/readyz", "http://127.0.0.1:8080/nowhere"):
            self.assertEqual(container.execute("attnd", "healthcheck", wrong).returncode, 1, wrong)

    def test_metrics(self):
        container = self.start()
        self.serves(container)
        text = container.get("/metrics").body
        families = exposition.parse(text.decode())
        self.assertEqual(exposition.value(families, "attnd_ready"), 1)
        self.assertEqual(exposition.value(families, "attnd_http_requests_total",
                                          route="/v1/attend", code="200"), 1)
        lint = subprocess.run(["promtool", "check", "metrics"], input=text, check=False,
                              capture_output=True)
        self.assertEqual(lint.returncode, 0, lint.stderr.decode())

    def test_log_is_json_on_stdout(self):
        container = self.start()
        self.serves(container)
        self.stops(container)
        lines = [json.loads(line) for line in container.log_text().splitlines()]
        self.assertEqual(lines[0]["msg"], "serving")
        self.assertIn("/v1/attend", [line.get("path") for line in lines])

    def test_sigterm_finishes_what_was_accepted(self):
        container = self.start()
        body = work.busy_body(container, 2000)
        answers = []
        asker = threading.Thread(
            target=lambda: answers.append(container.post("/v1/attend", body)))
        asker.start()
        while exposition.value(metrics_of(container), "attnd_queue_depth") < 1:
            self.assertTrue(asker.is_alive(), f"answered before the signal: {answers}")
        began = time.monotonic()
        container.send_signal()
        self.assertEqual(container.wait(), 0, container.log_text()[-2000:])
        self.assertLess(time.monotonic() - began, DRAIN_TIMEOUT_S)
        asker.join()
        self.assertEqual([answer.status for answer in answers], [200], str(answers))

    def test_interrupt_ends_it_too(self):
        container = self.start()
        container.send_signal("INT")
        self.assertEqual(container.wait(), 0, container.log_text()[-2000:])


def main(scratch, root):
    """Run every case in containers under `scratch` and say how it went."""
    global SCRATCH, ROOT, IMAGE
    SCRATCH, ROOT = scratch, root
    with open(os.path.join(scratch, "image.json"), encoding="utf-8") as file:
        IMAGE = json.load(file)["Docker"]["config"]
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2,
                                     resultclass=run.Result).run(suite)
    failed = len(result.failures) + len(result.errors)
    print(f"image: {result.passed} passed, {failed} failed")
    return 1 if failed or not result.passed else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.splitlines()[0])
    sys.exit(main(*sys.argv[1:]))
