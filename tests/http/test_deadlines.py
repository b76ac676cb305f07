"""Deadlines of requests and of the daemon; and work that nobody waits for any more."""

import json
import time

import client
import safetensors
import work
from exposition import value
from test_bounds import CANCELLED, REJECTED, BoundsCase, post_head
from test_lifecycle import wait_accepted
from test_ops import scrape_until

WORK_MS = 3000  # of compute, far beyond every deadline here
DEADLINE_MS = 150


class Deadlines(BoundsCase):
    def late(self, answer):
        self.check_refusal(answer, 504, "deadline_exceeded", ("deadline",))

    def test_of_the_request(self):
        daemon = self.daemon_with()
        body = work.busy_body(daemon, WORK_MS)
        began = time.monotonic()
        whole = daemon.post("/v1/attend", body)
        alone_s = time.monotonic() - began
        self.assertEqual(whole.status, 200, str(whole))
        began = time.monotonic()
        answer = daemon.post("/v1/attend", {**body, "hints": {"deadline_ms": DEADLINE_MS}})
        late_s = time.monotonic() - began
        if answer.status != 422:  # a router that foresees it may say so at once
            self.late(answer)
            self.counts(daemon, REJECTED, "reason", {"deadline": 1})
        self.assertLess(late_s, alone_s / 2, "504 came when the work was nearly done")
        self.all_given_back(daemon)

    def test_of_the_daemon(self):
        daemon = self.daemon_with("--default-deadline-ms", str(DEADLINE_MS))
        probe = self.daemon_with()
        body = work.busy_body(probe, WORK_MS)
        self.late(daemon.post("/v1/attend", body))
        tensors = {name: client.decode(body[name])[0] for name in "qkv"}
        self.late(safetensors.post(daemon, tensors, {"backend": "exact"}))
        self.counts(daemon, REJECTED, "reason", {"deadline": 2})
        self.still_good(daemon)
        self.all_given_back(daemon)

    def test_of_the_request_before_that_of_the_daemon(self):
        daemon = self.daemon_with("--default-deadline-ms", "1")
        probe = self.daemon_with()
        body = work.busy_body(probe, 300)
        self.late(daemon.post("/v1/attend", body))
        answer = daemon.post("/v1/attend", {**body, "hints": {"deadline_ms": 600_000}})
        self.assertEqual(answer.status, 200, str(answer))

    def test_time_in_the_queue_counts(self):
        """Every worker is busy with what came before, so a short request can be late too."""
        daemon = self.daemon_with()
        body = work.busy_body(daemon, 600)
        tight = {**body, "hints": {"deadline_ms": 100}}
        askers = [work_socket(self, daemon, body) for _ in range(6)]
        wait_accepted(daemon, len(askers))
        answer = daemon.post("/v1/attend", tight)
        self.assertIn(answer.status, (422, 504), str(answer))

    def test_a_generous_deadline_changes_nothing(self):
        daemon = client.shared()
        plain = daemon.attend([[1, 2]], [[1, 2]], [[3, 4]]).json["output"]
        for deadline_ms in (60_000, 1e9, 0):
            answer = daemon.attend([[1, 2]], [[1, 2]], [[3, 4]], hints={"deadline_ms": deadline_ms})
            self.assertEqual(answer.json["output"], plain, deadline_ms)


def work_socket(case, daemon, document):
    """A request in flight on a socket of its own, closed at the end of the test."""
    body = json.dumps(document).encode()
    plain = daemon.socket()
    case.addCleanup(plain.close)
    plain.sendall(post_head(len(body)) + body)
    return plain


class Leaving(BoundsCase):
    def timed(self, daemon, body):
        began = time.monotonic()
        answer = daemon.post("/v1/attend", body)
        self.assertEqual(answer.status, 200, str(answer))
        return time.monotonic() - began

    def test_abandoned_work_stops(self):
        """Four long requests are left; the next takes about as long as on an idle daemon."""
        daemon = self.daemon_with()
        body = work.busy_body(daemon, 400)
        alone_s = min(self.timed(daemon, body) for _ in range(2))
        left = [work_socket(self, daemon, work.busy_body(daemon, WORK_MS)) for _ in range(4)]
        wait_accepted(daemon, len(left))
        for plain in left:
            plain.close()
        after_s = self.timed(daemon, body)
        total_s = len(left) * alone_s * WORK_MS / 400
        self.assertLess(after_s, alone_s + total_s / 4, f"{alone_s:.3f} s alone")
        families = scrape_until(daemon, lambda f: value(f, CANCELLED) >= len(left))
        self.assertEqual(value(families, CANCELLED), len(left))
        self.assertEqual(value(families, CANCELLED, stage="compute")
                         + value(families, CANCELLED, stage="queue"), len(left))
        self.all_given_back(daemon)

    def test_a_half_close_counts_as_leaving(self):
        daemon = self.daemon_with()
        plain = work_socket(self, daemon, work.busy_body(daemon, WORK_MS))
        wait_accepted(daemon, 1)
        plain.shutdown(client.socket.SHUT_WR)
        families = scrape_until(daemon, lambda f: value(f, CANCELLED) >= 1)
        self.assertEqual(value(families, CANCELLED), 1)
        self.assertEqual(value(families, CANCELLED, stage="receive"), 0)
        self.all_given_back(daemon)

    def test_the_log_says_499(self):
        daemon = self.daemon_with()
        work_socket(self, daemon, work.busy_body(daemon, WORK_MS)).close()
        scrape_until(daemon, lambda f: value(f, CANCELLED) >= 1)
        self.all_given_back(daemon)
        lines = [json.loads(line) for line in daemon.log_text().splitlines()]
        self.assertIn(499, [line.get("status") for line in lines])
