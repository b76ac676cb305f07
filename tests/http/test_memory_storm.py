"""A mixed storm of requests in a control group of 512 MiB: some are refused, none kills the daemon.

Needs a control group of its own, which takes root and a writable cgroup file system; the daemon
then finds the limit by itself, as it would in a container."""

import collections
import json
import os
import random
import shutil
import subprocess
import threading
import time
import unittest

import client
import safetensors
import samples
from checkpoints import Checkpoint, mamba, prefixed
from exposition import value
from model_case import ModelCase
from test_bounds import GONE, RESERVED, post_head
from test_errors import GOOD
from test_ops import scrape_until

LIMIT_BYTES = 512 << 20
BUDGET_BYTES = LIMIT_BYTES // 4 * 3
HIERARCHIES = (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"))
STORM_S, THREADS = 10, 12
ALLOWED = {200, 413, 422, 429, 503, 504}
# From inside: join the group, see nothing of the hierarchy but the group, become the daemon.
JOIN = 'echo $$ >"$1/cgroup.procs" && mount --bind "$1" "$2" && shift 2 && exec "$@"'


class Group:
    """A control group with a memory limit; OSError where there can be none."""

    def __init__(self):
        self.root, name = next((pair for pair in HIERARCHIES
                                if os.path.exists(os.path.join(pair[0], "cgroup.procs"))),
                               (None, None))
        if not self.root:
            raise OSError("no cgroup file system is mounted")
        self.path = os.path.join(self.root, f"attnd-storm-{os.getpid()}")
        os.mkdir(self.path)
        try:
            self.write(name, LIMIT_BYTES)
        except OSError:
            self.remove()
            raise

    def write(self, name, number):
        with open(os.path.join(self.path, name), "w", encoding="ascii") as file:
            file.write(str(number))

    def read(self, *names):
        """The first of these files that there is, or None."""
        for name in names:
            try:
                with open(os.path.join(self.path, name), encoding="ascii") as file:
                    return file.read()
            except FileNotFoundError:
                pass
        return None

    def kills(self):
        """Processes that were killed here for want of memory."""
        events = self.read("memory.events", "memory.oom_control").split()
        return int(events[events.index("oom_kill") + 1])

    def peak_bytes(self):
        text = self.read("memory.peak", "memory.max_usage_in_bytes")
        return int(text) if text else None

    def within(self):
        return ["unshare", "--mount", "sh", "-c", JOIN, "sh", self.path, self.root]

    def remove(self):
        os.rmdir(self.path)


def open_group():
    """A group in which a process can be started, or SkipTest with the reason."""
    if os.path.basename(os.path.dirname(client.binary)) not in ("release", "debug"):
        raise unittest.SkipTest("SKIP a sanitizer needs more memory than the group has")
    if not shutil.which("unshare"):
        raise unittest.SkipTest("SKIP there is no unshare to start a process in a cgroup")
    try:
        group = Group()
    except OSError as error:
        raise unittest.SkipTest(f"SKIP no memory cgroup can be made here: {error}") from error
    tried = subprocess.run([*group.within(), "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        group.remove()
        raise unittest.SkipTest(f"SKIP no process can be put into a cgroup: {tried.stderr.strip()}")
    return group


class MemoryStorm(ModelCase):
    MODELS = {"block": Checkpoint({"model_type": "layer", "backends": {"mamba": {}}},
                                  prefixed("mamba.", mamba(2, 64)))}

    @classmethod
    def setUpClass(cls):
        cls.group = open_group()
        cls.addClassCleanup(cls.group.remove)
        super().setUpClass()

    @classmethod
    def start(cls):
        return client.Daemon("--model-dir", cls.folder.name, within=cls.group.within())

    def kinds(self):
        """{name: (body, headers)}: what is large by its body, its workspace, its answer."""
        wide = {name: samples.normal(1, 6, 8192, 64) for name in "qkv"}
        flat = {name: client.tensor(x[:2, :4096].round(2), "flat") for name, x in wide.items()}
        text = {name: client.tensor(x[:3]) for name, x in wide.items()}
        narrow = {name: client.tensor(samples.normal(2, 1, 6000, 8)) for name in "qkv"}

        def dumps(document):
            return json.dumps(document).encode()

        return {
            "good": dumps(GOOD),
            "base64": dumps({**text, "backend": "window"}),
            "flat": dumps({**flat, "backend": "sparse"}),
            "binary": safetensors.dump(wide),
            "mamba": dumps({"model": "block",
                            "input": client.tensor(samples.normal(3, 30000, 64))}),
            "bound": dumps({**narrow, "hints": {"max_relative_error": 1e-9}}),
            "features": dumps({**narrow, "backend": "performer", "params": {"features": 1 << 16}}),
            "late": dumps({**text, "backend": "exact", "hints": {"deadline_ms": 500}}),
            "never": dumps({**narrow, "backend": "performer", "params": {"features": 1 << 20}}),
        }

    def ask_kind(self, name, body):
        if name == "binary":
            return safetensors.post(self.daemon, body, {"backend": "window"}, safetensors.TYPE)
        return self.daemon.post("/v1/attend", body)

    def leave(self, body):
        """Half a request, and gone."""
        with self.daemon.socket() as plain:
            plain.sendall(post_head(len(body)) + body[:len(body) // 2])

    def storm(self, kinds):
        """Counter of (kind, status); a connection that broke counts as status None."""
        seen, lock, end = collections.Counter(), threading.Lock(), time.monotonic() + STORM_S

        def ask(seed):
            rng = random.Random(seed)
            while time.monotonic() < end:
                name = rng.choice([*kinds, "gone", *5 * ["binary"]])
                try:
                    status = (self.leave(kinds["base64"]) if name == "gone"
                              else self.ask_kind(name, kinds[name]).status)
                except GONE:
                    status = None
                with lock:
                    seen[(name, status)] += 1

        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return seen

    def test_nothing_is_killed(self):
        families = scrape_until(self.daemon, lambda f: True)
        self.assertEqual(value(families, "attnd_memory_limit_bytes"), BUDGET_BYTES)
        kinds = self.kinds()
        seen = self.storm(kinds)
        self.assertTrue(self.daemon.alive(), self.daemon.log_text()[-2000:])
        self.assertEqual(self.group.kills(), 0)
        statuses = {status for _, status in seen}
        self.assertLessEqual(statuses, ALLOWED | {None}, seen)
        self.assertIn(200, statuses, seen)
        peak = self.group.peak_bytes() or 0
        print(f"peak {peak >> 20} of {LIMIT_BYTES >> 20} MiB, {seen}")
        self.check_calm(kinds)

    def check_calm(self, kinds):
        """After the storm nothing is held, and each is answered by itself."""
        families = scrape_until(self.daemon, lambda f: value(f, RESERVED) == 0)
        self.assertEqual(value(families, RESERVED), 0)
        for name, body in kinds.items():
            answer = self.ask_kind(name, body)
            wanted = {"never": (413,), "late": (200, 504)}.get(name, (200,))
            self.assertIn(answer.status, wanted, f"{name}: {answer}")
            if name == "never":
                message = answer.json["error"]["message"]
                self.assertIn(str(BUDGET_BYTES), message)
                self.assertIn("memory_limit_bytes", message)
        self.assertEqual(self.group.kills(), 0)
