"""What is refused, and how: status, type, the field at fault, and a daemon that lives on."""

import json
import unittest

import client
import numpy as np

GOOD = {"q": [[1, 2], [3, 4]], "k": [[1, 0], [0, 1]], "v": [[5, 6], [7, 8]]}
GOOD_TEXT = json.dumps(GOOD)
BOTH = ("malformed", "invalid_argument")
LIMIT = 65536
WRONG_TYPES = (None, "text", {"0": 1}, [[[["x"]]]], True, -1, 1e300)


def changed(**fields):
    """The good document with some fields replaced."""
    return {**GOOD, **fields}


def without(name):
    return {key: value for key, value in GOOD.items() if key != name}


def head(path="/v1/attend", method="POST", version="1.1", host=True, **fields):
    """A request head as bytes; field names with _ for -."""
    lines = [f"{method} {path} HTTP/{version}"]
    if host:
        lines.append("Host: localhost")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class ErrorCase(unittest.TestCase):
    """After every test the daemon is the same process and still answers."""

    def setUp(self):
        self.daemon = client.shared()

    def tearDown(self):
        self.assertTrue(self.daemon.alive(), self.daemon.log_text()[-2000:])
        answer = self.daemon.post("/v1/attend", GOOD)
        self.assertEqual(answer.status, 200, str(answer))

    def check_error(self, answer, status, types=None, mentions=()):
        """The status, a well-formed error object, and words that must stand in it."""
        self.assertEqual(answer.status, status, str(answer))
        error = answer.json["error"]
        self.assertTrue(error["message"])
        self.assertEqual(error["request_id"], answer.headers["X-Request-Id"])
        if types:
            self.assertIn(error["type"], types)
        said = f"{error.get('param') or ''} {error['message']}"
        for words in mentions:
            options = words if isinstance(words, tuple) else (words,)
            self.assertTrue(any(str(word) in said for word in options), f"{words} in: {said}")
        return error

    def refused(self, document, status=400, types=BOTH, mentions=()):
        answer = self.daemon.post("/v1/attend", document)
        return self.check_error(answer, status, types, mentions)

    def refused_field(self, param, mentions=(), status=400, types=("invalid_argument",), **fields):
        """A good document with wrong fields: refused, and `param` says which field it was."""
        error = self.refused(changed(**fields), status, types, mentions)
        self.assertTrue((error.get("param") or "").startswith(param), error)


class Fields(ErrorCase):
    def test_unknown_top_level_field(self):
        self.refused_field("casual", casual=True)

    def test_unknown_params_key(self):
        for backend in ({}, {"backend": "exact"}):
            self.refused(changed(params={"windw": 3}, **backend), mentions=["windw"])

    def test_params_key_that_the_explicit_backend_does_not_use(self):
        self.refused(changed(backend="exact", params={"window": 3}), mentions=["window"])
        answer = self.daemon.post("/v1/attend", changed(params={"window": 3}))
        self.assertEqual(answer.status, 200, str(answer))

    def test_unknown_backend(self):
        self.refused_field("backend", backend="exakt", mentions=["exakt"])

    def test_backend_that_cannot_run_raw_tensors(self):
        for backend in ("mamba", "hybrid"):
            with self.subTest(backend=backend):
                self.refused(changed(backend=backend), 422, ("unsupported",), [backend])

    def test_backend_named_is_obeyed_or_refused(self):
        for backend in ("window", "sparse", "linformer", "performer"):
            answer = self.daemon.post("/v1/attend", changed(backend=backend))
            with self.subTest(backend=backend):
                if answer.status == 200:
                    self.assertEqual(answer.json["backend"], backend)
                else:
                    self.check_error(answer, 422, ("unsupported",), [backend])

    def test_model_that_is_not_loaded(self):
        document = {"model": "demo", "input": [[1, 2]]}
        self.refused(document, 404, ("not_found",), ["demo"])

    def test_missing_tensor(self):
        for name in "qkv":
            with self.subTest(missing=name):
                error = self.refused(without(name))
                self.assertEqual(error["param"], name)
        self.refused({})

    def test_duplicate_key(self):
        self.refused('{"q":[[1]],"k":[[1]],"v":[[1]],"q":[[2]]}', mentions=["q"])
        self.refused('{"q":[[1]],"k":[[1]],"v":[[1]],"\\u0071":[[2]]}', mentions=["q"])
        self.refused('{"q":[[1]],"k":[[1]],"v":[[1]],"causal":true,"causal":false}',
                     mentions=["causal"])

    def test_scale(self):
        for scale in (0, 1e300, 1e39, "0.5", [1], None):
            with self.subTest(scale=scale):
                self.refused_field("scale", scale=scale)

    def test_wrong_type_of_every_field(self):
        good_by_luck = {("causal", "True"), ("return_output", "True"), ("measure_error", "True"),
                        ("scale", "-1")}
        fields = ("q", "k", "v", "lengths", "key_mask", "causal", "scale", "backend", "params",
                  "hints", "return_output", "measure_error")
        for name in fields:
            for value in WRONG_TYPES:
                if (name, str(value)) in good_by_luck:
                    continue
                with self.subTest(field=name, value=value):
                    self.refused(changed(**{name: value}), mentions=[name])

    def test_wrong_type_of_fields_that_raw_calls_hardly_use(self):
        for name in ("model", "input", "adapter", "e", "f", "omega"):
            for value in WRONG_TYPES:
                with self.subTest(field=name, value=value):
                    answer = self.daemon.post("/v1/attend", changed(**{name: value}))
                    self.assertIn(answer.status, (400, 404, 422), str(answer))
                    self.check_error(answer, answer.status)

    def test_wrong_type_inside_params_and_hints(self):
        for group, name in (("params", "window"), ("params", "pattern"), ("params", "orthogonal"),
                            ("params", "seed"), ("hints", "long_range"), ("hints", "locality"),
                            ("hints", "max_relative_error"), ("hints", "deadline_ms")):
            for value in (None, {"0": 1}, [], 1.5e300):
                with self.subTest(field=f"{group}.{name}", value=value):
                    self.refused(changed(**{group: {name: value}}), mentions=[name])
        self.refused(changed(hints={"long_rang": True}), mentions=["long_rang"])
        self.refused(changed(hints={"long_range": "true"}), mentions=["long_range"])
        self.refused(changed(hints={"deadline_ms": -1}), mentions=["deadline_ms"])


class Masks(ErrorCase):
    def batch(self, **fields):
        """Two batch rows of one head with 3 queries and 4 keys."""
        q, k = np.ones((2, 1, 3, 2)).tolist(), np.ones((2, 1, 4, 2)).tolist()
        return {"q": q, "k": k, "v": k, **fields}

    def test_lengths(self):
        for lengths in ([4], [4, 4, 4], [], [[4, 4]], [4, 5], [-1, 4], [1.5, 4], ["4", 4],
                        [True, 4], [None, 4], [1e300, 4], [2**63 - 1, 4], 4):
            with self.subTest(lengths=lengths):
                error = self.refused(self.batch(lengths=lengths))
                self.assertTrue(error["param"].startswith("lengths"), error)
        self.refused(self.batch(lengths=[2**64, 4]))

    def test_key_mask_values_and_shape(self):
        row = [1, 1, 0, 1]
        for mask in ([1, 1, 0], [1] * 5, [row], [row] * 3, [row, [1, 1, 0]], [[row, row]], [],
                     [1, 1, 0, 2], [1, 1, 0, -1], [1, 1, 0, 0.5], [1, 1, 0, "1"], [1, 1, 0, None],
                     [row, 1], "1101", 1):
            with self.subTest(mask=mask):
                error = self.refused(self.batch(key_mask=mask))
                self.assertTrue(error["param"].startswith("key_mask"), error)

    def test_mask_of_another_length_names_both_lengths(self):
        q, k = np.ones((10, 8)).tolist(), np.ones((17, 8)).tolist()
        for length in (20, 16):
            document = {"q": q, "k": k, "v": k, "key_mask": [1] * length}
            self.refused(document, mentions=["key_mask", length, 17])

    def test_not_both(self):
        self.refused(self.batch(lengths=[4, 4], key_mask=[1, 1, 1, 1]),
                     mentions=["lengths", "key_mask"])

    def test_what_is_legal_stays_legal(self):
        for fields in ({"lengths": [0, 4]}, {"key_mask": [0] * 4}, {"key_mask": [[1] * 4] * 2},
                       {"lengths": [0, 0], "causal": True}):
            answer = self.daemon.post("/v1/attend", self.batch(**fields))
            self.assertEqual(answer.status, 200, str(answer))


class Tensors(ErrorCase):
    def test_sizes_that_do_not_fit_together(self):
        two, three = [[1, 2], [3, 4]], [[1, 2, 3], [4, 5, 6]]
        self.refused(changed(k=three), mentions=[("k", "q"), 2, 3])
        self.refused(changed(v=[[1, 2]]), mentions=["v", 1, 2])
        self.refused(changed(k=[two], v=[two]), mentions=["k"])
        self.refused(changed(v=[two]), mentions=["v"])
        self.refused(changed(q=[1, 2]), mentions=["q"])
        self.refused(changed(q=[[[two]]], k=[[[two]]], v=[[[two]]]), mentions=["q"])

    def test_heads_that_do_not_divide(self):
        q, k = np.ones((6, 2, 2)).tolist(), np.ones((4, 2, 2)).tolist()
        self.refused({"q": q, "k": k, "v": k}, mentions=[6, 4])
        self.refused({"q": k, "k": q, "v": q}, mentions=[4, 6])
        self.refused({"q": q, "k": np.ones((3, 2, 2)).tolist(), "v": np.ones((2, 2, 2)).tolist()})

    def test_batches_that_differ(self):
        one, two = np.ones((1, 1, 2, 2)).tolist(), np.ones((2, 1, 2, 2)).tolist()
        self.refused({"q": two, "k": one, "v": one})

    def test_impossible_shapes(self):
        data = [1, 2, 3, 4]
        for shape in ([-1, 8], [0, 8], [8589934592, 8589934592], [4294967296, 1], [1.5, 2],
                      ["2", 2], [2**63 - 1, 2], [1e300, 1], [True, 4], [None, 4], [[2, 2]], [], 4,
                      "2,2", None, [2] * 64):
            with self.subTest(shape=shape):
                self.refused(changed(q={"shape": shape, "data": data}), mentions=["q"])
        self.refused(changed(q={"shape": [2**64, 1], "data": data}))

    def test_counts_that_do_not_match_the_shape(self):
        for count in (5, 7):
            q = {"shape": [2, 3], "data": [1] * count}
            self.refused(changed(q=q), mentions=["q", 6, count])
        self.refused(changed(q={"shape": [2, 2], "data": [[1, 2, 3], [4, 5, 6]]}), mentions=["q"])
        self.refused(changed(q={"shape": [2, 2], "data": [[1, 2], [3]]}), mentions=["q"])
        self.refused(changed(q={"shape": [1, 4], "data": [[1, 2], [3, 4]]}), mentions=["q"])

    def test_ragged_nesting(self):
        for q, where in (([[1, 2], [3]], "q[1]"), ([[1, 2], [3, 4, 5]], "q[1]"),
                         ([[1, 2], 3], "q[1]"), ([[1, [2]], [3, 4]], "q[0][1]"),
                         ([[[1, 2]], [[3, 4], [5, 6]]], "q[1]")):
            with self.subTest(q=q):
                self.refused(changed(q=q), mentions=[where])

    def test_empty_tensors(self):
        for q in ([], [[]], [[], []], {"shape": [0, 2], "data": []}):
            with self.subTest(q=q):
                self.refused(changed(q=q), mentions=["q"])

    def test_entries_that_are_no_numbers(self):
        for entry in ("1", None, True, {}):
            with self.subTest(entry=entry):
                self.refused(changed(k=[[1, 2], [3, entry]]), mentions=["k[1][1]"])

    def test_entries_that_are_no_json(self):
        for word in ("NaN", "Infinity", "-Infinity", "nan", "+1", "01", "1.", ".5", "0x10", "1e",
                     "--1", "1,5e", "1_0", ""):
            with self.subTest(word=word):
                self.refused('{"q": [[1, %s]], "k": [[1, 1]], "v": [[1, 1]]}' % word)

    def test_numbers_beyond_float32(self):
        for word in ("1e39", "-1e39", "1e308", "-1e308", "1e309", "1e99999999999", "9" * 400):
            with self.subTest(word=word[:20]):
                self.refused('{"q": [[1, %s]], "k": [[1, 1]], "v": [[1, 1]]}' % word,
                             mentions=["q[0][1]"])

    def test_numbers_at_the_edge_of_float32(self):
        for word, statuses in (("3.4028236e38", (200, 400)), ("3.4028235e38", (200,)),
                               ("1e-46", (200,)), ("1e-400", (200,)), ("0e999999999999", (200,))):
            with self.subTest(word=word):
                text = '{"q": [[0]], "k": [[1]], "v": [[%s]]}' % word
                answer = self.daemon.post("/v1/attend", text)
                self.assertIn(answer.status, statuses, str(answer))
                if float(word) < 1e-40:
                    self.assertEqual(answer.json["output"], [[0]])

    def test_position_in_the_other_forms(self):
        bad = np.array([[1, 2], [np.nan, 4]], np.float32)
        self.refused(changed(v=client.tensor(bad)), mentions=[("v[1][0]", "v.base64[2]")])
        huge = np.array([[1, 2], [3, 1e300]])
        self.refused(changed(v=client.tensor(huge, "base64", "FP64")),
                     mentions=[("v[1][1]", "v.base64[3]")])
        self.refused(changed(v={"shape": [2, 2], "data": [1, 2, 3, "x"]}),
                     mentions=[("v[1][1]", "v.data[3]", "v[3]")])

    def test_tensor_objects(self):
        good = client.tensor(np.ones((2, 2), np.float32))
        wrong = {
            "unknown datatype": {**good, "datatype": "INT7"},
            "datatype no string": {**good, "datatype": 32},
            "unknown key": {**good, "dtype": "FP32"},
            "no shape": {"datatype": "FP32", "base64": good["base64"]},
            "no data": {"datatype": "FP32", "shape": [2, 2]},
            "both": {**good, "data": [1, 2, 3, 4]},
            "too few bytes": {**good, "base64": good["base64"][:-8]},
            "too many bytes": {**good, "base64": good["base64"] * 2},
            "another size of element": {**good, "datatype": "FP64"},
            "no base64": {**good, "base64": "!" + good["base64"][1:]},
            "base64 no string": {**good, "base64": [1, 2]},
            "data no array": {"shape": [2, 2], "data": "1234"},
        }
        for why, q in wrong.items():
            with self.subTest(why):
                self.refused(changed(q=q), mentions=["q"])

    def test_non_finite_output(self):
        document = {"q": [[0], [1e30]], "k": [[1e30], [1e30]], "v": [[1], [2]]}
        self.refused(document, 422, ("non_finite",), [("[1][0]", "output[1]")])
        document = {"q": [[[0]], [[1e30]]], "k": [[[1e30]] * 2], "v": [[[1], [2]]]}
        self.refused(document, 422, ("non_finite",), [("[1][0][0]", "output[1]")])

    def test_a_visible_key_with_a_logit_of_minus_infinity_is_not_an_empty_row(self):
        for q, k, v in (([[1e30]], [[-1e30]], [[5]]), ([[1e30]], [[1e30], [-1e30]], [[5], [6]])):
            answer = self.daemon.post("/v1/attend", {"q": q, "k": k, "v": v})
            if answer.status == 200:
                self.assertEqual(answer.json["output"], [[5]])
            else:
                self.check_error(answer, 422, ("non_finite",))


class Json(ErrorCase):
    def test_not_json(self):
        for text in ("", " ", "{", "}", '{"q"', '{"q":', '{"q":[[1]', "q=1", GOOD_TEXT[:-1],
                     GOOD_TEXT + "x", GOOD_TEXT + GOOD_TEXT, '{"q":[[1]],}', "{'q':1}",
                     '{"q":[[1],]}', '{"q":[[1 2]]}', '{"a\nb":1}', '{"a":"\\x"}', "\ufeff{}"):
            with self.subTest(text=text[:40]):
                self.refused(text.encode())

    def test_not_utf8(self):
        for sequence in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80"):
            self.refused(b'{"' + sequence + b'": 1}')
        self.refused(b'{"q":[[1\x00]],"k":[[1]],"v":[[1]]}')

    def test_syntax_errors_are_malformed(self):
        self.refused('{"q": [[1,]]}', types=("malformed",))

    def test_top_level_is_no_object(self):
        for text in ("[]", "5", "null", '"q"', "true", "[[1]]"):
            with self.subTest(text=text):
                self.refused(text)

    def test_deep_nesting(self):
        deep = "[" * 1000 + "1" + "]" * 1000
        texts = ("[" * 5_000_000, "[" * 2048 + "]" * 2048, "[" * 2049 + "]" * 2049,
                 '{"q":' + deep + "}", '{"hints":' + deep + "}", '{"a":' * 100_000,
                 '{"q":{"shape":[1],"data":' + deep + "}}")
        for text in texts:
            with self.subTest(text=text[:30]):
                self.refused(text)


class Http(ErrorCase):
    def test_unknown_path(self):
        for path in ("/nope", "/v1", "/v1/attend/x", "/V1/ATTEND", "//"):
            with self.subTest(path=path):
                self.check_error(self.daemon.get(path), 404, ("not_found",))

    def test_a_path_does_not_end_at_a_nul(self):
        for path in ("/healthz%00", "/healthz%00x", "/metrics%00/x", "/v1/models%00", "/%00",
                     "/v1/attend%00", "/healthz%2500"):
            with self.subTest(path=path):
                self.check_error(self.daemon.get(path), 404, ("not_found",))

    def test_wrong_method_names_the_right_ones(self):
        for method, path, allowed in (("GET", "/v1/attend", "POST"), ("PUT", "/v1/attend", "POST"),
                                      ("DELETE", "/v1/plan", "POST"), ("POST", "/healthz", "GET"),
                                      ("POST", "/metrics", "GET"), ("POST", "/v1/models", "GET")):
            with self.subTest(method=method, path=path):
                answer = self.daemon.request(method, path)
                self.check_error(answer, 405, ("method_not_allowed",))
                self.assertIn(allowed, answer.headers["Allow"])

    def test_content_type(self):
        for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx",
                     "multipart/form-data; boundary=x"):
            with self.subTest(kind=kind):
                answer = self.daemon.post("/v1/attend", GOOD, {"Content-Type": kind})
                self.check_error(answer, 415, ("unsupported_media_type",))

    def test_two_ways_to_say_where_the_body_ends(self):
        body = GOOD_TEXT.encode()
        length = str(len(body))
        kind = {"Content_Type": "application/json"}
        chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        twice = head(Content_Length=length, **kind)[:-2]
        for why, request in (
                ("both", head(Content_Length=length, Transfer_Encoding="chunked", **kind) + chunk),
                ("two lengths", twice + b"Content-Length: 3\r\n\r\n" + body),
                ("gzip", head(Transfer_Encoding="gzip", **kind) + body),
                ("chunked, gzip", head(Transfer_Encoding="chunked, gzip", **kind) + chunk)):
            with self.subTest(why):
                answer = self.daemon.raw(request)
                self.assertEqual(answer.status, 400, str(answer))

    def test_chunked_alone_is_fine(self):
        body = GOOD_TEXT.encode()
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:7], body[7:]))
        kind = {"Content_Type": "application/json"}
        answer = self.daemon.raw(head(Transfer_Encoding="chunked", **kind) + chunks + b"0\r\n\r\n")
        self.assertEqual(answer.status, 200, str(answer))

    def test_host(self):
        self.assertEqual(self.daemon.raw(head("/healthz", "GET", host=False)).status, 400)
        old = self.daemon.raw(head("/healthz", "GET", version="1.0", host=False))
        self.assertEqual(old.status, 200)

    def test_absurd_content_lengths_are_refused_before_any_body(self):
        for length, statuses in (("3000000000", (413,)), ("99999999999", (413,)),
                                 ("99999999999999999999", (400, 413)), ("-1", (400,)),
                                 ("1e3", (400,)), ("0x10", (400,)), ("", (400,))):
            with self.subTest(length=length):
                kind = {"Content_Type": "application/json"}
                answer = self.daemon.raw(head(Content_Length=length, **kind))
                self.assertIn(answer.status, statuses, str(answer))

    def test_request_line_nonsense(self):
        for line in (b"\r\n\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"):
            with self.daemon.socket() as plain:
                plain.sendall(line)

    def test_expect_continue(self):
        body = GOOD_TEXT.encode()
        fields = {"Content_Type": "application/json", "Expect": "100-continue"}
        with self.daemon.socket() as plain:
            plain.sendall(head(Content_Length=len(body), **fields))
            self.assertTrue(plain.recv(100).startswith(b"HTTP/1.1 100"))
            plain.sendall(body)
            self.assertEqual(client.read_answer(plain).status, 200)


class RequestId(ErrorCase):
    def test_legal_ids_are_echoed_everywhere(self):
        for wanted in ("abc-1.2_Z", "x" * 128):
            sent = {"X-Request-Id": wanted}
            for answer in (self.daemon.post("/v1/attend", GOOD, sent),
                           self.daemon.post("/v1/attend", "{", sent),
                           self.daemon.request("GET", "/healthz", headers=sent),
                           self.daemon.request("GET", "/metrics", headers=sent),
                           self.daemon.request("GET", "/nope", headers=sent)):
                self.assertEqual(answer.headers["X-Request-Id"], wanted)

    def test_illegal_ids_are_replaced(self):
        for illegal in ("x" * 129, "a b", "a/b", 'a"b', "a\tb", "{}", "", "\xe9"):
            with self.subTest(illegal=illegal):
                answer = self.daemon.post("/v1/attend", "{", {"X-Request-Id": illegal})
                made = answer.headers["X-Request-Id"]
                self.assertNotEqual(made, illegal)
                self.assertRegex(made, r"\A[A-Za-z0-9._-]{1,128}\Z")
                self.assertEqual(answer.json["error"]["request_id"], made)

    def test_id_stands_in_the_log(self):
        self.daemon.post("/v1/attend", GOOD, {"X-Request-Id": "find-me-in-the-log"})
        self.daemon.get("/healthz")
        lines = [line for line in self.daemon.log_text().splitlines()
                 if "find-me-in-the-log" in line]
        self.assertTrue(lines)
        json.loads(lines[0])


class BodyLimit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = client.Daemon("--max-body-bytes", str(LIMIT))

    @classmethod
    def tearDownClass(cls):
        assert cls.daemon.stop() == 0, cls.daemon.log_text()[-2000:]

    def check(self, answer, mentions):
        self.assertEqual(answer.status, 413, str(answer))
        error = answer.json["error"]
        self.assertEqual(error["type"], "payload_too_large")
        for word in mentions:
            self.assertIn(word, error["message"])
        self.assertEqual(self.daemon.post("/v1/attend", GOOD).status, 200)

    def padded(self, size):
        return (GOOD_TEXT + " " * (size - len(GOOD_TEXT))).encode()

    def test_the_limit_itself(self):
        self.assertEqual(self.daemon.post("/v1/attend", self.padded(LIMIT)).status, 200)
        answer = self.daemon.post("/v1/attend", self.padded(LIMIT + 1))
        self.check(answer, [str(LIMIT), str(LIMIT + 1), "max_body_bytes"])

    def test_far_over_the_limit(self):
        answer = self.daemon.post("/v1/attend", self.padded(20 * LIMIT))
        self.check(answer, [str(LIMIT), "max_body_bytes"])

    def test_content_length_without_a_body(self):
        request = head(Content_Length=3000000000, Content_Type="application/json")
        self.check(self.daemon.raw(request), ["3000000000", "max_body_bytes"])

    def test_chunked(self):
        part = b"%x\r\n%s\r\n" % (LIMIT // 2, b" " * (LIMIT // 2))
        fields = {"Transfer_Encoding": "chunked", "Content_Type": "application/json"}
        for count in (3, 40):
            answer = self.daemon.raw(head(**fields) + part * count + b"0\r\n\r\n")
            self.check(answer, ["max_body_bytes"])

    def test_expect_continue(self):
        fields = {"Content_Type": "application/json", "Expect": "100-continue"}
        with self.daemon.socket() as plain:
            plain.sendall(head(Content_Length=2 * LIMIT, **fields))
            first = plain.recv(12, 0x2)  # MSG_PEEK
            self.assertEqual(first, b"HTTP/1.1 413")
            self.check(client.read_answer(plain), ["max_body_bytes"])
