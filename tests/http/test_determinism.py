"""An answer's bytes depend on the request alone: not on the number of workers, nor on the load."""

import json
import unittest

import client
import samples


def bodies():
    """Requests of different kinds and sizes as JSON text."""
    documents = []
    for seed, (heads, kv_heads, n, m, fields) in enumerate((
            (4, 2, 200, 200, {"causal": True}),
            (1, 1, 7, 500, {}),
            (6, 1, 97, 97, {"lengths": [61]}),
            (2, 2, 385, 191, {"key_mask": [1, 1, 0] * 63 + [1, 0]}))):
        q = client.tensor(samples.normal(seed, heads, n, 17))
        k, v = (client.tensor(samples.normal(seed + i, kv_heads, m, 17)) for i in (10, 20))
        documents.append({"q": q, "k": k, "v": v, **fields})
    q, k, v = (x.tolist() for x in samples.trained_like(60))
    documents.append({"q": q, "k": k, "v": v, "causal": True})
    return [json.dumps(document) for document in documents]


def output_text(answer):
    """The output as the very text that was sent."""
    assert answer.status == 200, str(answer)
    return json.dumps(json.loads(answer.body, parse_float=str)["output"])


class Determinism(unittest.TestCase):
    def test_worker_counts(self):
        wanted = None
        for workers in (1, 2, 3, 8):
            daemon = client.Daemon(workers=workers)
            try:
                got = [output_text(daemon.post("/v1/attend", body)) for body in bodies()]
            finally:
                self.assertEqual(daemon.stop(), 0, daemon.log_text()[-2000:])
            wanted = wanted or got
            for i, (one, other) in enumerate(zip(wanted, got)):
                self.assertEqual(one, other, f"body {i} with {workers} workers")

    def test_concurrent_load(self):
        daemon = client.shared()
        wanted = {body: output_text(daemon.post("/v1/attend", body)) for body in bodies()}

        def ask(start, wrong):
            order = list(wanted)
            for i in range(10):
                body = order[(start + i) % len(order)]
                if output_text(daemon.post("/v1/attend", body)) != wanted[body]:
                    wrong.append((start, i))

        self.assertEqual(client.at_once(ask, range(8)), [])

    def test_a_row_does_not_depend_on_its_batch(self):
        daemon = client.shared()
        q, k, v = (samples.normal(i, 2, 2, 40, 8) for i in range(3))
        both = daemon.attend(q, k, v, lengths=[40, 23]).json["output"]
        alone = daemon.attend(q[1:], k[1:], v[1:], lengths=[23]).json["output"]
        self.assertEqual(both[1], alone[0])
