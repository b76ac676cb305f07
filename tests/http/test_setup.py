"""Where a daemon listens, how it is configured, what it logs and where it can start."""

import contextlib
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
from unittest import mock

import client
import work
from exposition import parse
from test_errors import GOOD, head
from test_lifecycle import Asker, wait_accepted
from test_ops import SETTLE_S

SILENT = ("--log-level", "error")


class UnixConnection(http.client.HTTPConnection):
    """http.client over a unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=client.WAIT_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class UnixDaemon(client.Daemon):
    """A daemon on a unix socket: the last --listen counts."""

    def __init__(self, path, *flags):
        self.path = path
        super().__init__("--listen", f"unix:{path}", *flags)

    def connect(self):
        return UnixConnection(self.path)


class SetupCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="attnd-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.socket_path = os.path.join(self.folder, "attnd.sock")

    def started(self, daemon):
        self.addCleanup(self.ends, daemon)
        return daemon

    def ends(self, daemon):
        self.assertEqual(daemon.stop(), 0, daemon.log_text()[-3000:])

    def attends(self, daemon):
        answer = daemon.post("/v1/attend", GOOD)
        self.assertEqual(answer.status, 200, str(answer))

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        return path


class UnixSocket(SetupCase):
    def test_serves_and_removes_its_file(self):
        daemon = UnixDaemon(self.socket_path)
        self.attends(daemon)
        self.assertEqual(daemon.stop(), 0)
        self.assertFalse(os.path.exists(self.socket_path))

    def test_file_of_a_killed_daemon_is_replaced(self):
        for _ in range(3):
            daemon = UnixDaemon(self.socket_path)
            daemon.kill()
            client.started.remove(daemon)
            self.assertTrue(os.path.exists(self.socket_path))
        self.attends(self.started(UnixDaemon(self.socket_path)))

    def test_file_of_a_living_daemon_is_left_alone(self):
        daemon = self.started(UnixDaemon(self.socket_path))
        done = client.run_command("serve", "--listen", f"unix:{self.socket_path}")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("in use", (done.stdout + done.stderr).lower())
        self.attends(daemon)

    def test_a_file_that_is_no_socket_is_left_alone(self):
        path = self.file("precious", "data")
        done = client.run_command("serve", "--listen", f"unix:{path}")
        self.assertEqual(done.returncode, 1, done.stderr)
        with open(path, encoding="ascii") as kept:
            self.assertEqual(kept.read(), "data")

    def test_paths_that_cannot_be(self):
        for path in ("/no/such/folder/attnd.sock", "/" + "x" * 150, self.folder):
            done = client.run_command("serve", "--listen", f"unix:{path}")
            with self.subTest(path=path[:20]):
                self.assertIn(done.returncode, (1, 2), done.stderr)
                self.assertIn("listen", done.stderr)

    def test_a_successor_keeps_its_file(self):
        """The old daemon lets go when it stops listening, and never again."""
        old = UnixDaemon(self.socket_path, "--drain-timeout-s", "120")
        body = work.busy_body(client.shared(), 1500)
        asker = Asker(old, body)
        wait_accepted(old, 1)
        old.send_signal()
        while os.path.exists(self.socket_path):
            self.assertTrue(old.alive())
        successor = self.started(UnixDaemon(self.socket_path))
        asker.join()
        self.assertEqual(asker.answer.status, 200, str(asker.answer))
        self.assertEqual(old.stop(), 0)
        self.assertTrue(os.path.exists(self.socket_path), "the old daemon removed the new one's")
        self.attends(successor)

    def test_as_admin_listener(self):
        daemon = self.started(client.Daemon("--admin-listen", f"unix:{self.socket_path}"))
        with contextlib.closing(UnixConnection(self.socket_path)) as connection:
            connection.request("GET", "/metrics")
            parse(client.Answer(connection.getresponse()).body.decode())
        self.attends(daemon)
        self.assertEqual(daemon.stop(), 0)
        self.assertFalse(os.path.exists(self.socket_path))


class Addresses(SetupCase):
    def test_ipv6(self):
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
                port = probe.getsockname()[1]
        except OSError as error:
            self.skipTest(f"SKIP: no IPv6 here: {error}")

        class Ipv6Daemon(client.Daemon):
            def connect(self):
                return http.client.HTTPConnection("::1", port, timeout=client.WAIT_S)

        daemon = self.started(Ipv6Daemon("--listen", f"[::1]:{port}"))
        self.attends(daemon)
        self.assertEqual(client.run_command("healthcheck", f"http://[::1]:{port}/healthz")
                         .returncode, 0)

    def test_nonsense(self):
        for address in ("8080", ":8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "[::1:8080",
                        "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:80 80", "unix:"):
            for flag in ("--listen", "--admin-listen"):
                done = client.run_command("serve", *SILENT, "--listen", "127.0.0.1:0",
                                          flag, address)
                with self.subTest(address=address, flag=flag):
                    self.assertIn(done.returncode, (1, 2), done.stderr)
                    self.assertIn("listen", done.stderr)


def as_text(value):
    """As flags and environment spell what JSON holds."""
    return json.dumps(value) if isinstance(value, bool) else str(value)


def another(value):
    """A value that the same key allows."""
    if isinstance(value, bool):
        return not value
    return value + 1 if value < 2**19 else value - 1


class Configuration(SetupCase):
    def printed(self, *flags, environment=None):
        with mock.patch.dict(os.environ, environment or {}):
            done = client.run_command("serve", *flags, "--print-config")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def refused(self, *flags, mentions=(), environment=None):
        with mock.patch.dict(os.environ, environment or {}):
            done = client.run_command("serve", *flags, "--check-config")
        self.assertEqual(done.returncode, 2, f"{flags} {done.stdout} {done.stderr}")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for words in mentions:
            self.assertIn(words, done.stderr)

    def test_defaults_are_those_of_the_help(self):
        printed = self.printed()
        self.assertEqual(printed["listen"], "127.0.0.1:8080")
        self.assertEqual(printed["max_body_bytes"], 536870912)
        help_text = client.run_command("serve", "--help").stdout
        told = re.findall(r"^  --([a-z-]+) .*\[(.*)\]$", help_text, re.MULTILINE)
        told = {flag.replace("-", "_"): fallback for flag, fallback in told if flag != "config"}
        self.assertEqual(told, {key: as_text(fallback) for key, fallback in printed.items()})

    def test_flags_before_environment_before_file(self):
        path = self.file("a.json", json.dumps({"max_queue": 11, "max_connections": 12,
                                               "header_timeout_s": 13, "log_format": "text"}))
        environment = {"ATTND_MAX_CONNECTIONS": "22", "ATTND_HEADER_TIMEOUT_S": "23"}
        for order in (("--config", path, "--header-timeout-s", "33"),
                      ("--header-timeout-s=33", f"--config={path}")):
            got = self.printed(*order, environment=environment)
            self.assertEqual((got["max_queue"], got["max_connections"], got["header_timeout_s"],
                              got["log_format"]), (11, 22, 33, "text"))
        got = self.printed(environment={"ATTND_CONFIG": path})
        self.assertEqual(got["max_queue"], 11)

    def test_what_is_printed_can_be_read_again(self):
        wanted = self.printed("--max-queue", "7", "--log-format", "text")
        path = self.file("again.json", json.dumps(wanted))
        self.assertEqual(self.printed("--config", path), wanted)

    def test_check(self):
        done = client.run_command("serve", "--check-config", "--workers", "2")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_every_key_by_flag_environment_and_file(self):
        for key, fallback in self.printed().items():
            changed = {"isa": "scalar", "log_format": "text", "log_level": "warn",
                       "listen": "127.0.0.1:1", "admin_listen": "127.0.0.1:2"}.get(key)
            if changed is None:
                if isinstance(fallback, str):
                    continue
                changed = another(fallback)
            path = self.file("one.json", json.dumps({key: changed}))
            with self.subTest(key=key):
                for got in (self.printed(f"--{key.replace('_', '-')}", as_text(changed)),
                            self.printed(environment={f"ATTND_{key.upper()}": as_text(changed)}),
                            self.printed("--config", path)):
                    self.assertEqual(got[key], changed)

    def test_wrong_values_of_every_number(self):
        for key, fallback in self.printed().items():
            if isinstance(fallback, str):
                continue
            flag = f"--{key.replace('_', '-')}"
            for wrong in ("", "-1", "1.5", "x", "1e3", " 1", "1 ", "0x10", "9" * 30):
                with self.subTest(key=key, wrong=wrong):
                    self.refused(flag, wrong, mentions=(key, "command line"))
            self.refused(environment={f"ATTND_{key.upper()}": "x"}, mentions=(key, "environment"))
            path = self.file("bad.json", json.dumps({key: 1.5}))
            self.refused("--config", path, mentions=(key, "bad.json"))

    def test_words_that_are_not_known(self):
        for flag, wrong in (("--log-format", "xml"), ("--log-level", "loud"), ("--isa", "mmx")):
            with self.subTest(flag=flag):
                done = client.run_command("serve", flag, wrong)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(flag[2:].replace("-", "_"), done.stderr)

    def test_check_refuses_the_log_settings_that_serve_refuses(self):
        self.refused("--log-format", "xml", mentions=("log_format",))
        self.refused("--log-level", "loud", mentions=("log_level",))

    def test_files(self):
        for text, words in (("", ""), ("{", "line 1"), ("[]", "object"),
                            ('{"max_quue": 1}', "max_queue"),
                            ('{"max_queue": 1, "max_queue": 2}', ""),
                            ('{"max_queue": true}', "max_queue"),
                            ('{"max_queue": null}', "max_queue"),
                            ('{"max_queue": "many"}', "max_queue"),
                            ('{"max-queue": 1}', "max_queue"), ('{\n"x\n', "line 2")):
            path = self.file("c.json", text)
            with self.subTest(text=text):
                self.refused("--config", path, mentions=(words,))
        self.refused("--config", self.folder + "/none.json", mentions=("none.json",))
        self.refused("--config", self.folder)
        self.refused("--require-trained", "--check-config", mentions=("--require-trained needs",))

    def test_unknown_environment(self):
        self.refused(environment={"ATTND_MAX_QUUE": "1"}, mentions=("ATTND_MAX_QUEUE",))

    def test_a_daemon_uses_what_it_was_told(self):
        path = self.file("limit.json", '{"max_body_bytes": 100}')
        with mock.patch.dict(os.environ, {"ATTND_LOG_FORMAT": "text"}):
            daemon = self.started(client.Daemon("--config", path))
        self.assertEqual(daemon.post("/v1/attend", " " * 101).status, 413)
        self.assertNotIn('"msg"', daemon.log_text())


class Healthcheck(SetupCase):
    def check(self, url):
        done = client.run_command("healthcheck", url)
        if done.returncode:
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.returncode

    def test_of_a_living_daemon(self):
        base = f"http://127.0.0.1:{client.shared().port}"
        for path, wanted in (("/healthz", 0), ("/readyz", 0), ("/v2/health/ready", 0),
                             ("/metrics", 0),
                             ("/healthz?x=1", 0), ("/nope", 1), ("/", 1), ("", 1),
                             ("/v1/attend", 1)):
            with self.subTest(path=path):
                self.assertEqual(self.check(base + path), wanted)

    def test_over_a_unix_socket(self):
        self.assertEqual(self.check(f"unix:{self.socket_path}:/healthz"), 1)
        self.started(UnixDaemon(self.socket_path))
        self.assertEqual(self.check(f"unix:{self.socket_path}:/healthz"), 0)
        self.assertEqual(self.check(f"unix:{self.socket_path}:/nope"), 1)
        self.assertEqual(self.check(f"unix:{self.socket_path}"), 1)

    def test_nobody_there(self):
        self.assertEqual(self.check(f"http://127.0.0.1:{client.free_port()}/healthz"), 1)

    def test_who_hangs_up(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            url = f"http://127.0.0.1:{server.getsockname()[1]}/healthz"
            process = subprocess.Popen([client.binary, "healthcheck", url], stderr=subprocess.PIPE)
            server.accept()[0].close()
            process.communicate(timeout=client.WAIT_S)
            self.assertEqual(process.returncode, 1)

    def test_bad_urls(self):
        for url in ("", "http://", "https://127.0.0.1/", "127.0.0.1:8080/healthz", "ftp://x/",
                    "http:///healthz", "http://127.0.0.1:x/", "http://127.0.0.1:99999/", "unix:",
                    "unix::/", "unix:/", "http://" + "x" * 5000, "http://127.0.0.1:1/" + "x" * 5000,
                    "unix:" + "/x" * 5000 + ":/"):
            with self.subTest(url=url[:40]):
                self.assertEqual(self.check(url), 1)

    def test_usage(self):
        for arguments in ((), ("a", "b")):
            self.assertEqual(client.run_command("healthcheck", *arguments).returncode, 2)


class Log(SetupCase):
    TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"

    def line_with(self, daemon, words):
        """The one line that holds these words, which may come a moment after the answer."""
        return self.lines_until(daemon, words, 1)[0]

    def lines_until(self, daemon, words, count):
        give_up = time.monotonic() + SETTLE_S
        lines = []
        while len(lines) < count and time.monotonic() < give_up:
            lines = [line for line in daemon.log_text().splitlines() if words in line]
        self.assertEqual(len(lines), count, daemon.log_text()[-2000:])
        return lines

    def test_json(self):
        daemon = client.shared()
        daemon.post("/v1/attend", GOOD, {"X-Request-Id": "log-json-1",
                                         "traceparent": f"00-{self.TRACE}-00f067aa0ba902b7-01"})
        line = json.loads(self.line_with(daemon, "log-json-1"))
        self.assertEqual((line["level"], line["msg"], line["method"], line["path"], line["status"]),
                         ("info", "request", "POST", "/v1/attend", 200))
        self.assertEqual((line["request_id"], line["trace_id"]), ("log-json-1", self.TRACE))
        self.assertEqual((line["backend"], line["rule"], line["n"]), ("exact", "short", 2))
        self.assertRegex(line["ts"], r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")
        self.assertEqual(line["bytes_in"], len(json.dumps(GOOD)))

    def test_a_reader_that_stops_reading_stops_nobody(self):
        """The log's pipe fills up: requests go on, lines are dropped and counted, and it drains."""
        port = client.free_port()
        process = subprocess.Popen([client.binary, "serve", "--listen", f"127.0.0.1:{port}"],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            while b'"serving"' not in process.stdout.readline():
                pass  # from here on nobody reads
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            for _ in range(1000):
                connection.request("GET", "/healthz")
                self.assertEqual(client.Answer(connection.getresponse()).status, 200)
            held = os.read(process.stdout.fileno(), 1 << 20)
            connection.request("GET", "/healthz")
            client.Answer(connection.getresponse())
            connection.close()
            process.terminate()
            rest = process.stdout.read()
            self.assertEqual(process.wait(30), 0)
            self.assertLess(held.count(b"\n"), 1000)
            self.assertIn(b'"lost":', rest)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def test_closed_standard_streams(self):
        """Their numbers must not go to sockets that log lines then land in."""
        port = client.free_port()
        process = subprocess.Popen(
            ["sh", "-c", f"exec {client.binary} serve --listen 127.0.0.1:{port} <&- >&- 2>&-"])
        try:
            give_up = time.monotonic() + SETTLE_S
            status = None
            while status != 200 and time.monotonic() < give_up:
                with contextlib.suppress(OSError):
                    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                    connection.request("GET", "/healthz")
                    status = connection.getresponse().status
                    connection.close()
            self.assertEqual(status, 200)
            process.terminate()
            self.assertEqual(process.wait(30), 0)
        finally:
            process.kill()
            process.wait()

    def test_refusals_say_why(self):
        daemon = client.shared()
        daemon.post("/v1/attend", "{", {"X-Request-Id": "log-refused-1"})
        line = json.loads(self.line_with(daemon, "log-refused-1"))
        self.assertEqual((line["status"], line["error"]), (400, "malformed"))

    def test_traceparents_that_are_not(self):
        daemon = client.shared()
        for i, trace in enumerate(("", "00", f"00-{self.TRACE}",
                                   f"ff-{self.TRACE}-00f067aa0ba902b7-01",
                                   "00-" + "0" * 32 + "-00f067aa0ba902b7-01",
                                   f"00-{self.TRACE.upper()}-00f067aa0ba902b7-01",
                                   f"00-{self.TRACE}-0000000000000000-01",
                                   f"00-{self.TRACE[:-1]}g-00f067aa0ba902b7-01")):
            name = f"log-trace-{i}-"
            daemon.post("/v1/attend", GOOD, {"X-Request-Id": name, "traceparent": trace})
            with self.subTest(trace=trace):
                self.assertNotIn("trace_id", json.loads(self.line_with(daemon, name)))

    def test_text(self):
        daemon = self.started(client.Daemon("--log-format", "text"))
        daemon.post("/v1/attend", GOOD, {"X-Request-Id": "log-text-1",
                                         "traceparent": f"00-{self.TRACE}-00f067aa0ba902b7-01"})
        line = self.line_with(daemon, "log-text-1")
        self.assertRegex(line, r"\A\d{4}-\S+Z info  request ")
        for word in ("request_id=log-text-1", f"trace_id={self.TRACE}", "status=200",
                     "backend=exact"):
            self.assertIn(word, line.split())

    def test_nothing_a_client_sends_makes_a_line_of_its_own(self):
        for log_format in ("json", "text"):
            daemon = self.started(client.Daemon("--log-format", log_format))
            daemon.raw(head("/%0a%0dfake%22%20status=200", "GET"))
            lines = self.lines_until(daemon, "status", 2)  # the other is of a readiness check
            self.assertIn("fake", lines[-1])
            self.assertIn("404", lines[-1])

    def test_level(self):
        daemon = self.started(client.Daemon(*SILENT))
        self.attends(daemon)
        self.assertEqual(daemon.log_text(), "")


class Surroundings(SetupCase):
    def test_decimal_comma(self):
        """A locale with a comma must not reach any number that is read or written."""
        locale = os.path.join(self.folder, "de_DE.UTF-8")
        made = shutil.which("localedef") and subprocess.run(
            ["localedef", "-i", "de_DE", "-f", "UTF-8", locale], capture_output=True, check=False)
        if not made or made.returncode != 0:
            self.skipTest("SKIP: localedef cannot make de_DE.UTF-8 here")
        # glibc's newlocale, which p11-kit calls as it is loaded, leaks what LOCPATH said.
        environment = {"LOCPATH": self.folder, "LC_ALL": "de_DE.UTF-8",
                       "ASAN_OPTIONS": "detect_leaks=0"}
        with mock.patch.dict(os.environ, environment):
            daemon = self.started(client.Daemon())
        answer = daemon.post("/v1/attend", {"q": [[0.5]], "k": [[0.5]], "v": [[0.5]], "scale": 0.5})
        self.assertEqual(answer.json["output"], [[0.5]])
        parse(daemon.get("/metrics").body.decode())
        for line in daemon.log_text().splitlines():
            json.loads(line)
        self.assertNotRegex(answer.headers["Server-Timing"], r"\d,\d")

    def test_without_a_home_or_anything_else(self):
        with mock.patch.dict(os.environ, clear=True):
            daemon = self.started(client.Daemon())
        self.attends(daemon)

    def test_without_a_place_to_write(self):
        """An unknown user in a root that is read-only; a large upload needs no temporary file."""
        if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("setpriv"):
            self.skipTest("SKIP: needs root, unshare and setpriv")
        script = ("mount --make-rprivate / && mount -o remount,bind,ro / && cd / && "
                  'exec setpriv --reuid 54321 --regid 54321 --clear-groups env -i "$@"')
        wrapper = self.file("read-only", f"#!/bin/sh\nexec unshare -m sh -c '{script}' sh "
                            f'{client.binary} "$@"\n')
        os.chmod(wrapper, 0o755)
        probe = subprocess.run([wrapper, "version"], capture_output=True, check=False)
        if probe.returncode != 0:
            self.skipTest(f"SKIP: no read-only root here: {probe.stderr.decode().strip()}")
        with mock.patch.object(client, "binary", wrapper):
            daemon = self.started(client.Daemon())
        self.attends(daemon)
        answer = daemon.post("/v1/attend", json.dumps(GOOD) + " " * 3_000_000)
        self.assertEqual(answer.status, 200, str(answer))
