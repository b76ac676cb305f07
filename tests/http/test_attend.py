"""POST /v1/attend: the numbers against float64, every way in and out, and what an answer tells."""

import itertools
import json
import unittest

import client
import numpy as np
import reference
import samples

FORMS = ("nested", "flat", "nested_data", "base64")
TIMES = ("receive_ms", "parse_ms", "queue_ms", "compute_ms", "serialize_ms", "total_ms")
SIZES = ("workspace_bytes", "predicted_bytes", "exact_matrix_bytes")


class AttendCase(unittest.TestCase):
    """Helpers: ask for 200, and hold an output against the reference."""

    def ok(self, document, **headers):
        answer = client.shared().post("/v1/attend", document, headers)
        self.assertEqual(answer.status, 200, str(answer))
        return answer.json

    def output(self, q, k, v, form="base64", **fields):
        """The output of three arrays sent in one form, as float64."""
        tensors = {name: client.tensor(x, form) for name, x in (("q", q), ("k", k), ("v", v))}
        return client.decode(self.ok({**tensors, **fields})["output"])[0]

    def close(self, got, wanted, v, bound):
        """Relative to the largest |v|, as softmax is a mean of v's rows."""
        self.assertEqual(got.shape, wanted.shape)
        error = np.abs(got - wanted).max() / np.abs(v).max()
        self.assertLessEqual(error, bound)

    def check(self, q, k, v, bound=1e-6, form="base64", **fields):
        """Send, and compare with the reference under the same options."""
        options = {name: fields[name] for name in ("causal", "lengths", "key_mask", "scale")
                   if name in fields}
        wanted = reference.attend(q, k, v, **options)
        self.close(self.output(q, k, v, form, **fields), wanted, v, bound)


class Numbers(AttendCase):
    def test_ranks(self):
        for prefix in ((), (3,), (2, 3)):
            q, k, v = (samples.normal(i, *prefix, rows, 16) for i, rows in enumerate((5, 9, 9)))
            with self.subTest(rank=q.ndim):
                self.check(q, k, v)

    def test_grouped_heads(self):
        for (heads, kv_heads), causal in itertools.product([(8, 2), (4, 4), (6, 1)],
                                                           (False, True)):
            with self.subTest(heads=heads, kv_heads=kv_heads, causal=causal):
                q = samples.normal(1, 2, heads, 33, 24)
                k, v = (samples.normal(i, 2, kv_heads, 33, 24) for i in (2, 3))
                self.check(q, k, v, causal=causal)

    def test_causal_is_aligned_bottom_right(self):
        for n, m in ((40, 40), (7, 60), (60, 7), (1, 50), (50, 1)):
            with self.subTest(n=n, m=m):
                q, k, v = (samples.normal(i, rows, 8) for i, rows in enumerate((n, m, m)))
                self.check(q, k, v, causal=True)

    def test_lengths_hide_keys_and_padded_queries(self):
        q, k, v = (samples.normal(i, 4, 2, 30, 8) for i in range(3))
        for causal in (False, True):
            lengths = [30, 17, 1, 0]
            with self.subTest(causal=causal):
                self.check(q, k, v, lengths=lengths, causal=causal)
                got = self.output(q, k, v, lengths=lengths, causal=causal)
                for row, length in enumerate(lengths):
                    self.assertTrue((got[row, :, length:] == 0).all(), f"padding of row {row}")

    def test_cross_lengths_leave_queries_alone(self):
        q = samples.normal(1, 3, 2, 12, 8)
        k, v = (samples.normal(i, 3, 2, 29, 8) for i in (2, 3))
        self.check(q, k, v, lengths=[29, 5, 0])

    def test_key_mask(self):
        rng = np.random.default_rng(5)
        q, k, v = (samples.normal(i, 3, 2, 26, 8) for i in range(3))
        each = (rng.random((3, 26)) < 0.5).astype(int)
        each[2] = 0
        for mask, causal in itertools.product((each[0], each), (False, True)):
            with self.subTest(rank=mask.ndim, causal=causal):
                self.check(q, k, v, key_mask=mask.tolist(), causal=causal)

    def test_hidden_values_do_not_leak(self):
        q, k, v = (samples.normal(i, 20, 8) for i in range(3))
        wanted = reference.attend(q, k, v, key_mask=[1] * 15 + [0] * 5)
        spoilt_k, spoilt_v = k.copy(), v.copy()
        spoilt_k[15:], spoilt_v[15:] = 1e30, -1e30
        got = self.output(q, spoilt_k, spoilt_v, key_mask=[1] * 15 + [0] * 5)
        self.close(got, wanted, v, 1e-6)

    def test_scale(self):
        q, k, v = (samples.normal(i, 18, 8) for i in range(3))
        for scale in (1, 0.125, 1e-6, 3.5):
            with self.subTest(scale=scale):
                bound = reference.tolerance(q, k, scale)
                self.check(q, k, v, bound, scale=scale)

    def test_values_of_another_width(self):
        for d, dv in ((8, 3), (3, 64), (1, 1), (80, 17)):
            with self.subTest(d=d, dv=dv):
                q, k = (samples.normal(i, 2, 25, d) for i in (1, 2))
                self.check(q, k, samples.normal(3, 2, 25, dv))

    def test_awkward_sizes(self):
        for n, m, d in ((1, 1, 1), (23, 97, 64), (49, 48, 7), (193, 191, 17), (97, 385, 128)):
            with self.subTest(n=n, m=m, d=d):
                q, k, v = (samples.normal(i, rows, d) for i, rows in enumerate((n, m, m)))
                self.check(q, k, v)

    def test_trained_like(self):
        q, k, v = samples.trained_like()
        self.check(q, k, v, max(1e-5, reference.tolerance(q, k)), causal=True)

    def test_mixed_lengths_leave_nothing_behind(self):
        q = samples.normal(1, 20, 8)
        k, v = samples.normal(2, 20, 8), samples.normal(3, 20, 8)
        first = self.output(q[:17], k[:17], v[:17], key_mask=[1, 0] * 8 + [1])
        self.output(q, k, v, key_mask=[0, 1] * 10)
        again = self.output(q[:17], k[:17], v[:17], key_mask=[1, 0] * 8 + [1])
        self.assertEqual(first.tolist(), again.tolist())


class KnownTroubles(AttendCase):
    """Small cases on which other attention servers have been wrong."""

    def small(self, q, k, v, **fields):
        document = {"q": q, "k": k, "v": v, "backend": "exact", **fields}
        return np.array(self.ok(document)["output"])

    def test_more_queries_than_keys_under_causal(self):
        got = self.small([[0], [0], [0]], [[0], [0]], [[1], [3]], causal=True)
        self.assertEqual(got.tolist(), [[0], [1], [2]])

    def test_masked_key_cannot_win_by_score(self):
        got = self.small([[200]], [[200], [1]], [[7], [9]], scale=1, key_mask=[0, 1])
        self.assertEqual(got.tolist(), [[9]])

    def test_query_heads_are_grouped_by_division(self):
        got = self.small([[[0]]] * 4, [[[0]]] * 2, [[[10]], [[20]]])
        self.assertEqual(got.ravel().tolist(), [10, 10, 20, 20])

    def test_softmax_subtracts_the_maximum(self):
        got = self.small([[1]], [[7999.99], [8000], [2], [1]], [[1], [2], [3], [4]], scale=1)
        self.assertAlmostEqual(got.item(), 1.5025, delta=1e-3)

    def test_default_scale_is_not_zero(self):
        got = self.small([[.1, .2], [.3, .4], [.5, .6]], [[.7, .8], [.9, 1], [1.1, 1.2]],
                         [[1, 2], [3, 4], [5, 6]], causal=True)
        wanted = [[1, 2], [2.0495, 3.0495], [3.2066, 4.2066]]
        np.testing.assert_allclose(got, wanted, atol=1e-4)

    def test_float_text_reads_back_to_the_same_float(self):
        values = np.array([0.1, 7.6, 1.23456789, 1e-45, 3.4028235e38, -0.0, 16777216, 1e-38],
                          dtype=np.float32)
        document = {"q": [[1]], "k": [[1]], "v": [values.tolist()]}
        answer = client.shared().post("/v1/attend", document)
        self.assertEqual(answer.status, 200, str(answer))
        text = json.loads(answer.body, parse_float=str, parse_int=str)["output"][0]
        got = np.array([float(word) for word in text], dtype=np.float32)
        self.assertEqual(got.tobytes(), values.tobytes(), text)
        for word in text:
            digits = word.lower().split("e")[0].lstrip("-").replace(".", "").strip("0")
            self.assertLessEqual(len(digits), 9, word)


class Forms(AttendCase):
    def test_output_takes_the_form_and_rank_of_q(self):
        for form, prefix in itertools.product(FORMS, ((), (2,), (2, 2))):
            q, k, v = (samples.normal(i, *prefix, 6, 4) for i in range(3))
            with self.subTest(form=form, rank=q.ndim):
                document = {"q": client.tensor(q, form), "k": k.tolist(),
                            "v": client.tensor(v, "base64")}
                output = self.ok(document)["output"]
                got, came_in = client.decode(output)
                allowed = {"nested_data": ("flat", "nested_data")}.get(form, (form,))
                self.assertIn(came_in, allowed)
                if form != "nested":
                    self.assertEqual(output["datatype"], "FP32")
                    self.assertEqual(output["shape"], list(q.shape))
                self.close(got, reference.attend(q, k, v), v, 1e-6)

    def test_datatypes(self):
        for datatype, form in itertools.product(("FP32", "FP16", "BF16", "FP64"),
                                                ("base64", "flat")):
            q, k, v = (to_grid(samples.normal(i, 7, 4)) for i in range(3))
            with self.subTest(datatype=datatype, form=form):
                tensors = {name: client.tensor(x, form, datatype)
                           for name, x in (("q", q), ("k", k), ("v", v))}
                output = self.ok(tensors)["output"]
                self.assertEqual(output["datatype"], "FP32")
                self.close(client.decode(output)[0], reference.attend(q, k, v), v, 1e-6)

    def test_fp64_bytes_are_rounded_to_float32(self):
        v = np.array([[0.1, 1 / 3, 1e-300]])
        document = {"q": [[1]], "k": [[1]], "v": client.tensor(v, "base64", "FP64")}
        got = client.decode(self.ok(document)["output"])[0]
        self.assertEqual(got.tolist(), client.as_float32(v).tolist())

    def test_datatype_defaults_to_fp32(self):
        x = client.tensor(np.ones((1, 1), np.float32))
        del x["datatype"]
        self.assertEqual(client.decode(self.ok({"q": x, "k": x, "v": x})["output"])[0], [[1]])

    def test_integers_and_exponents_are_numbers(self):
        text = '{"q": [[1, 2e0]], "k": [[1E+0, -0]], "v": [[10, 0.25e1]]}'
        self.assertEqual(self.ok(text)["output"], [[10, 2.5]])

    def test_escaped_keys_and_spaces(self):
        text = ' {"\\u0071" : [ [1] ] ,\r\n\t"k":[[1]],"\\u0076":[[5]]} \n'
        self.assertEqual(self.ok(text)["output"], [[5]])

    def test_content_type_may_carry_a_charset(self):
        headers = {"Content-Type": "application/json; charset=utf-8"}
        answer = client.shared().post("/v1/attend", '{"q":[[1]],"k":[[1]],"v":[[5]]}', headers)
        self.assertEqual(answer.status, 200, str(answer))


def to_grid(x):
    """Multiples of 1/32 below 4: exact in every datatype, bfloat16's 8 bits included."""
    return (np.round(np.clip(x, -3.9, 3.9) * 32) / 32).astype(np.float32)


class WhatAnAnswerTells(AttendCase):
    def ask(self, **fields):
        q, k, v = (samples.normal(i, 2, 40, 8) for i in range(3))
        return client.shared().attend(q, k, v, **fields)

    def test_blocks(self):
        answer = self.ask().json
        self.assertTrue(answer["id"])
        self.assertEqual(answer["backend"], "exact")
        self.assertEqual(answer["warnings"], [])
        for key in TIMES:
            self.assertGreaterEqual(answer["timing"][key], 0, key)
        self.assertGreaterEqual(answer["timing"]["total_ms"], answer["timing"]["compute_ms"])
        for key in SIZES:
            self.assertGreaterEqual(answer["memory"][key], 0, key)

    def test_exact_matrix_bytes_is_the_matrix_that_was_never_made(self):
        one_head = 4 * 40 * 40
        answer = self.ask().json
        self.assertIn(answer["memory"]["exact_matrix_bytes"], (one_head, 2 * one_head))

    def test_ids_differ(self):
        self.assertNotEqual(self.ask().json["id"], self.ask().json["id"])

    def test_route(self):
        route = self.ask(backend="auto").json["route"]
        self.assertEqual((route["policy"], route["rule"]), ("guidance", "short"))
        self.assertIn("40", route["reason"])
        by_name = {entry["backend"]: entry for entry in route["considered"]}
        self.assertEqual(len(by_name), len(route["considered"]), "a backend is listed twice")
        self.assertTrue(by_name["exact"]["eligible"])
        self.assertGreater(by_name["exact"]["predicted_ms"], 0)
        self.assertGreater(by_name["exact"]["predicted_bytes"], 0)
        chosen = [name for name, entry in by_name.items() if entry["chosen"]]
        self.assertEqual(chosen, ["exact"])
        for name, entry in by_name.items():
            if not entry["eligible"]:
                self.assertTrue(entry["why_not"], f"{name} does not say why not")

    def test_explicit_backend(self):
        route = self.ask(backend="exact").json["route"]
        self.assertEqual(route["rule"], "explicit")

    def test_rules_go_by_the_largest_valid_key_count(self):
        for keys, lengths, rule in ((4095, None, "short"), (4096, None, "medium"),
                                    (4096, [4095], "short"), (32768, None, "medium"),
                                    (32769, None, "long")):
            with self.subTest(keys=keys, lengths=lengths):
                k = client.tensor(np.ones((keys, 1), np.float32))
                document = {"q": [[1]], "k": k, "v": k}
                if lengths:
                    document["lengths"] = lengths
                answer = self.ok(document)
                self.assertEqual(answer["route"]["rule"], rule)
                np.testing.assert_allclose(answer["output"], [[1]], atol=1e-6)

    def test_server_timing(self):
        answer = self.ask()
        header = answer.headers["Server-Timing"]
        for key in ("parse", "queue", "compute"):
            self.assertRegex(header, rf"{key}[a-z_]*;\s*dur=[0-9.]+")

    def test_output_can_be_left_out(self):
        answer = self.ask(return_output=False)
        self.assertEqual(answer.status, 200, str(answer))
        self.assertNotIn("output", answer.json)
        self.assertIn("route", answer.json)
        self.assertIn("output", self.ask(return_output=True).json)

    def test_content_type_is_json(self):
        self.assertTrue(self.ask().headers["Content-Type"].startswith("application/json"))
