"""What a daemon lets clients take: bytes, memory, places in the queue, connections, time."""

import collections
import contextlib
import http.client
import json
import socket
import struct
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import client
import numpy as np
import safetensors
import samples
import work
from exposition import parse, value
from test_errors import GOOD, head
from test_lifecycle import Asker, wait_accepted
from test_ops import SETTLE_S, read_pipelined, scrape, scrape_until

BINARY_GOOD = {name: np.array(x, np.float32) for name, x in GOOD.items()}
JSON = {"Content_Type": "application/json"}
REJECTED = "attnd_requests_rejected_total"
CANCELLED = "attnd_requests_cancelled_total"
RESERVED = "attnd_memory_reserved_bytes"
CONNECTIONS = "attnd_http_connections"
WORKERS = 2
GONE = (OSError, http.client.HTTPException)


class BoundsCase(unittest.TestCase):
    """A daemon of its own for each test, which must end well."""

    def daemon_with(self, *flags, workers=WORKERS):
        daemon = client.Daemon(*flags, workers=workers)
        self.addCleanup(self.ends, daemon)
        return daemon

    def ends(self, daemon):
        self.assertEqual(daemon.stop(), 0, daemon.log_text()[-3000:])

    def still_good(self, daemon):
        for answer in (daemon.post("/v1/attend", GOOD), safetensors.post(daemon, BINARY_GOOD)):
            self.assertEqual(answer.status, 200, str(answer))

    def counts(self, daemon, name, label, wanted):
        """The counter holds exactly these by label, and all else is 0."""
        total = sum(wanted.values())
        families = scrape_until(daemon, lambda f: value(f, name) >= total)
        got = {dict(labels)[label]: number for (_, labels), number
               in families[name].samples.items() if number}
        self.assertEqual(got, {key: number for key, number in wanted.items() if number})

    def all_given_back(self, daemon):
        """Nothing is reserved, in flight or queued once the daemon is at rest."""
        gauges = (RESERVED, "attnd_http_requests_in_flight", "attnd_queue_depth")
        families = scrape_until(daemon, lambda f: not any(value(f, name) for name in gauges))
        for name in gauges:
            self.assertEqual(value(families, name), 0, name)

    def check_refusal(self, answer, status, kind, mentions=()):
        self.assertEqual(answer.status, status, str(answer))
        error = answer.json["error"]
        self.assertEqual(error["type"], kind)
        for words in mentions:
            self.assertIn(str(words), error["message"])
        if status in (429, 503):
            self.assertGreaterEqual(int(answer.headers["Retry-After"]), 1)
        return error

    def until(self, true, why):
        give_up = time.monotonic() + SETTLE_S
        while not true():
            self.assertLess(time.monotonic(), give_up, why)
            time.sleep(0.005)


def post_head(length, kind="application/json", **more):
    return head(Content_Length=length, Content_Type=kind, **more)


def small_buffers(daemon):
    """A connection whose kernel buffers hold little, so that who does not read is noticed."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.settimeout(client.WAIT_S)
    plain.connect(("127.0.0.1", daemon.port))
    return plain


def reset(plain):
    """Close with a reset instead of a handshake."""
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    plain.close()


def ended(plain):
    """Read to the end of a connection that the daemon should close; how many bytes came."""
    total = 0
    try:
        for data in iter(lambda: plain.recv(65536), b""):
            total += len(data)
    except ConnectionError:
        pass
    return total


def gigabytes_of_output(rows=2048):
    """A small call with a large answer: few keys, many queries, wide values (64 MB as float32)."""
    return {"q": samples.normal(1, rows, 1), "k": samples.normal(2, 1, 1),
            "v": samples.normal(3, 1, 8192)}


class BodySize(BoundsCase):
    LIMIT = 100_000

    def setUp(self):
        self.daemon = self.daemon_with("--max-body-bytes", str(self.LIMIT))

    def refused(self, answer, *mentions):
        self.check_refusal(answer, 413, "payload_too_large", ("max_body_bytes", *mentions))

    def test_by_length_before_any_of_it_is_sent(self):
        for kind in ("application/json", safetensors.TYPE):
            for length in (self.LIMIT + 1, 2**31, 3_000_000_000, 2**40):
                answer = self.daemon.raw(post_head(length, kind))
                self.refused(answer, self.LIMIT, length)
        self.counts(self.daemon, REJECTED, "reason", {"too_large": 8})
        self.all_given_back(self.daemon)

    def test_binary_at_the_limit_and_one_over(self):
        tensors = {"q": np.ones((1, 1)), "k": np.ones((1, 1)), "v": np.ones((1, 20_000))}
        plain = len(safetensors.dump(tensors))
        header = int.from_bytes(safetensors.dump(tensors)[:8], "little")
        body = safetensors.dump(tensors, header_length=header + self.LIMIT - plain)
        self.assertEqual(len(body), self.LIMIT)
        self.assertEqual(safetensors.post(self.daemon, body, {"return_output": False}).status, 200)
        self.refused(safetensors.post(self.daemon, body + b" "), self.LIMIT, self.LIMIT + 1)

    def test_a_client_that_sends_all_of_it_reads_the_refusal(self):
        for size in (self.LIMIT + 1, 10 * self.LIMIT, 300 * self.LIMIT):
            for kind in ("application/json", safetensors.TYPE):
                answer = self.daemon.request("POST", "/v1/attend", bytes(size),
                                             {"Content-Type": kind})
                self.refused(answer)
        self.still_good(self.daemon)
        self.all_given_back(self.daemon)

    def test_chunked(self):
        for kind in ("application/json", safetensors.TYPE):
            for count in (2, 30, 300):
                part = b"%x\r\n%s\r\n" % (self.LIMIT // 2 + 1, bytes(self.LIMIT // 2 + 1))
                request = head(Transfer_Encoding="chunked", Content_Type=kind)
                self.refused(self.daemon.raw(request + part * count + b"0\r\n\r\n"))
        self.counts(self.daemon, REJECTED, "reason", {"too_large": 6})
        self.all_given_back(self.daemon)

    def test_expect_continue_is_answered_by_the_refusal_alone(self):
        for kind in ("application/json", safetensors.TYPE):
            with self.daemon.socket() as plain:
                plain.sendall(post_head(2 * self.LIMIT, kind, Expect="100-continue"))
                data = plain.makefile("rb").read()
            self.assertTrue(data.startswith(b"HTTP/1.1 413 "), data[:40])
            self.assertNotIn(b"100 Continue", data)

    def test_discarding_has_an_end(self):
        daemon = self.daemon_with("--max-body-bytes", "1000", "--max-discard-bytes", "100000")
        part = b"%x\r\n%s\r\n" % (50_000, bytes(50_000))
        request = head(Transfer_Encoding="chunked", **JSON)
        self.check_refusal(daemon.raw(request + part + b"0\r\n\r\n"), 413, "payload_too_large")
        with daemon.socket() as plain, self.assertRaises(OSError):
            plain.sendall(request)
            for _ in range(100_000):
                plain.sendall(part)
        self.still_good(daemon)
        self.all_given_back(daemon)

    def test_a_flood_of_small_chunks(self):
        body = json.dumps(GOOD).encode()
        chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body + b" " * (self.LIMIT // 2))
        request = head(Transfer_Encoding="chunked", **JSON)
        with self.daemon.socket() as plain:
            plain.sendall(request + chunks + b"0\r\n\r\n")
            self.assertEqual(client.read_answer(plain).status, 200)
        chunks = b"1\r\n \r\n" * (self.LIMIT + 1)
        self.refused(self.daemon.raw(request + chunks + b"0\r\n\r\n"))

    def test_refusals_do_not_disturb_a_pipeline(self):
        """A refusal known before the body closes; one found in a whole body does not."""
        good = json.dumps(GOOD).encode()
        with self.daemon.socket() as plain:
            for body in (b"{", good, b"[]", good):
                plain.sendall(post_head(len(body)) + body)
            stream = plain.makefile("rb")
            statuses = [read_status(stream) for _ in range(4)]
        self.assertEqual(statuses, [400, 200, 400, 200])


def read_status(stream):
    """The status of the next pipelined answer, whose body is skipped."""
    line = stream.readline()
    length = 0
    for field in iter(stream.readline, b"\r\n"):
        name, _, text = field.partition(b":")
        if name.lower() == b"content-length":
            length = int(text)
    stream.read(length)
    return int(line.split()[1])


class Queue(BoundsCase):
    """Every way to ask is held to the same bound."""

    def forms(self, daemon):
        """Each form of a request, as a function that asks."""
        nested = {name: np.array(x)[None, None].tolist() for name, x in GOOD.items()}
        return {"json": lambda: daemon.post("/v1/attend", GOOD),
                "batch": lambda: daemon.post("/v1/attend", nested),
                "chunked": lambda: self.chunked(daemon),
                "binary": lambda: safetensors.post(daemon, BINARY_GOOD),
                "binary out": lambda: safetensors.post(daemon, BINARY_GOOD, None, safetensors.TYPE),
                "plan": lambda: daemon.post("/v1/plan", GOOD)}

    def chunked(self, daemon):
        body = json.dumps(GOOD).encode()
        return daemon.raw(head(Transfer_Encoding="chunked", **JSON)
                          + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))

    def check_all_refused(self, daemon, key):
        """Every form gets 429 while health and metrics answer."""
        forms = self.forms(daemon)
        for name, ask in forms.items():
            with self.subTest(form=name, key=key):
                self.check_refusal(ask(), 429, "overloaded", (key,))
        self.assertEqual(daemon.get("/healthz").status, 200)
        self.assertEqual(daemon.get("/readyz").status, 200)
        self.counts(daemon, REJECTED, "reason", {"queue_full": len(forms)})
        return forms

    def busy(self, daemon, count, compute_ms=3000):
        """`count` requests that run until they are released."""
        body = json.dumps(work.busy_body(daemon, compute_ms)).encode()
        kept = []
        for _ in range(count):
            plain = daemon.socket()
            self.addCleanup(plain.close)
            plain.sendall(post_head(len(body)) + body)
            kept.append(plain)
        wait_accepted(daemon, count)
        return kept

    def release(self, daemon, kept):
        """The clients leave, and the daemon is free again."""
        for plain in kept:
            plain.close()
        self.all_given_back(daemon)
        families = scrape_until(daemon, lambda f: value(f, CANCELLED) >= len(kept))
        self.assertEqual(value(families, CANCELLED), len(kept))

    def test_by_count(self):
        daemon = self.daemon_with("--max-queue", "2")
        kept = self.busy(daemon, 2)
        forms = self.check_all_refused(daemon, "max_queue")
        self.release(daemon, kept)
        for name, ask in forms.items():
            self.assertEqual(ask().status, 200, name)

    def test_by_predicted_cost(self):
        limit_ms = 100
        daemon = self.daemon_with("--max-queue-cost-ms", str(limit_ms))
        kept = self.busy(daemon, 1, 3000)
        enough_s = 2 * WORKERS * limit_ms / 1000
        self.until(lambda: value(scrape(daemon), "attnd_queue_cost_seconds") > enough_s, "cheap")
        self.check_all_refused(daemon, "max_queue_cost_ms")
        self.release(daemon, kept)
        self.still_good(daemon)

    def test_refused_before_the_body_is_asked_for(self):
        daemon = self.daemon_with("--max-queue", "1")
        kept = self.busy(daemon, 1)
        for kind in ("application/json", safetensors.TYPE):
            with daemon.socket() as plain:
                plain.sendall(post_head(50_000, kind, Expect="100-continue"))
                data = plain.makefile("rb").read()
            self.assertTrue(data.startswith(b"HTTP/1.1 429 "), data[:40])
        large = bytes(5_000_000)
        answer = daemon.request("POST", "/v1/attend", large, {"Content-Type": safetensors.TYPE})
        self.check_refusal(answer, 429, "overloaded")
        self.release(daemon, kept)

    def test_ten_at_once_with_room_for_two(self):
        daemon = self.daemon_with("--max-queue", "2")
        body = work.busy_body(daemon, 200)
        askers = [Asker(daemon, body) for _ in range(10)]
        for asker in askers:
            asker.join()
        statuses = collections.Counter(asker.answer.status for asker in askers)
        self.assertLessEqual(set(statuses), {200, 429})
        self.assertGreaterEqual(statuses[200], 2)
        self.counts(daemon, REJECTED, "reason", {"queue_full": statuses[429]})
        self.all_given_back(daemon)

    def test_a_request_above_the_cost_limit_is_answered_when_nothing_waits(self):
        """The limit is on what is queued before: no request waits for ever."""
        daemon = self.daemon_with("--max-queue-cost-ms", "1")
        answer = daemon.post("/v1/attend", work.busy_body(daemon, 200))
        self.assertEqual(answer.status, 200, str(answer))
        self.counts(daemon, REJECTED, "reason", {})

    def test_overload(self):
        """Far more clients than the queue has places, some of them leaving."""
        daemon = self.daemon_with("--max-queue", "4")
        body = json.dumps(work.busy_body(daemon, 20))
        stop, seen = threading.Event(), []

        def ask(index):
            counts, connection = collections.Counter(), daemon.connect()
            while not stop.is_set():
                binary = (index + sum(counts.values())) % 4 == 0
                kind = safetensors.TYPE if binary else "application/json"
                payload = safetensors.dump(BINARY_GOOD) if binary else body
                try:
                    connection.request("POST", "/v1/attend", payload, {"Content-Type": kind})
                    counts[client.Answer(connection.getresponse()).status] += 1
                except GONE as error:
                    counts[repr(error)] += 1
                    connection.close()
            connection.close()
            seen.append(counts)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(40)]
        for thread in threads:
            thread.start()
        give_up = time.monotonic() + 3
        while time.monotonic() < give_up:
            self.assertEqual(daemon.get("/healthz").status, 200)
        stop.set()
        for thread in threads:
            thread.join()
        total = sum(seen, collections.Counter())
        self.assertEqual(set(total), {200, 429}, total)
        self.counts(daemon, REJECTED, "reason", {"queue_full": total[429]})
        self.assertEqual(value(scrape(daemon), "attnd_http_requests_total", route="/v1/attend",
                               code="429"), total[429])
        self.all_given_back(daemon)
        self.still_good(daemon)


class Memory(BoundsCase):
    def test_limits_that_contradict_each_other_are_told_at_the_start(self):
        flags = ("--memory-limit-bytes", "30000000", "--max-body-bytes")
        for most, told in ((30_000_000, True), (1_000_000, False)):
            daemon = self.daemon_with(*flags, str(most))
            self.still_good(daemon)
            warned = [line for line in daemon.log_text().splitlines() if '"level":"warn"' in line]
            self.assertEqual(len(warned), told, warned)
            for line in warned:
                for word in ("max_body_bytes", "memory_limit_bytes"):
                    self.assertIn(word, line)

    def test_what_can_never_fit(self):
        limit = 30_000_000
        daemon = self.daemon_with("--memory-limit-bytes", str(limit))
        for kind in ("application/json", safetensors.TYPE):
            answer = daemon.raw(post_head(limit, kind))
            self.check_refusal(answer, 413, "payload_too_large", ("memory_limit_bytes", limit))
        answer = safetensors.post(daemon, gigabytes_of_output(), {"return_output": True})
        self.check_refusal(answer, 413, "payload_too_large", ("memory_limit_bytes", limit))
        self.counts(daemon, REJECTED, "reason", {"too_large": 3})
        self.all_given_back(daemon)
        self.still_good(daemon)

    def test_a_chunked_body_that_grows_past_the_limit(self):
        daemon = self.daemon_with("--memory-limit-bytes", "20000000")
        part = b"%x\r\n%s\r\n" % (500_000, bytes(500_000))
        for kind in ("application/json", safetensors.TYPE):
            request = head(Transfer_Encoding="chunked", Content_Type=kind)
            answer = daemon.raw(request + part * 60 + b"0\r\n\r\n")
            self.check_refusal(answer, 413, "payload_too_large", ("memory_limit_bytes",))
        self.counts(daemon, REJECTED, "reason", {"too_large": 2})
        self.all_given_back(daemon)

    def test_what_others_hold(self):
        """Half an upload holds what its length may need; the next must wait."""
        daemon = self.daemon_with("--memory-limit-bytes", "100000000")
        with daemon.socket() as holder:
            holder.sendall(post_head(60_000_000, safetensors.TYPE) + b"x")
            families = scrape_until(daemon, lambda f: value(f, RESERVED) > 60e6)
            self.assertGreaterEqual(value(families, RESERVED), 60e6)
            self.assertLessEqual(value(families, RESERVED), 100e6)
            for kind in ("application/json", safetensors.TYPE):
                answer = daemon.raw(post_head(50_000_000, kind))
                status, key = (413, "payload") if kind != safetensors.TYPE else (429, "overloaded")
                self.assertEqual(answer.status, status, f"{kind}: {answer}")
                self.assertIn("memory_limit_bytes", answer.json["error"]["message"], key)
            with daemon.socket() as plain:
                plain.sendall(post_head(50_000_000, safetensors.TYPE, Expect="100-continue"))
                answer = client.read_answer(plain)
            self.check_refusal(answer, 429, "overloaded", ("memory_limit_bytes",))
            self.still_good(daemon)
        self.all_given_back(daemon)
        self.counts(daemon, REJECTED, "reason", {"memory": 2, "too_large": 1})
        self.counts(daemon, CANCELLED, "stage", {"receive": 1})

    def test_a_call_whose_answer_does_not_fit_beside_others(self):
        """The body fits, the output does not: found once the sizes are known."""
        tensors = gigabytes_of_output(1024)
        daemon = self.daemon_with("--memory-limit-bytes", "60000000")
        body = safetensors.dump(tensors)
        self.assertEqual(safetensors.post(daemon, body, None, safetensors.TYPE).status, 200)
        with daemon.socket() as holder:
            holder.sendall(post_head(30_000_000, safetensors.TYPE) + b"x")
            scrape_until(daemon, lambda f: value(f, RESERVED) > 30e6)
            answer = safetensors.post(daemon, body, None, safetensors.TYPE)
            self.check_refusal(answer, 429, "overloaded", ("memory_limit_bytes",))
        self.counts(daemon, REJECTED, "reason", {"memory": 1})
        self.all_given_back(daemon)
        self.assertEqual(safetensors.post(daemon, body, None, safetensors.TYPE).status, 200)

    def test_everything_is_given_back(self):
        daemon = self.daemon_with()
        body = safetensors.dump(BINARY_GOOD)
        for _ in range(20):
            self.still_good(daemon)
            safetensors.post(daemon, body[:-1])
            daemon.post("/v1/attend", "{")
            daemon.post("/v1/plan", GOOD)
        self.all_given_back(daemon)

    def test_clients_that_leave_mid_upload(self):
        daemon = self.daemon_with()
        sockets = []
        for size, kind in ((0, safetensors.TYPE), (1, safetensors.TYPE),
                           (100_000, safetensors.TYPE),
                           (1, "application/json"), (100_000, "application/json")):
            for close in (reset, socket.socket.close):
                plain = daemon.socket()
                plain.sendall(post_head(1_000_000, kind) + b"[" * size)
                sockets.append((close, plain))
        plain = daemon.socket()
        plain.sendall(head(Transfer_Encoding="chunked", **JSON) + b"ffff\r\n[[")
        sockets.append((reset, plain))
        families = scrape_until(daemon, lambda f: value(f, RESERVED) >= 10e6)
        self.assertGreaterEqual(value(families, RESERVED), 10e6)
        for close, plain in sockets:
            close(plain)
        self.all_given_back(daemon)
        self.counts(daemon, CANCELLED, "stage", {"receive": len(sockets)})

    def test_clients_that_leave_mid_compute(self):
        daemon = self.daemon_with()
        body = json.dumps(work.busy_body(daemon, 2000)).encode()
        sockets = [daemon.socket() for _ in range(6)]
        for plain in sockets:
            plain.sendall(post_head(len(body)) + body)
        wait_accepted(daemon, len(sockets))
        self.assertGreater(value(scrape(daemon), RESERVED), 0)
        for i, plain in enumerate(sockets):
            (reset if i % 2 else socket.socket.close)(plain)
        self.all_given_back(daemon)
        families = scrape_until(daemon, lambda f: value(f, CANCELLED) >= len(sockets))
        self.assertEqual(value(families, CANCELLED), len(sockets))
        self.assertEqual(value(families, CANCELLED, stage="send"), 0)
        self.assertEqual(value(families, CANCELLED, stage="receive"), 0)

    def test_clients_that_leave_mid_send(self):
        daemon = self.daemon_with()
        body = safetensors.dump(gigabytes_of_output())
        sockets = [small_buffers(daemon) for _ in range(4)]
        for plain in sockets:
            plain.sendall(post_head(len(body), safetensors.TYPE, Accept=safetensors.TYPE) + body)
            self.assertTrue(plain.recv(1000).startswith(b"HTTP/1.1 200"))
        self.assertGreater(value(scrape(daemon), RESERVED), 64e6)
        for i, plain in enumerate(sockets):
            (reset if i % 2 else socket.socket.close)(plain)
        self.all_given_back(daemon)
        self.counts(daemon, CANCELLED, "stage", {"send": len(sockets)})

    def test_converted_tensors_are_within_the_limit(self):
        """A float16 body needs three times its own size, which counts before it is used."""
        if is_sanitized(self):
            return
        x = np.zeros((2_000_000, 8), np.float32)
        one = np.zeros((1, 8), np.float32)
        body = safetensors.dump({"q": x, "k": one, "v": one}, "F16")
        limit = len(body) + 20_000_000
        daemon = self.daemon_with("--memory-limit-bytes", str(limit))
        before = resident(daemon)
        answer = safetensors.post(daemon, body, {"return_output": False})
        self.check_refusal(answer, 413, "payload_too_large", ("memory_limit_bytes",))
        grown = resident(daemon, "VmHWM") - before
        self.assertLessEqual(grown, limit + 8 * 2**20, f"{grown} bytes for a limit of {limit}")

    def test_resident_growth_of_a_large_binary_call(self):
        if is_sanitized(self):
            return
        daemon = self.daemon_with()
        self.warm(daemon)
        n, heads, d = 16384, 4, 64
        x = samples.normal(1, heads, n, d)
        body = safetensors.dump({"q": x, "k": x[:, :1024], "v": x[:, :1024]})
        before = resident(daemon)
        answer = safetensors.post(daemon, body, None, safetensors.TYPE)
        self.assertEqual(answer.status, 200, str(answer))
        held = len(body) + len(answer.body)
        grown = resident(daemon, "VmHWM") - before
        self.assertLessEqual(grown, 1.5 * held + 8 * 2**20, f"{grown} bytes for {held}")
        self.all_given_back(daemon)
        kept = resident(daemon) - before
        self.assertLessEqual(kept, 0.1 * before + 8 * 2**20, f"{kept} bytes kept of {grown}")

    def warm(self, daemon):
        """Each worker has its scratch, and OpenBLAS its buffers."""
        x = samples.normal(1, 4, 1024, 64)
        for _ in range(3):
            safetensors.post(daemon, {"q": x, "k": x, "v": x}, {"return_output": False})


def is_sanitized(case):
    """Sanitizers keep what is freed and shadow the rest: says SKIP, and why."""
    with open(client.binary, "rb") as program:
        found = b"__tsan_init" in (data := program.read()) or b"__asan_init" in data
    if found:
        print(f"SKIP {case.id()}: resident memory means nothing under a sanitizer")
    return found


def resident(daemon, which="VmRSS"):
    """Bytes that the daemon has, or had at most (VmHWM), in memory."""
    with open(f"/proc/{daemon.pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(which + ":"):
                return int(line.split()[1]) * 1024
    raise ValueError(which)


class Timers(BoundsCase):
    """Clients that take their time are cut off; those that wait for their answer are not."""

    def drip(self, plain, data, pause_s=0.05):
        """Send byte after byte until the daemon hangs up; how many went out."""
        plain.settimeout(pause_s)
        for sent, byte in enumerate(data):
            try:
                plain.sendall(bytes([byte]))
                if plain.recv(1000) == b"":
                    return sent
            except TimeoutError:
                continue
            except ConnectionError:
                return sent
        return len(data)

    def cut_off(self, daemon, *clients):
        """Each client (what it sends at once, what it drips) is hung up on, all in parallel."""
        with ThreadPoolExecutor() as pool:
            for dripped, (_, drops) in zip(pool.map(lambda c: self.dripped(daemon, *c), clients),
                                           clients):
                self.assertLess(dripped, len(drops), "sent all of it")

    def dripped(self, daemon, at_once, drops):
        with daemon.socket() as plain:
            plain.sendall(at_once)
            return self.drip(plain, drops)

    def test_headers(self):
        """One that drips, and one that never comes."""
        daemon = self.daemon_with("--header-timeout-s", "1")
        with daemon.socket() as silent:
            self.cut_off(daemon, (b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 2000))
            self.assertEqual(ended(silent), 0)
        self.still_good(daemon)
        self.counts(daemon, CANCELLED, "stage", {})

    def test_bodies_that_drip(self):
        daemon = self.daemon_with("--body-timeout-s", "1")
        chunked = head(Transfer_Encoding="chunked", **JSON)
        self.cut_off(daemon, (post_head(2000), b" " * 1999),
                     (post_head(2000, safetensors.TYPE), b" " * 1999),
                     (chunked, b"1\r\n \r\n" * 400))
        self.counts(daemon, CANCELLED, "stage", {"receive": 3})
        self.all_given_back(daemon)
        self.still_good(daemon)

    def test_connections_that_rest(self):
        daemon = self.daemon_with("--idle-timeout-s", "1")
        request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
        with daemon.socket() as twice, daemon.socket() as halfway:
            for plain, sent in ((twice, request), (twice, request),
                                (halfway, request + b"GET /he")):
                plain.sendall(sent)
                self.assertEqual(client.read_answer(plain).status, 200)
            self.assertEqual((ended(twice), ended(halfway)), (0, 0))

    def test_answer_that_nobody_reads(self):
        daemon = self.daemon_with("--body-timeout-s", "1")
        body = safetensors.dump(gigabytes_of_output())
        with small_buffers(daemon) as plain:
            plain.sendall(post_head(len(body), safetensors.TYPE, Accept=safetensors.TYPE) + body)
            self.counts(daemon, CANCELLED, "stage", {"send": 1})
            self.assertLess(ended(plain), 64e6)
        self.all_given_back(daemon)

    def test_answer_that_is_read_slowly(self):
        """A byte now and then does not buy more time."""
        daemon = self.daemon_with("--body-timeout-s", "1")
        body = safetensors.dump(gigabytes_of_output())
        with small_buffers(daemon) as plain:
            plain.sendall(post_head(len(body), safetensors.TYPE, Accept=safetensors.TYPE) + body)
            cancelled, read = 0, 0
            while not cancelled and read < 10_000:
                read += len(plain.recv(1))
                cancelled = value(scrape(daemon), CANCELLED, stage="send")
            self.assertEqual(cancelled, 1, f"{read} bytes read")
        self.all_given_back(daemon)

    def test_work_may_take_longer_than_any_of_them(self):
        daemon = self.daemon_with("--body-timeout-s", "1", "--header-timeout-s", "1",
                                  "--idle-timeout-s", "1")
        answer = daemon.post("/v1/attend", work.busy_body(daemon, 2500))
        self.assertEqual(answer.status, 200, str(answer))


class Connections(BoundsCase):
    MOST = 8

    def admin(self, daemon, port, path, method="GET", body=None):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=client.WAIT_S)
        with contextlib.closing(connection):
            connection.request(method, path, body)
            return client.Answer(connection.getresponse())

    def test_the_admin_listener_answers_when_the_other_is_full(self):
        port = client.free_port()
        daemon = self.daemon_with("--max-connections", str(self.MOST), "--admin-listen",
                                  f"127.0.0.1:{port}")
        held = [daemon.socket() for _ in range(self.MOST)]
        for plain in held:
            self.addCleanup(plain.close)

        def connections():
            return value(parse(self.admin(daemon, port, "/metrics").body.decode()), CONNECTIONS)

        self.until(lambda: connections() > self.MOST, "the connections never counted")
        late = daemon.socket()
        self.addCleanup(late.close)
        late.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        for path in ("/healthz", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready"):
            self.assertEqual(self.admin(daemon, port, path).status, 200, path)
        late.settimeout(0.1)
        with self.assertRaises(TimeoutError):
            late.recv(1)
        held.pop().close()
        late.settimeout(client.WAIT_S)
        self.assertTrue(late.recv(100).startswith(b"HTTP/1.1 200"), "no place was freed")

    def test_the_admin_listener_does_no_work(self):
        port = client.free_port()
        daemon = self.daemon_with("--admin-listen", f"127.0.0.1:{port}")
        for path in ("/v1/attend", "/v1/plan"):
            for body in (json.dumps(GOOD), bytes(1_000_000)):
                answer = self.admin(daemon, port, path, "POST", body)
                self.check_refusal(answer, 404, "not_found")
            self.assertEqual(self.admin(daemon, port, path).status, 404)
        self.assertEqual(self.admin(daemon, port, "/healthz", "POST").status, 405)
        self.still_good(daemon)

    def test_the_admin_listener_drains_with_the_other(self):
        port = client.free_port()
        daemon = self.daemon_with("--admin-listen", f"127.0.0.1:{port}", "--drain-delay-s", "1")
        daemon.send_signal()
        self.until(lambda: self.admin(daemon, port, "/readyz").status == 503, "still ready")
        self.assertEqual(self.admin(daemon, port, "/healthz").status, 200)
        metrics = parse(self.admin(daemon, port, "/metrics").body.decode())
        self.assertEqual((value(metrics, "attnd_ready"), value(metrics, "attnd_draining")), (0, 1))
        answer = daemon.post("/v1/attend", GOOD)
        self.check_refusal(answer, 503, "unavailable")
        self.check_refusal(safetensors.post(daemon, BINARY_GOOD), 503, "unavailable")

    def test_places_come_back(self):
        daemon = self.daemon_with("--max-connections", str(self.MOST))
        for _ in range(5 * self.MOST):
            self.still_good(daemon)
        for i in range(2 * self.MOST):
            with daemon.socket() as plain:
                plain.sendall((b"", b"GET", post_head(10), post_head(10) + b"[")[i % 4])
        self.still_good(daemon)
        families = scrape_until(daemon, lambda f: value(f, CONNECTIONS) == 1)
        self.assertEqual(value(families, CONNECTIONS), 1)

    def test_a_pipeline_of_many(self):
        daemon = self.daemon_with("--max-queue", "2")
        body = json.dumps(GOOD).encode()
        count = 300
        with daemon.socket() as plain:
            sender = threading.Thread(target=plain.sendall,
                                      args=((post_head(len(body)) + body) * count,))
            sender.start()
            stream = plain.makefile("rb")
            for _ in range(count):
                self.assertIn(b'"output"', read_pipelined(stream))
            sender.join()
        self.all_given_back(daemon)
