"""Start, stop and what happens to clients meanwhile; and the command line."""

import signal
import socket
import threading
import time
import unittest

import client
import numpy as np
import samples
import work
from exposition import value
from test_ops import POST, scrape, scrape_until

# Long enough for any build to finish what was accepted: a drain that stops waiting must fail.
PATIENT = ("--drain-timeout-s", "120")
DRAIN_TIMEOUT_S = 30  # the default: a daemon with nothing to finish must not wait it out
QUEUED = "attnd_queue_depth"
CANCELLED = "attnd_requests_cancelled_total"


class Asker(threading.Thread):
    """One request in a thread of its own: afterwards `answer`, or `error` when there was none."""

    def __init__(self, daemon, body):
        super().__init__(daemon=True)
        self.target = daemon
        self.body = body
        self.answer = None
        self.error = None
        self.start()

    def run(self):
        try:
            self.answer = self.target.post("/v1/attend", self.body)
        except (OSError, client.http.client.HTTPException) as error:
            self.error = error


def wait_accepted(daemon, count):
    """Until `count` requests are accepted and not yet computed."""
    families = scrape_until(daemon, lambda f: value(f, QUEUED) >= count)
    assert value(families, QUEUED) >= count, "requests never arrived"


class Shutdown(unittest.TestCase):
    def ends_cleanly(self, daemon, number=signal.SIGTERM):
        began = time.monotonic()
        self.assertEqual(daemon.stop(number), 0, daemon.log_text()[-3000:])
        self.assertLess(time.monotonic() - began, DRAIN_TIMEOUT_S, "waited for nothing")

    def test_with_nothing_open(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number):
                self.ends_cleanly(client.Daemon(), number)

    def test_after_work(self):
        daemon = client.Daemon()
        self.assertEqual(daemon.attend([[1]], [[1]], [[1]]).status, 200)
        self.ends_cleanly(daemon)

    def test_with_idle_connections(self):
        daemon = client.Daemon()
        idle = [daemon.connect() for _ in range(50)]
        for connection in idle:
            connection.request("GET", "/healthz")
            self.assertEqual(client.Answer(connection.getresponse()).status, 200)
        self.ends_cleanly(daemon)
        for connection in idle:
            connection.close()

    def test_with_silent_connections(self):
        daemon = client.Daemon()
        silent = [daemon.socket() for _ in range(10)]
        daemon.get("/healthz")
        self.ends_cleanly(daemon)
        for plain in silent:
            plain.close()

    def test_with_half_an_upload(self):
        daemon = client.Daemon("--drain-timeout-s", "1")
        for start in (b"POST /v1/attend HT",
                      POST + b"Content-Length: 1000\r\n\r\n{\"q\":[[1"):
            plain = daemon.socket()
            plain.sendall(start)
            self.addCleanup(plain.close)
        daemon.get("/healthz")  # it has read what came before
        self.ends_cleanly(daemon)

    def test_accepted_work_is_finished(self):
        daemon = client.Daemon(*PATIENT)
        body = work.busy_body(daemon, 500)
        askers = [Asker(daemon, body) for _ in range(6)]
        wait_accepted(daemon, 6)
        daemon.send_signal()
        for asker in askers:
            asker.join()
            self.assertIsNone(asker.error)
            self.assertIn(asker.answer.status, (200, 503), str(asker.answer))
            if asker.answer.status == 503:
                self.assertEqual(asker.answer.json["error"]["type"], "unavailable")
                self.assertTrue(asker.answer.headers["Retry-After"])
        self.assertIn(200, [asker.answer.status for asker in askers])
        self.assertEqual(daemon.wait(), 0, daemon.log_text()[-3000:])
        self.ends_cleanly(daemon)

    def test_work_past_the_drain_timeout_is_cancelled(self):
        daemon = client.Daemon("--drain-timeout-s", "0")
        asker = Asker(daemon, work.busy_body(daemon, 5000))
        wait_accepted(daemon, 1)
        daemon.send_signal()
        asker.join()
        self.assertIsNone(asker.error)
        self.assertEqual(asker.answer.status, 503, str(asker.answer))
        self.ends_cleanly(daemon)

    def test_new_connections_are_refused_while_draining(self):
        daemon = client.Daemon(*PATIENT)
        asker = Asker(daemon, work.busy_body(daemon, 1500))
        wait_accepted(daemon, 1)
        daemon.send_signal()
        refused = 0
        while asker.is_alive() and not refused:
            refused += self.is_refused(daemon)
        asker.join()
        self.assertTrue(refused, "the daemon went on as if nothing had happened")
        self.assertIsNone(asker.error)
        self.assertEqual(asker.answer.status, 200, str(asker.answer))
        self.ends_cleanly(daemon)

    def test_while_it_drains_it_lives_and_says_that_it_is_not_ready(self):
        daemon = client.Daemon("--drain-delay-s", "2", "--drain-timeout-s", "1")
        daemon.send_signal()
        give_up = time.monotonic() + client.WAIT_S
        while daemon.get("/readyz").status == 200:  # until it has seen the signal
            self.assertLess(time.monotonic(), give_up)
        for path in ("/readyz", "/v2/health/ready"):
            answer = daemon.get(path)
            self.assertEqual(answer.status, 503, str(answer))
            self.assertEqual(answer.json, {"live": True, "ready": False})
        self.assertEqual(daemon.get("/healthz").status, 200)
        answer = daemon.attend([[1]], [[1]], [[1]])
        self.assertEqual(answer.status, 503, str(answer))
        self.assertEqual(answer.json["error"]["type"], "unavailable")
        self.assertGreaterEqual(int(answer.headers["Retry-After"]), 1)
        self.ends_cleanly(daemon)

    def is_refused(self, daemon):
        """No connection, or 503 from readiness."""
        try:
            return daemon.get("/readyz").status == 503
        except (OSError, client.http.client.HTTPException):
            return True

    def test_second_signal_ends_at_once(self):
        daemon = client.Daemon(*PATIENT)
        compute_ms = 5000
        asker = Asker(daemon, work.busy_body(daemon, compute_ms))
        wait_accepted(daemon, 1)
        daemon.send_signal()
        while not self.is_refused(daemon):
            time.sleep(0.001)
        daemon.send_signal()
        daemon.stop()
        asker.join()
        self.assertTrue(asker.answer is None or asker.answer.status == 503,
                        f"waited for the work to end: {asker.answer}")
        self.assertNotIn("Sanitizer", daemon.log_text())

    def test_signal_under_load(self):
        daemon = client.Daemon(*PATIENT)
        seen = []
        threads = [threading.Thread(target=self.ask_until_refused, args=(daemon, seen))
                   for _ in range(8)]
        for thread in threads:
            thread.start()
        while len(seen) < 50:
            time.sleep(0.001)
        daemon.send_signal()
        for thread in threads:
            thread.join()
        self.assertLessEqual(set(seen), {200, 503})
        self.ends_cleanly(daemon)

    def ask_until_refused(self, daemon, seen):
        while True:
            try:
                seen.append(daemon.attend([[1]], [[1]], [[1]]).status)
            except (OSError, client.http.client.HTTPException):
                return


class Clients(unittest.TestCase):
    def test_a_client_that_leaves_is_counted_and_forgotten(self):
        daemon = client.Daemon()
        self.addCleanup(daemon.stop)
        body = client.json.dumps(work.busy_body(daemon, 3000)).encode()
        with daemon.socket() as plain:
            plain.sendall(POST + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            wait_accepted(daemon, 1)
        families = scrape_until(daemon, lambda f: value(f, CANCELLED) >= 1)
        self.assertEqual(value(families, CANCELLED), 1)
        self.assertEqual(value(families, "attnd_requests_cancelled_total", stage="send"), 0)
        self.assertEqual(daemon.attend([[1]], [[1]], [[5]]).json["output"], [[5]])
        self.assertEqual(value(scrape(daemon), "attnd_http_requests_total", code="500"), 0)
        self.assertEqual(daemon.stop(), 0, daemon.log_text()[-3000:])

    def test_clients_that_leave_mid_upload_cost_nothing(self):
        daemon = client.shared()
        for size in (0, 1, 60, 200):
            with daemon.socket() as plain:
                plain.sendall((b"POST /v1/attend HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n"
                               b"Content-Type: application/json\r\n\r\n" + b"[" * 300)[:size])
        self.assertEqual(daemon.attend([[1]], [[1]], [[5]]).json["output"], [[5]])

    def test_a_reset_instead_of_a_close(self):
        daemon = client.shared()
        plain = daemon.socket()
        linger = np.array([1, 0], dtype=np.int32).tobytes()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        plain.close()
        self.assertEqual(daemon.get("/healthz").status, 200)

    def test_health_answers_while_a_large_body_is_parsed(self):
        daemon = client.shared()
        rows = 32 * 2**20 // (64 * 11)
        numbers = ",".join(["0.12345678"] * (rows * 64))
        q = '{"shape":[%d,64],"data":[%s]}' % (rows, numbers)
        key = client.json.dumps([[1.0] * 64])
        asker = Asker(daemon, '{"return_output":false,"q":%s,"k":%s,"v":%s}' % (q, key, key))
        answered = 0
        while asker.is_alive():
            self.assertEqual(daemon.get("/healthz").status, 200)
            answered += asker.is_alive()
        self.assertIsNone(asker.error)
        self.assertEqual(asker.answer.status, 200, str(asker.answer))
        self.assertGreater(answered, 0, "no health check was answered during the request")


class CommandLine(unittest.TestCase):
    def test_version(self):
        done = client.run_command("version")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"attnd \d+\.\d+\.\d+")

    def test_help(self):
        done = client.run_command("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for word in ("serve", "version"):
            self.assertIn(word, done.stdout)

    def test_help_of_serve(self):
        done = client.run_command("serve", "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for flag in ("--listen", "--workers", "--isa", "--max-body-bytes", "--drain-timeout-s"):
            self.assertIn(flag, done.stdout)

    def test_unknown_flag_names_the_nearest(self):
        for typed, meant in (("--lisen", "listen"), ("--worker", "workers"),
                             ("--max-body-byte", "max-body-bytes")):
            with self.subTest(typed=typed):
                done = client.run_command("serve", typed, "1")
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertRegex(done.stderr, rf"\b{meant.replace('-', '[-_]')}\b")

    def test_wrong_values(self):
        for flag, wrong in (("--workers", "zero"), ("--workers", "-1"), ("--workers", "100000"),
                            ("--listen", "nonsense"),
                            ("--listen", "127.0.0.1:99999"), ("--isa", "mmx"),
                            ("--max-body-bytes", "1e3"), ("--max-body-bytes", "")):
            with self.subTest(flag=flag, value=wrong):
                done = client.run_command("serve", flag, wrong)
                self.assertIn(done.returncode, (1, 2), done.stderr)
                self.assertIn(flag.lstrip("-").replace("-", "_"), done.stderr.replace("-", "_"))

    def test_flag_without_a_value(self):
        self.assertEqual(client.run_command("serve", "--workers").returncode, 2)

    def test_unknown_command(self):
        done = client.run_command("sevre")
        self.assertEqual(done.returncode, 2)
        self.assertIn("serve", done.stderr)

    def test_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            done = client.run_command("serve", "--listen", f"127.0.0.1:{port}")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(str(port), done.stdout + done.stderr)
        self.assertIn("in use", (done.stdout + done.stderr).lower())

    def test_scalar_code_answers_the_same(self):
        scalar = client.Daemon("--isa", "scalar")
        try:
            q, k, v = (samples.normal(i, 2, 97, 17) for i in range(3))
            for causal in (False, True):
                slow, fast = (np.array(daemon.attend(q, k, v, causal=causal).json["output"])
                              for daemon in (scalar, client.shared()))
                self.assertLessEqual(np.abs(slow - fast).max() / np.abs(v).max(), 1e-6)
        finally:
            self.assertEqual(scalar.stop(), 0)
