"""Everything at once; then clients, log and metrics must have counted the same, exactly."""

import collections
import json
import random
import threading
import time

import safetensors
import work
from exposition import value
from test_bounds import BINARY_GOOD, BoundsCase, CANCELLED, GONE, REJECTED, post_head
from test_errors import GOOD
from test_ops import REQUESTS, SETTLE_S, scrape_until

THREADS = 8
ROUNDS = 25
LIMIT = 20_000_000
REASONS = {"invalid_argument": "validation", "malformed": "validation", "not_found": "validation",
           "method_not_allowed": "validation", "unsupported_media_type": "validation",
           "unsupported": "validation", "non_finite": "validation", "infeasible": "infeasible",
           "payload_too_large": "too_large", "deadline_exceeded": "deadline",
           "unavailable": "draining"}


class Storm(BoundsCase):
    """Each kind is a function that asks once; one that leaves returns None."""

    def setUp(self):
        self.daemon = self.daemon_with("--max-queue", "6", "--max-body-bytes", str(LIMIT))
        self.busy = json.dumps(work.busy_body(self.daemon, 40)).encode()
        self.slow = json.dumps({**work.busy_body(self.daemon, 400),
                                "hints": {"deadline_ms": 20}}).encode()
        self.before = self.quiet()
        self.skipped = len(self.daemon.log_text().splitlines())

    def quiet(self):
        """The metrics once nothing is in flight."""
        return scrape_until(self.daemon, lambda f: value(f, "attnd_http_requests_in_flight") == 0)

    def kinds(self):
        daemon, broken = self.daemon, safetensors.dump(BINARY_GOOD)[:-1]
        return {
            "good": lambda: daemon.post("/v1/attend", GOOD),
            "busy": lambda: daemon.post("/v1/attend", self.busy),
            "binary": lambda: safetensors.post(daemon, BINARY_GOOD, None, safetensors.TYPE),
            "plan": lambda: daemon.post("/v1/plan", GOOD),
            "invalid": lambda: daemon.post("/v1/attend", {"q": 1}),
            "malformed": lambda: safetensors.post(daemon, broken),
            "unsupported": lambda: daemon.post("/v1/attend", {**GOOD, "backend": "mamba"}),
            "unknown": lambda: daemon.get("/nope"),
            "method": lambda: daemon.request("PUT", "/v1/attend"),
            "media": lambda: daemon.post("/v1/attend", GOOD, {"Content-Type": "text/plain"}),
            "large": lambda: daemon.raw(post_head(LIMIT + 1)),
            "late": lambda: daemon.post("/v1/attend", self.slow),
            "health": lambda: daemon.get("/healthz"),
            "gone": self.leave_early,
            "gone late": self.leave_late,
        }

    def leave_early(self):
        with self.daemon.socket() as plain:
            plain.sendall(post_head(1000) + b"{")

    def leave_late(self):
        with self.daemon.socket() as plain:
            plain.sendall(post_head(len(self.slow)) + self.slow)

    def run_clients(self):
        """What the clients saw: Counter of (status, type), and how many left."""
        seen, left, failed = collections.Counter(), [], []

        def ask(seed):
            kinds = list(self.kinds().values()) * 2
            rng = random.Random(seed)
            for _ in range(ROUNDS):
                try:
                    answer = rng.choice(kinds)()
                except GONE as error:
                    failed.append(repr(error))
                    continue
                if answer is None:
                    left.append(seed)
                else:
                    kind = answer.json["error"]["type"] if answer.status >= 400 else None
                    with lock:
                        seen[(answer.status, kind)] += 1

        lock = threading.Lock()
        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        return seen, len(left)

    def grown(self, families, name, **labels):
        return value(families, name, **labels) - value(self.before, name, **labels)

    def test_books_agree(self):
        seen, left = self.run_clients()
        total = sum(seen.values()) + left
        self.assertEqual(total, THREADS * ROUNDS)
        after = self.settled(total)
        logged = collections.Counter((line["status"], line.get("error"))
                                     for line in self.log_lines())
        self.check_clients(seen, left, logged)
        self.check_metrics(left, logged, after)
        self.all_given_back(self.daemon)

    def settled(self, total):
        """Metrics after the last request has ended, which its log line tells."""
        give_up = time.monotonic() + SETTLE_S
        while len(self.log_lines()) < total and time.monotonic() < give_up:
            time.sleep(0.01)
        self.assertEqual(len(self.log_lines()), total)
        return self.quiet()

    def log_lines(self):
        """The requests of the log since setUp, but for scrapes."""
        lines = [json.loads(line) for line in self.daemon.log_text().splitlines()[self.skipped:]]
        return [line for line in lines if line["msg"] == "request" and line["path"] != "/metrics"]

    def check_clients(self, seen, left, logged):
        """The log has every answer that a client saw; what is more belongs to those who left."""
        for key, count in seen.items():
            self.assertGreaterEqual(logged[key], count, f"{key} in {logged}")
        self.assertEqual(sum((logged - seen).values()), left)
        self.assertNotIn(500, [status for status, _ in logged])

    def check_metrics(self, left, logged, after):
        """Each counter is what the log says; 499 is a client that left before its answer."""
        statuses, reasons = collections.Counter(), collections.Counter()
        for (status, kind), count in logged.items():
            statuses[status] += count
            reasons["queue_full" if status == 429 else REASONS.get(kind)] += count
        for status in statuses:
            counted = (self.grown(after, REQUESTS, code=str(status))
                       - self.grown(after, REQUESTS, code=str(status), route="/metrics"))
            self.assertEqual(counted, statuses[status], f"status {status}")
        for reason in {*REASONS.values(), "queue_full", "memory", "draining"}:
            self.assertEqual(self.grown(after, REJECTED, reason=reason), reasons[reason], reason)
        cancelled = {stage: self.grown(after, CANCELLED, stage=stage)
                     for stage in ("receive", "queue", "compute", "send")}
        self.assertEqual(sum(cancelled.values()) - cancelled["send"], statuses[499], cancelled)
        self.assertLessEqual(sum(cancelled.values()), left, cancelled)
