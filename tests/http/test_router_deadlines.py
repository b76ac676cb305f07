"""deadline_ms as a hint to the router: it picks among what is predicted to fit, or says what would
be."""

import json
import time

import samples
import work
from exposition import value
from route_case import HIDDEN_OF, RouteCase, entries, raw
from test_bounds import REJECTED
from test_ops import SETTLE_S, scrape, scrape_until

SHAPE = {"n": 20_000, "heads": 4, "d": 64}
CHAIN = ["performer", "window", "exact"]  # of a long raw call without projections
APART = 1.02  # printed predictions are rounded; keep this far from them
WORK_MS = 2000


def expected(times, deadline_ms):
    """The first of the chain that fits, or None."""
    return next((b for b in CHAIN if times[b] <= deadline_ms), None)


class Deadlines(RouteCase):
    def times(self, **document):
        return {name: entry["predicted_ms"] for name, entry in
                entries(self.plan(**document)).items() if entry["eligible"]}

    def ask_plan(self, deadline_ms, **document):
        return self.daemon.post("/v1/plan", {**document, "hints": {"deadline_ms": deadline_ms}})

    def test_the_first_that_fits(self):
        times = self.times(shape=SHAPE)
        for deadline_ms in (t * f for t in times.values() for f in (1 / APART, APART)):
            if any(abs(deadline_ms / t - 1) < 0.01 for t in times.values()):
                continue
            with self.subTest(deadline_ms=deadline_ms, times=times):
                backend = expected(times, deadline_ms)
                answer = self.ask_plan(deadline_ms, shape=SHAPE)
                if backend is None:
                    self.infeasible(answer, times)
                    continue
                self.assertEqual(answer.status, 200, str(answer))
                self.routed(answer.json, backend, "long" if backend == CHAIN[0] else "deadline")
                self.check_account(answer.json)
                said = entries(answer.json)
                for passed in CHAIN[:CHAIN.index(backend)]:
                    self.assertIn("deadline_ms", said[passed]["why_not"])

    def infeasible(self, answer, times):
        """Refused with what would do: the fastest of all, and how long it takes."""
        # More than one, where they differ by less than is printed.
        fastest = tuple(name for name in times if times[name] == min(times.values()))
        error = self.check_error(answer, 422, ["infeasible"], ["deadline_ms", fastest])
        self.assertEqual(error["param"], "hints.deadline_ms")

    def test_nothing_fits(self):
        before = value(scrape(self.daemon), REJECTED, reason="infeasible")
        self.infeasible(self.ask_plan(1e-6, shape=SHAPE), self.times(shape=SHAPE))
        tensors = raw(1, 20)
        answer = self.daemon.post("/v1/attend", {**tensors, "hints": {"deadline_ms": 1e-6}})
        self.infeasible(answer, self.times(**tensors))
        self.refuse("stack", samples.normal(1, 20, HIDDEN_OF["stack"]), 422, ["infeasible"],
                    ["deadline_ms", "hybrid"], param="hints.deadline_ms",
                    hints={"deadline_ms": 1e-6})
        after = scrape_until(self.daemon,
                             lambda f: value(f, REJECTED, reason="infeasible") >= before + 3)
        self.assertEqual(value(after, REJECTED, reason="infeasible"), before + 3)

    def test_what_was_refused_works_when_taken_at_its_word(self):
        """Exact is too slow for the deadline of a short call; the refusal names what is not."""
        shape = {**SHAPE, "n": 15, "m": 15, "heads": 1, "d": 8}
        times = self.times(shape=shape)
        fastest = min(times, key=times.get)
        answer = self.ask_plan(times["exact"] / 1000, shape=shape)
        self.infeasible(answer, times)
        answer = self.ask_plan(times["exact"] / 1000, shape=shape, backend=fastest)
        self.assertEqual(answer.status, 200, str(answer))
        self.routed(answer.json, fastest, "explicit")

    def test_a_named_backend_is_not_second_guessed(self):
        for backend in CHAIN:
            answer = self.ask_plan(1e-6, shape=SHAPE, backend=backend)
            self.assertEqual(answer.status, 200, str(answer))
            self.routed(answer.json, backend, "explicit")

    def test_no_deadline(self):
        for deadline_ms in (0, 1e12):
            answer = self.ask_plan(deadline_ms, shape=SHAPE)
            self.routed(answer.json, CHAIN[0], "long")

    def test_a_deadline_that_passes_ends_the_work(self):
        """504 while most of the work is still to do: the log tells how long it took."""
        body = work.busy_body(self.daemon, WORK_MS)
        whole = self.daemon.post("/v1/attend", body)
        self.assertEqual(whole.status, 200, str(whole))
        answer = self.daemon.post("/v1/attend", {**body, "hints": {"deadline_ms": WORK_MS / 100}})
        self.check_error(answer, 504, ["deadline_exceeded"], ["deadline"])
        self.assertLess(self.took_ms(504), whole.json["timing"]["total_ms"] / 4)

    def took_ms(self, status):
        """The longest that the log tells of an answer with that status, once it tells of one."""
        give_up = time.monotonic() + SETTLE_S
        while time.monotonic() < give_up:
            lines = map(json.loads, self.daemon.log_text().splitlines())
            took = [line["total_ms"] for line in lines if line.get("status") == status]
            if took:
                return max(took)
            time.sleep(0.01)
        raise AssertionError(f"the log does not tell of a {status}")

    def test_each_backend_of_a_model_can_be_late(self):
        x = samples.normal(2, 3000, HIDDEN_OF["demo"])
        for backend in ("exact", "window", "sparse", "performer", "mamba", "hybrid"):
            with self.subTest(backend=backend):
                answer = self.ask("demo", x, backend=backend, hints={"deadline_ms": 1e-3},
                                  return_output=False)
                self.check_error(answer, 504, ["deadline_exceeded"], ["deadline"])
