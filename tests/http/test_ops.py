"""Health, metrics and the manners of HTTP: what operations rely on."""

import collections
import shutil
import subprocess
import time
import unittest

import client
import exposition

GOOD = {"q": [[1, 2]], "k": [[1, 0]], "v": [[5, 6]]}
PROCESS = ("process_cpu_seconds_total", "process_open_fds", "process_max_fds",
           "process_virtual_memory_bytes", "process_resident_memory_bytes",
           "process_start_time_seconds")
POST = (b"POST /v1/attend HTTP/1.1\r\nHost: x\r\n"
        b"Content-Type: application/json\r\n")
REQUESTS = "attnd_http_requests_total"
SETTLE_S = 60  # how long a counter may lag behind what it counts before a test gives up


def scrape(daemon):
    """The metrics, read strictly."""
    answer = daemon.get("/metrics")
    assert answer.status == 200, str(answer)
    return exposition.parse(answer.body.decode())


def scrape_until(daemon, enough):
    """Scrape until `enough(families)`: a request is counted just after its last byte went out."""
    give_up = time.monotonic() + SETTLE_S
    families = scrape(daemon)
    while not enough(families) and time.monotonic() < give_up:
        time.sleep(0.01)
        families = scrape(daemon)
    return families


class Health(unittest.TestCase):
    def test_live_and_ready(self):
        for path in ("/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"):
            with self.subTest(path=path):
                answer = client.shared().get(path)
                self.assertEqual(answer.status, 200, str(answer))
                self.assertIs(answer.json["live"], True)
                if "ready" in path:
                    self.assertIs(answer.json["ready"], True)

    def test_no_models(self):
        self.assertEqual(client.shared().get("/v1/models").json, {"models": []})
        self.assertEqual(client.shared().get("/v1/models/demo").status, 404)

    def test_head_is_get_without_a_body(self):
        for path in ("/healthz", "/readyz", "/metrics", "/v1/models"):
            with self.subTest(path=path):
                got = client.shared().request("HEAD", path)
                self.assertEqual((got.status, got.body), (200, b""))
                self.assertEqual(got.headers["Content-Type"],
                                 client.shared().get(path).headers["Content-Type"])

    def test_a_query_does_not_hide_a_route(self):
        self.assertEqual(client.shared().get("/healthz?verbose=1").status, 200)


class Connections(unittest.TestCase):
    def test_many_requests_on_one_connection(self):
        connection = client.shared().connect()
        connection.connect()
        first = connection.sock
        for i in range(200):
            if i % 3:
                connection.request("GET", "/healthz")
                wanted = 200
            else:
                body = '{"q":[[1]],"k":[[1]],"v":[[%d]]}' % i if i % 2 else "{"
                wanted = 200 if i % 2 else 400
                connection.request("POST", "/v1/attend", body, {"Content-Type": "application/json"})
            answer = client.Answer(connection.getresponse())
            self.assertEqual(answer.status, wanted, f"request {i}: {answer}")
            if not i % 3 and i % 2:
                self.assertEqual(answer.json["output"], [[i]])
            self.assertIs(connection.sock, first, f"closed after request {i}")
        connection.close()

    def test_pipelining_keeps_the_order(self):
        parts = []
        for i in range(20):
            body = b'{"q":[[1]],"k":[[1]],"v":[[%d]]}' % i
            parts.append(POST + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        with client.shared().socket() as plain:
            plain.sendall(b"".join(parts))
            stream = plain.makefile("rb")
            for i in range(20):
                document = read_pipelined(stream)
                self.assertIn(b'"output":[[%d' % i, document.replace(b" ", b""))

    def test_connection_close_is_obeyed(self):
        with client.shared().socket() as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            data = b"".join(iter(lambda: plain.recv(4096), b""))
        self.assertTrue(data.startswith(b"HTTP/1.1 200"))

    def test_a_body_that_trickles_in(self):
        body = b'{"q":[[1.5]],"k":[[1]],"v":[[2.5e0]]}'
        with client.shared().socket() as plain:
            plain.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(body))
            for byte in body:
                plain.sendall(bytes([byte]))
                time.sleep(0.001)
            self.assertEqual(client.read_answer(plain).json["output"], [[2.5]])


def read_pipelined(stream):
    """One answer's body from a buffered stream (http.client would swallow the next answer)."""
    length = 0
    assert stream.readline().startswith(b"HTTP/1.1 200")
    for line in iter(stream.readline, b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return stream.read(length)


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = client.Daemon()

    @classmethod
    def tearDownClass(cls):
        assert cls.daemon.stop() == 0, cls.daemon.log_text()[-2000:]

    def test_format(self):
        fresh = client.Daemon()
        try:
            answer = fresh.get("/metrics")
            exposition.parse(answer.body.decode())
            kind = answer.headers["Content-Type"]
            self.assertTrue(kind.startswith("text/plain; version=0.0.4"), kind)
        finally:
            self.assertEqual(fresh.stop(), 0)

    def test_families(self):
        self.daemon.post("/v1/attend", GOOD)
        families = scrape(self.daemon)
        for name in PROCESS:
            # CPU time is counted in ticks of 10 ms, which a young process may not have used.
            least = -1 if name == "process_cpu_seconds_total" else 0
            self.assertGreater(exposition.value(families, name), least, name)
        self.assertEqual(exposition.value(families, "attnd_build_info"), 1)
        self.assertEqual(exposition.value(families, "attnd_ready"), 1)
        self.assertEqual(exposition.value(families, "attnd_draining"), 0)
        self.assertGreater(exposition.value(families, "attnd_memory_limit_bytes"), 0)
        info = dict(next(iter(families["attnd_build_info"].samples))[1])
        self.assertEqual(set(info), {"version", "revision", "isa", "blas"})

    def test_promtool(self):
        if not shutil.which("promtool"):
            self.skipTest("SKIP: promtool is not installed")
        self.daemon.post("/v1/attend", GOOD)
        text = self.daemon.get("/metrics").body
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, check=False,
                                 capture_output=True)
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, b""))

    def test_scraping_changes_nothing(self):
        self.daemon.post("/v1/attend", GOOD)
        self.daemon.get("/healthz")
        before = scrape_until(self.daemon, self.is_quiet)
        other_client = scrape(self.daemon)
        self.assertEqual(lasting(before), lasting(other_client))

    def is_quiet(self, families):
        """Only the scrape itself is in flight."""
        return exposition.value(families, "attnd_http_requests_in_flight") <= 1

    def test_counters_reconcile_with_what_was_sent(self):
        plan = collections.Counter({
            ("POST", "/v1/attend", 200): 7, ("POST", "/v1/attend", 400): 5,
            ("POST", "/v1/attend", 404): 2, ("POST", "/v1/attend", 415): 3,
            ("POST", "/v1/attend", 422): 4, ("GET", "/v1/attend", 405): 2,
            ("POST", "/v1/plan", 200): 3, ("POST", "/v1/plan", 400): 2,
            ("GET", "/healthz", 200): 6, ("GET", "/v1/models", 200): 2,
            ("HEAD", "/healthz", 200): 2})
        before = scrape_until(self.daemon, self.is_quiet)
        for (method, path, code), count in plan.items():
            for _ in range(count):
                self.assertEqual(self.send(method, path, code).status, code, (method, path))

        def grown(families, name, **labels):
            return (exposition.value(families, name, **labels)
                    - exposition.value(before, name, **labels))

        def all_counted(families):
            seen = grown(families, REQUESTS) - grown(families, REQUESTS, route="/metrics")
            return seen >= sum(plan.values()) and self.is_quiet(families)

        after = scrape_until(self.daemon, all_counted)
        for (method, path, code), count in plan.items():
            got = grown(after, REQUESTS, method=method, route=path, code=str(code))
            self.assertEqual(got, count, (method, path, code))
        sent = sum(count for (_, path, _), count in plan.items() if path == "/v1/attend")
        self.assertEqual(grown(after, REQUESTS, route="/v1/attend"), sent)
        for name in ("attnd_request_compute_seconds_count", "attnd_request_queue_seconds_count",
                     "attnd_request_sequence_length_count",
                     "attnd_request_workspace_bytes_count"):
            self.assertEqual(grown(after, name, backend="exact"), 7, name)
        self.assertEqual(grown(after, "attnd_route_total", backend="exact", rule="short"), 7)
        self.assertEqual(grown(after, "attnd_tokens_total", backend="exact"), 7)
        refused = sum(count for (_, _, code), count in plan.items() if code >= 400)
        rejected = "attnd_requests_rejected_total"
        self.assertEqual(grown(after, rejected, reason="validation"), refused)
        self.assertEqual(grown(after, rejected), refused)
        duration = "attnd_http_request_duration_seconds_count"
        self.assertEqual(grown(after, duration, route="/v1/attend"), sent)

    def send(self, method, path, code):
        """A request that should be answered with `code`."""
        bodies = {200: GOOD, 400: {"q": 1}, 404: {"model": "demo", "input": [[1]]}, 415: GOOD,
                  422: {**GOOD, "backend": "mamba"}}
        if method != "POST":
            return self.daemon.request(method, path)
        kind = {"Content-Type": "text/plain"} if code == 415 else {}
        return self.daemon.post(path, bodies[code], kind)

    def test_unknown_paths_make_no_series_of_their_own(self):
        before = scrape_until(self.daemon, self.is_quiet)
        for i in range(20):
            self.assertEqual(self.daemon.get(f"/no/such/path/{i}").status, 404)

        def not_found(families):
            return exposition.value(families, REQUESTS, code="404", method="GET")

        after = scrape_until(self.daemon, lambda f: not_found(f) >= not_found(before) + 20)
        self.assertEqual(not_found(after), not_found(before) + 20)
        self.assertLessEqual(len(after[REQUESTS].samples), len(before[REQUESTS].samples) + 1)
        self.assertNotIn("such", str(after[REQUESTS].samples.keys()))

    def test_unknown_methods_make_no_series_of_their_own(self):
        for method in ("BREW", "PATCH", "X-Y"):
            self.daemon.request(method, "/healthz")
        samples = scrape(self.daemon)[REQUESTS].samples
        methods = {dict(labels).get("method") for _, labels in samples}
        self.assertNotIn("BREW", methods)
        self.assertNotIn("X-Y", methods)


def lasting(families):
    """Every value that a scrape has no reason to move."""
    kept = {}
    for family in families.values():
        if family.name.startswith("process_") or family.name == "attnd_http_connections":
            continue
        for (name, labels), value in family.samples.items():
            if ("route", "/metrics") not in labels:
                kept[(name, labels)] = value
    return kept


class Reader(unittest.TestCase):
    """The checker itself: it must see what promtool does not."""

    HEAD = "# HELP a_total x\n# TYPE a_total counter\n"
    BUCKETS = "# HELP h x\n# TYPE h histogram\n"

    def test_accepts(self):
        text = (self.HEAD + 'a_total{b="c\\"\\\\\\n"} 1\na_total{b="d"} 2\n' + self.BUCKETS
                + 'h_bucket{le="1"} 1\nh_bucket{le="+Inf"} 2\nh_sum 3\nh_count 2\n')
        families = exposition.parse(text)
        self.assertEqual(exposition.value(families, "a_total"), 3)
        self.assertEqual(exposition.value(families, "a_total", b="d"), 2)

    def test_refuses(self):
        bad = {
            "no newline": self.HEAD + "a_total 1",
            "duplicate": self.HEAD + "a_total 1\na_total 2\n",
            "split": self.HEAD + "a_total 1\n" + self.BUCKETS + "a_total{x=\"y\"} 1\n",
            "twice": self.HEAD + self.HEAD,
            "negative": self.HEAD + "a_total -1\n",
            "nan": self.HEAD + "a_total NaN\n",
            "no type": "# HELP a_total x\na_total 1\n",
            "labels": self.HEAD + 'a_total{b="c"d"} 1\n',
            "no +Inf": self.BUCKETS + 'h_bucket{le="1"} 1\nh_sum 3\nh_count 1\n',
            "falling": (self.BUCKETS + 'h_bucket{le="1"} 3\nh_bucket{le="+Inf"} 2\n'
                        'h_sum 3\nh_count 2\n'),
            "count": self.BUCKETS + 'h_bucket{le="+Inf"} 2\nh_sum 3\nh_count 3\n',
            "no sum": self.BUCKETS + 'h_bucket{le="+Inf"} 2\nh_count 2\n',
        }
        for why, text in bad.items():
            with self.subTest(why), self.assertRaises(ValueError):
                exposition.parse(text)
