"""Window, sparse, linformer and performer end to end: numbers against float64, parameters through
JSON and query, refusals, and which of them the router takes."""

import itertools
import json
import math
import os
import threading
from concurrent import futures
from unittest import mock

import client
import numpy as np
import reference
import safetensors
import samples
from client import tensor
from test_determinism import output_text
from test_errors import ErrorCase

QKV = "qkv"
MOST_WORKERS = 48  # what the configuration allows; Debian's OpenBLAS has 64 places
# Ways to call each variant: (backend, params, shapes of its tensors for 300 keys of 8 columns).
CALLS = [
    ("window", {}, {}), ("window", {"window": 5}, {}), ("window", {"window": 1}, {}),
    ("sparse", {}, {}), ("sparse", {"pattern": "strided", "stride": 9}, {}),
    ("sparse", {"pattern": "fixed"}, {}), ("sparse", {"pattern": "local", "stride": 3}, {}),
    ("sparse", {"pattern": "fixed", "stride": 12, "summary": 3}, {}),
    ("linformer", {}, {}), ("linformer", {"projection": "mean", "k": 7}, {}),
    ("linformer", {}, {"e": (6, 300)}), ("linformer", {"k": 6}, {"e": (6, 310), "f": (6, 310)}),
    ("linformer", {}, {"e": (2, 5, 300)}), ("linformer", {}, {"e": (1, 5, 300), "f": (1, 5, 300)}),
    ("performer", {}, {"omega": (16, 8)}), ("performer", {"features": 3}, {"omega": (3, 8)}),
]
DRAWN = [("linformer", {"projection": "gaussian", "k": 8, "seed": 3}), ("performer", {}),
         ("performer", {"features": 40, "orthogonal": False, "seed": 5}),
         ("performer", {"features": 40, "norm": "sqrt", "orthogonal": True})]


def extra(tensors):
    """Projections and directions of the given shapes."""
    return {name: samples.normal(9 + i, *shape) / (1 if name == "omega" else math.sqrt(shape[-1]))
            for i, (name, shape) in enumerate(tensors.items())}


def expected(backend, params, given, qkv, **masks):
    """(float64 answer, absolute tolerance) by the formulas."""
    causal, (n, m) = masks.pop("causal", False), (qkv[0].shape[-2], qkv[1].shape[-2])
    if backend == "linformer":
        rest = {**given, **masks, "segments": params.get("k", 256)}
        return reference.linformer(*qkv, **rest), reference.linformer_tolerance(*qkv, **rest)
    if backend == "performer":
        answer = reference.performer(*qkv, **given, **masks, causal=causal)
        return answer, reference.performer_tolerance(*qkv, **given, **masks)
    if backend == "window":
        pattern = reference.window_pattern(n, m, causal, params.get("window", 256))
    else:
        pattern = reference.sparse_pattern(n, m, causal, **params)
    # Two roundings more than exact attention: a softmax put down between two phases.
    bound = np.abs(qkv[2]).max() * (1e-6 + 2 * reference.ROUNDING)
    return reference.attend(*qkv, causal=causal, **masks, pattern=pattern), bound


class VariantCase(ErrorCase):
    """Helpers: the same call in JSON and as safetensors."""

    def by_json(self, backend, qkv, params=None, given=None, **fields):
        tensors = {**dict(zip(QKV, qkv)), **(given or {})}
        document = {name: tensor(x) for name, x in tensors.items()}
        answer = self.daemon.post("/v1/attend", {**document, "backend": backend,
                                                 "params": params or {}, **fields})
        self.assertEqual(answer.status, 200, str(answer))
        self.assertEqual(answer.json["backend"], backend)
        return client.decode(answer.json["output"])[0], answer.json

    def by_query(self, backend, qkv, params=None, given=None, **fields):
        options = {f"params.{name}": value for name, value in (params or {}).items()}
        answer = safetensors.post(self.daemon, {**dict(zip(QKV, qkv)), **(given or {})},
                                  {"backend": backend, **options, **fields}, safetensors.TYPE)
        return safetensors.answer_of(answer)[0]

    def check(self, backend, params, given, qkv, **masks):
        """Both ways in give the same bits, and the right ones."""
        got, told = self.by_json(backend, qkv, params, given, **masks)
        wanted, bound = expected(backend, params, given, qkv, **masks)
        self.assertEqual(got.shape, wanted.shape)
        self.assertLessEqual(np.abs(got - wanted).max(), bound)
        self.assertLessEqual(told["memory"]["workspace_bytes"], told["memory"]["predicted_bytes"])
        if "key_mask" not in masks:
            binary = self.by_query(backend, qkv, params, given, **masks)
            self.assertEqual(got.astype("<f4").tobytes(), binary.astype("<f4").tobytes())


class Numbers(VariantCase):
    def test_every_parameter(self):
        for (backend, params, shapes), (n, m) in itertools.product(
                CALLS, ((300, 300), (20, 300), (300, 40), (1, 1))):
            qkv = (samples.normal(1, 2, 4, n, 8), samples.normal(2, 2, 2, m, 8),
                   samples.normal(3, 2, 2, m, 5))
            given = extra(shapes)
            masks = [{}, {"lengths": [m // 2, m]}, {"key_mask": [int(j % 3 > 0)
                                                                 for j in range(m)]}]
            if backend != "linformer":
                masks.append({"causal": True})
            for mask in masks:
                with self.subTest(backend=backend, params=params, given=list(shapes), n=n, m=m,
                                  mask=list(mask)):
                    self.check(backend, params, given, qkv, **mask)

    def test_drawn_by_seed(self):
        qkv = [samples.normal(i, 2, 60, 8) for i in range(3)]
        for backend, params in DRAWN:
            with self.subTest(backend=backend, params=params):
                got, _ = self.by_json(backend, qkv, params)
                self.assertTrue(np.isfinite(got).all())
                self.assertEqual(got.tolist(), self.by_json(backend, qkv, params)[0].tolist())
                self.assertEqual(got.tolist(), self.by_query(backend, qkv, params).tolist())
                other, _ = self.by_json(backend, qkv, {**params, "seed": 1234})
                self.assertNotEqual(got.tolist(), other.tolist())

    def test_directions_of_the_formula(self):
        """Drawn, they answer as the formula's do; wide enough for several ranges at the end."""
        for d, params in ((8, {}), (8, {"features": 40, "orthogonal": False, "seed": 5}),
                          (8, {"features": 43, "norm": "sqrt", "seed": 2**53 - 1}),
                          (257, {"features": 300, "seed": 7}),
                          (1030, {"features": 33, "orthogonal": False}),
                          (300, {"features": 4000, "seed": 8})):
            qkv = [samples.normal(i, 130, d) / (2 if i < 2 else 1) for i in range(3)]
            omega = reference.directions(**{"features": 256, "d": d, **params})
            for causal in (False, True):
                with self.subTest(d=d, params=params, causal=causal):
                    wanted, bound = expected("performer", {}, {"omega": omega}, qkv, causal=causal)
                    got = self.by_query("performer", qkv, params, causal=str(causal).lower())
                    self.assertLessEqual(np.abs(got - wanted).max(), bound)

    def test_directions_are_orthogonal(self):
        for features, d, norm in ((20, 8, "chi"), (8, 8, "sqrt"), (5, 30, "chi"), (1, 1, "chi")):
            with self.subTest(features=features, d=d, norm=norm):
                omega = reference.directions(features, d, norm=norm)
                for first in range(0, features, d):
                    block = omega[first:first + d]
                    unit = block / np.linalg.norm(block, axis=1, keepdims=True)
                    np.testing.assert_allclose(unit @ unit.T, np.eye(len(block)), atol=1e-12)

    def test_defaults(self):
        qkv = [samples.normal(i, 2, 700, 8) for i in range(3)]
        written = {"window": {"window": 256},
                   "sparse": {"pattern": "strided", "stride": math.ceil(math.sqrt(700)),
                              "summary": 1},
                   "linformer": {"k": 256, "projection": "mean", "seed": 0},
                   "performer": {"features": 256, "orthogonal": True, "norm": "chi", "seed": 0}}
        for backend, params in written.items():
            with self.subTest(backend=backend):
                got, wanted = (self.by_json(backend, qkv, given)[0] for given in ({}, params))
                self.assertEqual(got.tolist(), wanted.tolist())
        for backend, params in (("sparse", {"pattern": "fixed"}), ("window", {"window": 255}),
                                ("linformer", {"k": 255}), ("performer", {"features": 255}),
                                ("performer", {"norm": "sqrt"}), ("performer", {"seed": 1}),
                                ("performer", {"orthogonal": False})):
            with self.subTest(params=params):
                got, other = (self.by_json(backend, qkv, given)[0] for given in ({}, params))
                self.assertNotEqual(got.tolist(), other.tolist())

    def test_scale(self):
        qkv = [samples.normal(i, 50, 8) for i in range(3)]
        for (backend, params, shapes), scale in itertools.product(CALLS, (0.05, 1)):
            if "e" in shapes or (backend == "performer" and not shapes):
                continue
            given = extra(shapes)
            with self.subTest(backend=backend, params=params, scale=scale):
                wanted, bound = expected(backend, params, given, qkv, scale=scale)
                if backend in ("window", "sparse"):
                    bound = max(bound, np.abs(qkv[2]).max() * reference.tolerance(*qkv[:2], scale))
                got, _ = self.by_json(backend, qkv, params, given, scale=scale)
                self.assertLessEqual(np.abs(got - wanted).max(), bound)

    def test_reference_against_its_own_definitions(self):
        q, k, v = (samples.normal(i, 12, 4) for i in range(3))
        exact = reference.attend(q, k, v)
        np.testing.assert_allclose(reference.linformer(q, k, v, e=np.eye(12)), exact, atol=1e-12)
        np.testing.assert_allclose(reference.linformer(q, k, v, segments=12), exact, atol=1e-12)
        many = np.random.default_rng(1).standard_normal((200_000, 4))
        np.testing.assert_allclose(reference.performer(q / 2, k / 2, v, many),
                                   reference.attend(q / 2, k / 2, v), atol=0.05)
        self.assertEqual(reference.fitted(np.ones((1, 3)), 6).sum(), 3)


class ScalarNumbers(Numbers):
    """The same on the kernels that define correct."""

    @classmethod
    def setUpClass(cls):
        cls.scalar = client.Daemon("--isa", "scalar")

    @classmethod
    def tearDownClass(cls):
        code = cls.scalar.stop()
        assert code == 0, cls.scalar.log_text()[-2000:]

    def setUp(self):
        self.daemon = self.scalar


class KnownTroubles(VariantCase):
    """Small cases on which other implementations have been wrong."""

    def test_performer_keeps_a_constant(self):
        for (n, m), gain, features, causal in itertools.product(
                ((40, 40), (3, 90), (600, 600)), (1, 30), (1, 16), (False, True)):
            with self.subTest(n=n, m=m, gain=gain, features=features, causal=causal):
                qkv = (gain * samples.normal(1, n, 8), gain * samples.normal(2, m, 8),
                       np.full((m, 3), 5, np.float32))
                got, _ = self.by_json("performer", qkv, {"features": features}, causal=causal)
                np.testing.assert_allclose(got, 5, atol=1e-5)

    def test_performer_of_a_single_key(self):
        for gain, features, causal in itertools.product((1, 30), (1, 7), (False, True)):
            q, k, v = gain * samples.normal(1, 1, 8), gain * samples.normal(2, 1, 8), [[3, -2]]
            got, _ = self.by_json("performer", (q, k, np.array(v)), {"features": features},
                                  causal=causal)
            np.testing.assert_allclose(got, v, atol=1e-5)

    def test_performer_is_accurate_only_where_norms_are_small(self):
        """About 6 % at N(0, 0.25^2) is known of plain features; no bar stands at N(0, 1)."""
        q, k, v = (samples.normal(i, 400, 64) for i in range(3))
        for params in ({}, {"orthogonal": False}, {"norm": "sqrt"}):
            got, _ = self.by_json("performer", (q / 4, k / 4, v), params)
            exact = reference.attend(q / 4, k / 4, v)
            self.assertLess(np.linalg.norm(got - exact) / np.linalg.norm(exact), 0.3, params)
        self.assertTrue(np.isfinite(self.by_json("performer", (q, k, v))[0]).all())

    def test_linformer_at_the_end_of_its_projection(self):
        """1 to 128: the first columns; beyond, interpolated, and the answer says so."""
        given = extra({"e": (16, 128)})
        for n in (1, 127, 128, 129, 300):
            with self.subTest(n=n):
                qkv = [samples.normal(i, n, 8) for i in range(3)]
                self.check("linformer", {}, given, qkv)
                _, told = self.by_json("linformer", qkv, given=given)
                interpolated = [text for text in told["warnings"] if "interpolated" in text]
                self.assertEqual(len(interpolated), n > 128, told["warnings"])
                for text in interpolated:
                    self.assertIn("128", text)
                    self.assertIn(str(n), text)

    def test_linformer_padding_has_no_influence(self):
        given = extra({"e": (16, 128)})
        q, k, v = (samples.normal(i, 1, 1, 128, 8) for i in range(3))
        long, told = self.by_json("linformer", (q, k, v), given=given, lengths=[90])
        short, _ = self.by_json("linformer", (q[..., :90, :], k[..., :90, :], v[..., :90, :]),
                                given=given)
        self.assertEqual(long[..., :90, :].tolist(), short.tolist())
        self.assertEqual(told["warnings"], [])

    def test_linformer_is_never_causal(self):
        q = samples.normal(1, 8, 4).tolist()
        document = {"q": q, "k": q, "v": q, "causal": True}
        answer = self.daemon.post("/v1/attend", {**document, "backend": "linformer"})
        self.check_error(answer, 422, ("unsupported",), ["causal", ("exact", "window")])
        for fields in ({}, {"e": [[1] * 8]}, {"hints": {"long_range": True}}):
            told = self.daemon.post("/v1/plan", {**document, **fields}).json
            self.assertNotEqual(told["backend"], "linformer", fields)

    def test_performer_survives_sharp_inputs(self):
        qkv = [30 * samples.normal(i, 2, 600, 64) for i in range(3)]
        for causal in (False, True):
            got, _ = self.by_json("performer", qkv, causal=causal)
            self.assertTrue(np.isfinite(got).all())

    def test_many_clients_get_one_answer(self):
        """Products of many threads at once; every reply is the first of its kind, byte for byte."""
        bodies = self.bodies(96) + self.bodies(300)
        wanted = [output_text(self.daemon.post("/v1/attend", body)) for body in bodies]
        wrong = []

        def ask(start):
            for i in range(len(bodies)):
                at = (start + i) % len(bodies)
                try:
                    if output_text(self.daemon.post("/v1/attend", bodies[at])) != wanted[at]:
                        wrong.append(at)
                except Exception as error:  # pylint: disable=broad-except
                    wrong.append(repr(error))

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_as_many_workers_as_there_may_be(self):
        """OpenBLAS has places for so many callers, and threads of its own if it is let."""
        bodies = self.bodies(300)
        wanted = [output_text(self.daemon.post("/v1/attend", body)) for body in bodies]
        for threads in ("1", "4"):
            with mock.patch.dict(os.environ, {"OPENBLAS_NUM_THREADS": threads}):
                daemon = client.Daemon(workers=MOST_WORKERS)
            try:
                with futures.ThreadPoolExecutor(MOST_WORKERS) as clients:
                    got = list(clients.map(lambda body, to=daemon: output_text(
                        to.post("/v1/attend", body)), bodies * 4))
            finally:
                self.assertEqual(daemon.stop(), 0, daemon.log_text()[-2000:])
            self.assertEqual(got, wanted * 4, f"OPENBLAS_NUM_THREADS={threads}")
        done = client.run_command("serve", "--check-config", "--workers", str(MOST_WORKERS + 1))
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn(str(MOST_WORKERS), done.stderr)

    def bodies(self, n):
        """One request of every kind as JSON text."""
        documents = []
        for backend, params in [(call[0], call[1]) for call in CALLS if not call[2]] + DRAWN:
            for causal in (False, True) if backend != "linformer" else (False,):
                q, k, v = (tensor(samples.normal(i, 2, n, 8)) for i in range(3))
                documents.append(json.dumps({"q": q, "k": k, "v": v, "backend": backend,
                                             "params": params, "causal": causal}))
        return documents

    def test_worker_counts(self):
        bodies, wanted = self.bodies(600), None
        for workers in (1, 2, 3, 8):
            daemon = client.Daemon(workers=workers)
            try:
                got = [output_text(daemon.post("/v1/attend", body)) for body in bodies]
            finally:
                self.assertEqual(daemon.stop(), 0, daemon.log_text()[-2000:])
            wanted = wanted or got
            for i, (one, other) in enumerate(zip(wanted, got)):
                self.assertEqual(one, other, f"body {i} with {workers} workers")


class Refusals(VariantCase):
    def refused_param(self, backend, params, mentions=()):
        """By JSON and by query alike, and the parameter is named."""
        name = next(iter(params))
        self.refused_field(f"params.{name}", mentions, backend=backend, params=params)
        body = dict(zip(QKV, (np.ones((2, 2), np.float32),) * 3))
        options = {"backend": backend, f"params.{name}": params[name]}
        answer = safetensors.post(self.daemon, body, options)
        error = self.check_error(answer, 400, ("invalid_argument",))
        self.assertEqual(error["param"], f"params.{name}")

    def test_values(self):
        counts = {"window": ("window",), "sparse": ("stride", "summary"), "linformer": ("k",),
                  "performer": ("features",)}
        for backend, names in counts.items():
            for name, value in itertools.product(names, (0, -1, 1.5, 2**31, "x", True)):
                with self.subTest(backend=backend, name=name, value=value):
                    self.refused_param(backend, {name: value})
        for backend, name, words in (("sparse", "pattern", ("strided", "fixed", "local")),
                                     ("linformer", "projection", ("mean", "gaussian")),
                                     ("performer", "norm", ("chi", "sqrt"))):
            with self.subTest(name=name):
                self.refused_param(backend, {name: "nope"}, ("nope", *words))
        for value in (-1, 1.5, 2**53, "x"):
            self.refused_param("performer", {"seed": value})
        self.refused_param("performer", {"orthogonal": "maybe"})

    def test_params_of_another_backend(self):
        for backend, name, value in (("window", "stride", 3), ("sparse", "window", 3),
                                     ("linformer", "features", 3), ("performer", "k", 3),
                                     ("exact", "window", 3), ("window", "seed", 1),
                                     ("sparse", "norm", "chi")):
            with self.subTest(backend=backend, name=name):
                self.refused_param(backend, {name: value}, (name, backend))
        self.refused_param("window", {"windw": 3})

    def test_projections(self):
        e = [[1, 2], [3, 4]]
        for fields, param in (({"f": e}, "e"), ({"e": [1, 2]}, "e"),
                              ({"e": [[[[1]]]]}, "e"), ({"e": [e, e, e]}, "e"),
                              ({"e": e, "f": [[1, 2]]}, "f"), ({"e": e, "f": [e]}, "f"),
                              ({"e": e, "f": [1]}, "f"), ({"e": [[1], [2, 3]]}, "e"),
                              ({"e": [["x"]]}, "e"), ({"e": []}, "e"),
                              ({"e": e, "params": {"k": 3}}, "params.k")):
            with self.subTest(**fields):
                self.refused_field(param, backend="linformer", types=("invalid_argument",
                                                                      "malformed"), **fields)

    def test_directions(self):
        for fields, param in (({"omega": [1, 2]}, "omega"), ({"omega": [[1, 2, 3]]}, "omega"),
                              ({"omega": [[[1, 2]]]}, "omega"), ({"omega": [[1]]}, "omega"),
                              ({"omega": [[1, 2]], "params": {"features": 2}},
                               "params.features")):
            with self.subTest(**fields):
                self.refused_field(param, backend="performer", **fields)

    def test_tensors_of_another_backend(self):
        for backend, name in (("exact", "e"), ("performer", "e"), ("window", "omega"),
                              ("linformer", "omega")):
            with self.subTest(backend=backend, name=name):
                self.refused_field(name, (backend,), backend=backend, **{name: [[1, 2]]})

    def test_strides_beyond_the_sequence_cost_nothing(self):
        """A stride that covers all positions is exact attention, however large it is."""
        qkv = {"q": [[1, 2]] * 2, "k": [[1, 0]] * 2, "v": [[5], [7]]}
        exact = self.daemon.post("/v1/attend", {**qkv, "backend": "exact"}).json
        for pattern in ("fixed", "strided", "local"):
            for summary in (1, 40_000_000, 2**31 - 1):
                params = {"pattern": pattern, "stride": 2**31 - 1, "summary": summary}
                with self.subTest(**params):
                    answer = self.daemon.post("/v1/attend", {**qkv, "backend": "sparse",
                                                             "params": params}).json
                    self.assertEqual(answer["output"], exact["output"])
                    self.assertLess(answer["memory"]["predicted_bytes"], 1 << 20)

    def test_sizes_that_nobody_can_serve(self):
        """A sentence or 413, and above all an answer."""
        for backend, params in (
                ("performer", {"features": 10**9}), ("performer", {"features": 2**31 - 1}),
                ("linformer", {"k": 10**9, "projection": "gaussian"})):
            with self.subTest(backend=backend, params=params):
                answer = self.daemon.post("/v1/attend", {
                    "q": [[1, 2]] * 2, "k": [[1, 0]] * 2, "v": [[5]] * 2, "backend": backend,
                    "params": params})
                self.assertIn(answer.status, (400, 413, 422), str(answer))
                self.assertTrue(answer.json["error"]["message"])

    def test_parameters_beyond_the_tensors(self):
        """As large as may be: the answer of exact attention, soon."""
        q, k, v = (samples.normal(i, 30, 4) for i in range(3))
        most = 2**31 - 1
        for backend, params in (("window", {"window": most}),
                                ("sparse", {"pattern": "fixed", "stride": most}),
                                ("sparse", {"pattern": "strided", "stride": most}),
                                ("sparse", {"pattern": "local", "stride": most}),
                                ("linformer", {"k": most})):
            with self.subTest(backend=backend, params=params):
                got, _ = self.by_json(backend, (q, k, v), params)
                np.testing.assert_allclose(got, reference.attend(q, k, v), atol=1e-5)

    def test_keys_that_overflow_are_not_hidden_keys(self):
        document = {"q": [[1]], "v": [[7]], "backend": "performer"}
        answer = self.daemon.post("/v1/attend", {**document, "k": [[1e20]]})
        self.check_error(answer, 422, ("non_finite",), ["output[0][0]"])
        hidden = {"q": [[1]], "k": [[2], [3e38]], "v": [[7], [9]], "key_mask": [1, 0]}
        for causal in (False, True):
            answer = self.daemon.post("/v1/attend", {**document, **hidden, "causal": causal})
            self.assertEqual(answer.status, 200, str(answer))
            np.testing.assert_allclose(answer.json["output"], [[7]], atol=1e-5)


class Routing(VariantCase):
    """Of raw calls: linformer is in the chain only where the request's e covers the keys."""

    def chosen(self, n, e=None, **fields):
        """Backend and rule of a call with n keys, planned and never run."""
        k = tensor(np.ones((n, 1), np.float32))
        document = {"q": [[1]], "k": k, "v": k, **fields}
        if e:
            document["e"] = tensor(np.ones((2, e), np.float32))
        answer = self.daemon.post("/v1/plan", document)
        self.assertEqual(answer.status, 200, str(answer))
        return answer.json["backend"], answer.json["route"]["rule"]

    def test_chains(self):
        near, far = {"hints": {"locality": True}}, {"hints": {"long_range": True}}
        causal = {"causal": True}
        for n, e, fields, wanted in (
                (4095, 4095, {}, ("exact", "short")), (4095, None, near, ("exact", "short")),
                (4096, None, {}, ("performer", "medium")),
                (4096, 4096, {}, ("linformer", "medium")),
                (4096, 4095, {}, ("performer", "medium")),
                (4096, 9000, {}, ("linformer", "medium")),
                (4096, 4096, causal, ("performer", "medium")),
                (4096, 4096, near, ("window", "medium")), (4096, None, near, ("window", "medium")),
                (4096, 4096, far, ("linformer", "medium")),
                (4096, None, far, ("performer", "medium")),
                (32768, None, {}, ("performer", "medium")),
                (32769, 32769, {}, ("linformer", "long")), (32769, None, {}, ("performer", "long")),
                (32769, None, near, ("performer", "long")),
                (32769, 32769, far, ("linformer", "long_range")),
                (32769, None, far, ("performer", "long_range")),
                (32769, 32769, causal, ("performer", "long"))):
            with self.subTest(n=n, e=e, **fields):
                self.assertEqual(self.chosen(n, e, **fields), wanted)

    def test_e_covers_the_longest_row_only(self):
        self.assertEqual(self.chosen(5000, 4500, lengths=[4500]), ("linformer", "medium"))
        self.assertEqual(self.chosen(5000, 4499, lengths=[4500]), ("performer", "medium"))
        self.assertEqual(self.chosen(5000, 4096, lengths=[4000]), ("exact", "short"))

    def test_explicit_linformer_needs_no_e(self):
        self.assertEqual(self.chosen(4096, backend="linformer"), ("linformer", "explicit"))

    def test_considered_explains_all(self):
        k = tensor(np.ones((5000, 1), np.float32))
        told = self.daemon.post("/v1/plan", {"q": [[1]], "k": k, "v": k}).json["route"]
        by_name = {entry["backend"]: entry for entry in told["considered"]}
        self.assertTrue({"exact", "window", "sparse", "linformer", "performer"} <= set(by_name))
        self.assertFalse(by_name["linformer"]["eligible"])
        self.assertIn("e", by_name["linformer"]["why_not"].split())
        for name, entry in by_name.items():
            self.assertEqual(entry["chosen"], name == "performer")
            self.assertTrue(entry["chosen"] or entry["why_not"], name)

    def test_an_approximation_nobody_asked_for_warns(self):
        k = tensor(np.ones((4096, 1), np.float32))
        document = {"q": [[1]], "k": k, "v": k}
        self.assertTrue(self.daemon.post("/v1/plan", document).json["warnings"])
        named = self.daemon.post("/v1/plan", {**document, "backend": "performer"}).json
        self.assertEqual(named["warnings"], [])
