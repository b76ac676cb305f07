#!/usr/bin/python3
"""The deployment files against each other and a running daemon: usage test_deploy.py BINARY.

The last line is "together: N passed, N failed".
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "http"))
import client  # noqa: E402
import exposition  # noqa: E402
import files  # noqa: E402
import run  # noqa: E402

PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
SCRAPE_S = 60  # prometheus needs a second or two to start and scrape


def configuration(environment):
    """What `attnd serve` would run with in that environment alone."""
    done = subprocess.run([client.binary, "serve", "--print-config"], env=environment,
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def configurations():
    return {name: configuration(found) for name, found in files.environments.items()}


class Settings(unittest.TestCase):
    def test_every_key_is_taken(self):
        for platform, environment in files.environments.items():
            read = configuration(environment)
            for name, text in environment.items():
                if name.startswith("ATTND_"):
                    with self.subTest(platform=platform, key=name):
                        self.assertEqual(str(read[name[len("ATTND_"):].lower()]), text)

    def test_service_links_would_stop_it(self):
        """The reason for enableServiceLinks: were it not so, the line could go."""
        name = files.service["metadata"]["name"].upper().replace("-", "_")
        linked = subprocess.run([client.binary, "serve", "--check-config"], check=False,
                                env={f"{name}_SERVICE_HOST": "192.0.2.1"}, capture_output=True)
        if linked.returncode != 0:
            self.assertIs(files.pod["spec"]["enableServiceLinks"], False)

    def test_version(self):
        (version,) = re.findall(r"(?m)^VERSION :?= *(\S+)$", files.text_of("Makefile"))
        self.assertEqual(files.image.arguments["VERSION"], {version})
        self.assertEqual(files.container["image"], f"attnd:{version}")

    def test_the_same_program_everywhere(self):
        (entrypoint,) = files.image.every("ENTRYPOINT")
        (command,) = files.image.every("CMD")
        self.assertEqual(" ".join(json.loads(entrypoint) + json.loads(command)),
                         files.unit.only("ExecStart"))
        self.assertNotIn("command", files.container)
        self.assertNotIn("command", files.composed)


class Ports(unittest.TestCase):
    def setUp(self):
        read = configurations()
        self.data = {name: files.port_of(c["listen"]) for name, c in read.items()}
        self.admin = {name: files.port_of(c["admin_listen"]) for name, c in read.items()
                      if c["admin_listen"]}

    def test_image(self):
        listen = files.port_of(files.image.environment["ATTND_LISTEN"])
        self.assertEqual(files.image.every("EXPOSE"), [str(listen)])
        self.assertEqual(files.port_of(files.image.health_command[-1]), listen)

    def test_compose(self):
        (published,) = files.composed["ports"]
        self.assertRegex(published, r"^127\.0\.0\.1:")
        self.assertEqual(files.port_of(published), self.data["compose"])
        self.assertEqual(files.port_of(files.composed["healthcheck"]["test"][-1]),
                         self.admin["compose"])

    def test_prometheus(self):
        (job,) = files.scraping["scrape_configs"]
        (static,) = job["static_configs"]
        (name,) = [name for name, s in files.compose["services"].items() if "build" in s]
        self.assertEqual(static["targets"], [f"{name}:{self.admin['compose']}"])

    def test_kubernetes(self):
        named = {port["name"]: port["containerPort"] for port in files.container["ports"]}
        self.assertEqual(named, {"http": self.data["kubernetes"],
                                 "admin": self.admin["kubernetes"]})
        for probe in PROBES:
            self.assertEqual(files.container[probe]["httpGet"]["port"], "admin")
        (port,) = files.service["spec"]["ports"]
        self.assertEqual(port["targetPort"], "http")
        annotations = files.pod["metadata"]["annotations"]
        self.assertEqual(annotations["prometheus.io/port"], str(self.admin["kubernetes"]))
        self.assertEqual(annotations["prometheus.io/scrape"], "true")

    def test_labels_select_the_pods(self):
        labels = files.pod["metadata"]["labels"].items()
        self.assertLessEqual(files.deployment["spec"]["selector"]["matchLabels"].items(), labels)
        self.assertLessEqual(files.service["spec"]["selector"].items(), labels)


class Stopping(unittest.TestCase):
    """Each platform waits longer than attnd may take, or it would be killed with work in hand."""

    def setUp(self):
        self.takes = {name: c["drain_delay_s"] + c["drain_timeout_s"]
                      for name, c in configurations().items()}

    def test_compose(self):
        self.assertGreater(files.seconds(files.composed["stop_grace_period"]),
                           self.takes["compose"])

    def test_kubernetes(self):
        command, pause_s = files.container["lifecycle"]["preStop"]["exec"]["command"]
        self.assertEqual(command, "sleep")
        self.assertGreater(files.pod["spec"]["terminationGracePeriodSeconds"],
                           int(pause_s) + self.takes["kubernetes"])

    def test_systemd(self):
        self.assertGreater(int(files.unit.only("TimeoutStopSec")), self.takes["systemd"])
        self.assertEqual(files.unit.only("KillSignal"), "SIGTERM")

    def test_readiness_is_seen_before_the_listener_closes(self):
        read = configuration(files.environments["kubernetes"])
        self.assertGreater(read["drain_delay_s"], 0)


class Confinement(unittest.TestCase):
    def test_image(self):
        (user,) = files.image.every("USER")
        self.assertRegex(user, r"^[1-9]\d*:[1-9]\d*$")

    def test_compose(self):
        self.assertIs(files.composed["read_only"], True)
        self.assertEqual(files.composed["cap_drop"], ["ALL"])
        self.assertEqual(files.composed["security_opt"], ["no-new-privileges:true"])

    def test_kubernetes(self):
        spec = files.pod["spec"]
        self.assertEqual(files.container["securityContext"],
                         {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                          "capabilities": {"drop": ["ALL"]}})
        self.assertIs(spec["securityContext"]["runAsNonRoot"], True)
        self.assertEqual(spec["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
        self.assertIs(spec["automountServiceAccountToken"], False)

    @unittest.skipUnless(shutil.which("strace") and shutil.which("systemd-analyze"),
                         "SKIP: needs strace and systemd-analyze")
    def test_systemd_allows_every_call_it_makes(self):
        with tempfile.TemporaryDirectory() as folder:
            calls = system_calls(os.path.join(folder, "trace"))
        self.assertIn("epoll_wait", calls)
        allowed = allowed_calls(files.unit.every("SystemCallFilter"))
        self.assertEqual(sorted(set(calls) - allowed), [])
        families = {line.split("(")[1].split(",")[0] for line in calls["socket"]}
        allowed_families = files.unit.only("RestrictAddressFamilies").split()
        self.assertLessEqual(families, set(allowed_families))


def system_calls(path):
    """{name: the lines of it}: every call of a daemon from start to end that answered a request."""
    port = client.free_port()
    process = subprocess.Popen(["strace", "-f", "-qq", "-s", "0", "-o", path, client.binary,
                                "serve", "--listen", f"127.0.0.1:{port}"],
                               env=files.unit.environment, stdout=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    give_up = time.monotonic() + client.WAIT_S
    while fetch(f"{address}/readyz") is None and time.monotonic() < give_up:
        time.sleep(0.05)
    x = [[1.0] * 64] * 256
    request = urllib.request.Request(f"{address}/v1/attend",
                                     json.dumps({"q": x, "k": x, "v": x}).encode(),
                                     {"Content-Type": "application/json"})
    assert fetch(request) is not None and fetch(f"{address}/metrics") is not None
    with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as children:
        os.kill(int(children.read()), signal.SIGTERM)
    assert process.wait(client.WAIT_S) == 0
    calls = {}
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            match = re.match(r"\d+ +([a-z_0-9]+)\(", line)
            if match:
                calls.setdefault(match[1], []).append(line)
    return calls


def fetch(request):
    """The body of a 2xx answer, else None."""
    try:
        with urllib.request.urlopen(request, timeout=client.WAIT_S) as answer:
            return answer.read()
    except OSError:
        return None


def allowed_calls(filters):
    """The calls that the SystemCallFilter lines of a unit leave: sets, ~ takes away."""
    allowed = set()
    for line in filters:
        takes_away = line.startswith("~")
        for name in line.lstrip("~").split():
            calls = calls_of(name)
            allowed = allowed - calls if takes_away else allowed | calls
    return allowed


def calls_of(name):
    """The calls of @a-set, those of the sets in it included; a bare name is itself."""
    if not name.startswith("@"):
        return {name}
    said = subprocess.run(["systemd-analyze", "--no-pager", "syscall-filter", name], check=True,
                          capture_output=True, text=True).stdout
    members = [line.strip() for line in said.splitlines()[1:]]
    return set().union(*(calls_of(m) for m in members if m and not m.startswith("#")))


class Running(unittest.TestCase):
    """One daemon as Kubernetes would start it, on free ports."""

    @classmethod
    def setUpClass(cls):
        cls.admin = f"127.0.0.1:{client.free_port()}"
        cls.daemon = client.Daemon("--admin-listen", cls.admin)

    def ask_admin(self, path):
        return fetch(f"http://{self.admin}{path}")

    def test_probes(self):
        for probe in PROBES:
            path = files.container[probe]["httpGet"]["path"]
            with self.subTest(probe=probe, path=path):
                self.assertIsNotNone(self.ask_admin(path))

    def test_health_commands(self):
        commands = {"image": (files.image.health_command, f"127.0.0.1:{self.daemon.port}"),
                    "compose": (files.composed["healthcheck"]["test"][1:], self.admin)}
        for platform, (command, address) in commands.items():
            with self.subTest(platform=platform):
                program, *arguments = command
                self.assertEqual(program, "attnd")
                here = [re.sub(r"127\.0\.0\.1:\d+", address, a) for a in arguments]
                done = client.run_command(*here)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_documented_metrics_exist(self):
        path = files.pod["metadata"]["annotations"]["prometheus.io/path"]
        there = exposition.parse(self.ask_admin(path).decode())
        page = files.text_of("deploy/README.md")
        named = set(re.findall(r"\b(attnd_[a-z_]+|process_[a-z_]+)\b", page))
        self.assertGreater(len(named), 3)
        names = {re.sub("_(bucket|sum|count)$", "", name) if name not in there else name
                 for name in named}
        self.assertLessEqual(names, set(there))

    @unittest.skipUnless(shutil.which("prometheus"), "SKIP: prometheus is not installed")
    def test_prometheus_scrapes(self):
        config = files.text_of("deploy/prometheus.yml")
        config = re.sub(r'\["[^"]+"\]', f'["{self.admin}"]', config)
        config = re.sub(r"scrape_interval: \S+", "scrape_interval: 1s", config)
        web = f"127.0.0.1:{client.free_port()}"
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "prometheus.yml"), "w", encoding="utf-8") as file:
                file.write(config)
            watcher = subprocess.Popen(
                ["prometheus", f"--config.file={folder}/prometheus.yml",
                 f"--storage.tsdb.path={folder}/data", f"--web.listen-address={web}"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                self.assertEqual(self.wait_for(web, 'up{job="attnd"}'), "1")
                self.assertEqual(self.wait_for(web, "attnd_ready"), "1")
            finally:
                watcher.terminate()
                watcher.wait()

    def wait_for(self, web, query):
        """The value of the only series that a query finds, once there is one."""
        url = f"http://{web}/api/v1/query?query={urllib.request.quote(query)}"
        give_up = time.monotonic() + SCRAPE_S
        while time.monotonic() < give_up:
            found = json.loads(fetch(url) or '{"data": {"result": []}}')["data"]["result"]
            if found:
                return found[0]["value"][1]
            time.sleep(0.2)
        return None


def main(path):
    """Run every case on that binary and say how it went."""
    client.binary = os.path.abspath(path)
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    try:
        result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2,
                                         resultclass=run.Result).run(suite)
    finally:
        complaints = client.stop_all()
    for complaint in complaints:
        print(complaint)
    failed = len(result.failures) + len(result.errors) + len(complaints)
    print(f"together: {result.passed} passed, {failed} failed")
    return 1 if failed or not result.passed else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.splitlines()[0])
    sys.exit(main(sys.argv[1]))
