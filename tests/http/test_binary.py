"""safetensors in and out: the same answers as in JSON, every option by query, hostile bodies."""

import itertools
import json

import client
import numpy as np
import reference
import safetensors
import samples
from client import tensor
from safetensors import entry, frame
from test_errors import BOTH, ErrorCase, head
from test_plan import without_times

QKV = "qkv"
Q = np.array([[1, 2], [3, 4]], np.float32)
GOOD = {"q": Q, "k": np.eye(2, dtype=np.float32), "v": np.array([[5, 6], [7, 8]], np.float32)}
# Changes from one answer to the next, whatever the encoding.
MOVES = {"id", "timing", "route", "memory"}


def three(*shapes):
    """Unit-normal q, k, v; one shape stands for all three."""
    shapes = shapes if len(shapes) == 3 else shapes * 3
    return {name: samples.normal(i, *shape) for i, (name, shape) in enumerate(zip(QKV, shapes))}


def as_json(tensors, form="base64", **fields):
    return {**{name: tensor(x, form) for name, x in tensors.items()}, **fields}


class BinaryCase(ErrorCase):
    """Helpers: ask in each encoding, and compare bits."""

    def post(self, body, options=None, **more):
        return safetensors.post(self.daemon, body, options, **more)

    def binary(self, body, options=None):
        """safetensors in and out: (output, fields)."""
        return safetensors.answer_of(self.post(body, options, accept=safetensors.TYPE))

    def json_of(self, tensors, **fields):
        """The same call in JSON: (output as float32, the answer)."""
        answer = self.daemon.post("/v1/attend", as_json(tensors, **fields))
        self.assertEqual(answer.status, 200, str(answer))
        return client.decode(answer.json["output"])[0].astype(np.float32), answer.json

    def same_bits(self, got, wanted, what=""):
        self.assertEqual(got.shape, wanted.shape, what)
        self.assertEqual(got.astype("<f4").tobytes(), wanted.astype("<f4").tobytes(), what)

    def bad(self, body, status=400, types=BOTH, mentions=(), options=None):
        """Refused as an error object, also when the client would rather have safetensors."""
        for accept in (None, safetensors.TYPE):
            answer = self.post(body, options, accept=accept)
            self.assertEqual(answer.headers["Content-Type"], "application/json", str(answer))
            error = self.check_error(answer, status, types, mentions)
        return error


class Encodings(BinaryCase):
    CALLS = (((4, 40, 16), {"causal": True}),
             ((2, 2, 30, 8), {"lengths": [30, 17]}),
             ((23, 5), {"scale": 0.3}))

    def test_every_pair_of_encodings_gives_the_same_bits(self):
        for shape, options in self.CALLS:
            tensors = three(shape)
            wanted, told = self.json_of(tensors, **options)
            with self.subTest(shape=shape):
                got, fields = self.binary(tensors, options)
                self.same_bits(got, wanted, "binary in, binary out")
                mixed = self.post(tensors, options)
                self.assertEqual(mixed.headers["Content-Type"], "application/json")
                got, _ = client.decode(mixed.json["output"])
                self.same_bits(got, wanted, "binary in, JSON out")
                for form in ("nested", "flat", "base64"):
                    answer = self.daemon.post("/v1/attend", as_json(tensors, form, **options),
                                              {"Accept": safetensors.TYPE})
                    self.same_bits(safetensors.answer_of(answer)[0], wanted, f"{form} in")
                self.check_fields(fields, told)

    def check_fields(self, fields, told):
        """Metadata holds what the JSON answer holds, but for what moves, and its very text."""
        self.assertEqual(set(fields), set(told) - {"output"})
        for name in set(fields) - MOVES:
            self.assertEqual(fields[name], told[name], name)
        self.assertEqual(fields["route"]["rule"], told["route"]["rule"])
        self.assertEqual(fields["route"]["reason"], told["route"]["reason"])
        self.assertEqual(set(fields["timing"]), set(told["timing"]))
        self.assertEqual(set(fields["memory"]), set(told["memory"]))

    def test_numbers_against_float64(self):
        for shapes, options in (((((3, 5, 7, 8), (3, 5, 9, 8), (3, 5, 9, 4))), {}),
                                (((4, 33, 16), (2, 33, 16), (2, 33, 16)), {"causal": True}),
                                (((2, 2, 6, 8), (2, 1, 6, 8), (2, 1, 6, 8)), {"lengths": [0, 4]})):
            tensors = three(*shapes)
            wanted = reference.attend(*tensors.values(), **options)
            got, _ = self.binary(tensors, options)
            self.assertEqual(got.shape, wanted.shape)
            error = np.abs(got - wanted).max() / np.abs(tensors["v"]).max()
            self.assertLessEqual(error, 1e-6, options)

    def test_json_out_of_binary_in_is_flat(self):
        output = self.post(GOOD).json["output"]
        self.assertEqual(output["shape"], [2, 2])
        self.assertEqual(len(output["data"]), 4)

    def test_metadata_is_json_text_even_of_strings(self):
        answer = self.daemon.request("POST", "/v1/attend", safetensors.dump(GOOD),
                                     {"Content-Type": safetensors.TYPE, "X-Request-Id": "id-7",
                                      "Accept": safetensors.TYPE})
        _, metadata = safetensors.load(answer.body)
        self.assertEqual(metadata["id"], '"id-7"')
        self.assertEqual(metadata["backend"], '"exact"')
        self.assertEqual(metadata["warnings"], "[]")
        for text in metadata.values():
            self.assertIsInstance(text, str)

    def test_measure_error_is_told_in_metadata_too(self):
        _, fields = self.binary(GOOD, {"measure_error": True})
        self.assertEqual(fields["error_estimate"]["rows_sampled"], GOOD["q"].shape[-2])
        self.assertLess(fields["error_estimate"]["relative_l2"], 1e-6)

    def test_output_begins_where_floats_may_lie(self):
        for shape in ((1, 1), (7, 3), (2, 3, 5, 7)):
            answer = self.post(three(shape), accept=safetensors.TYPE)
            length = int.from_bytes(answer.body[:8], "little")
            self.assertEqual((8 + length) % 8, 0, shape)

    def test_return_output_false(self):
        answer = self.post(GOOD, {"return_output": False}, accept=safetensors.TYPE)
        output, fields = safetensors.answer_of(answer)
        self.assertIsNone(output)
        self.assertEqual(fields["backend"], "exact")
        self.assertNotIn("output", self.post(GOOD, {"return_output": False}).json)

    def test_non_finite_output_is_refused_in_binary_too(self):
        huge = {"q": np.array([[0], [1e30]]), "k": np.full((2, 1), 1e30), "v": np.ones((2, 1))}
        self.bad(safetensors.dump(huge), 422, ("non_finite",), ["output[1]"])

    def test_accept(self):
        for accept, binary in ((safetensors.TYPE, True), ("*/*", False),
                               ("application/json", False),
                               ("application/json, " + safetensors.TYPE, True),
                               (safetensors.TYPE.upper(), True)):
            with self.subTest(accept=accept):
                kind = self.post(GOOD, accept=accept).headers["Content-Type"]
                self.assertEqual(kind, safetensors.TYPE if binary else "application/json")

    def test_content_type_with_a_parameter(self):
        answer = self.daemon.request("POST", "/v1/attend", safetensors.dump(GOOD),
                                     {"Content-Type": safetensors.TYPE + "; version=1"})
        self.assertEqual(answer.status, 200, str(answer))

    def test_plan(self):
        tensors = three((4, 30, 8), (2, 50, 8), (2, 50, 8))
        planned = self.daemon.post("/v1/plan", as_json(tensors, causal=True)).json
        by_body = self.post(tensors, {"causal": True}, path="/v1/plan").json
        self.assertEqual(by_body["backend"], planned["backend"])
        self.assertEqual(without_times(by_body["route"]), without_times(planned["route"]))
        answer = self.post(tensors, {"causal": True}, path="/v1/plan", accept=safetensors.TYPE)
        output, fields = safetensors.answer_of(answer)
        self.assertIsNone(output)
        self.assertEqual(without_times(fields["route"]), without_times(planned["route"]))

    def test_encoding_of_the_body_stands_in_the_metrics(self):
        text = self.daemon.get("/metrics").body.decode()
        self.binary(GOOD)
        self.assertIn('attnd_request_parse_seconds_count{encoding="safetensors"}',
                      self.daemon.get("/metrics").body.decode(), text[:200])


class Types(BinaryCase):
    def test_every_float_type_is_read_as_what_it_holds(self):
        for dtype in safetensors.DATATYPES:
            tensors = three((2, 19, 8))
            held = {name: rounded(x, dtype) for name, x in tensors.items()}
            wanted, _ = self.json_of(held)
            got, _ = self.binary(safetensors.dump(tensors, dtype))
            with self.subTest(dtype=dtype):
                self.same_bits(got, wanted)

    def test_types_may_differ_from_tensor_to_tensor(self):
        tensors, dtypes = three((5, 4)), {"q": "BF16", "k": "F64", "v": "F16"}
        held = {name: rounded(x, dtypes[name]) for name, x in tensors.items()}
        self.same_bits(self.binary(safetensors.dump(tensors, dtypes))[0], self.json_of(held)[0])

    def test_words(self):
        """One key, so that the output is v itself."""
        for dtype, words in (("BF16", {0x3f80: 1, 0xc049: -3.140625, 0x0001: 9.18354961579912e-41}),
                             ("F16", {0x3c00: 1, 0x0001: 5.960464477539063e-08,
                                      0x03ff: 6.097555160522461e-05, 0x7bff: 65504})):
            data = np.array(list(words), "<u2").tobytes()
            body = self.with_v(dtype, len(words), data)
            got, _ = self.binary(body)
            with self.subTest(dtype=dtype):
                self.same_bits(got[0], np.array(list(words.values()), np.float32))

    def with_v(self, dtype, columns, data):
        """q and k of one element each, and v as its bytes."""
        one = np.ones(1, "<f4").tobytes()
        header = {"q": entry("F32", [1, 1], 0, 4), "k": entry("F32", [1, 1], 4, 8),
                  "v": entry(dtype, [1, columns], 8, 8 + len(data))}
        return frame(header, one + one + data)

    def test_words_that_are_not_finite(self):
        for dtype, word in (("BF16", 0x7f80), ("BF16", 0xffc0), ("F16", 0xfc00), ("F16", 0x7e00)):
            data = np.array([0, 0, word, 0], "<u2").tobytes()
            with self.subTest(dtype=dtype, word=hex(word)):
                self.bad(self.with_v(dtype, 4, data), mentions=["v[0][2]"])

    def test_not_finite_names_the_first_position(self):
        for name, dtype, wrong in itertools.product(QKV, ("F32", "F64"), (np.nan, np.inf, -np.inf)):
            tensors = three((2, 3, 3, 4))
            tensors[name][1, 2, 0, 3] = tensors[name][1, 2, 1, 0] = wrong
            with self.subTest(name=name, dtype=dtype, wrong=wrong):
                error = self.bad(safetensors.dump(tensors, dtype), mentions=[f"{name}[1][2][0][3]"])
                self.assertEqual(error["type"], "invalid_argument")

    def test_tensors_of_several_slices(self):
        """A slice of the body is 512 KiB of float32: v has three, and part of a fourth."""
        rows, columns = 1001, 400
        tensors = {"q": samples.normal(1, 1, 5), "k": samples.normal(2, rows, 5),
                   "v": samples.normal(3, rows, columns)}
        for dtype in safetensors.DATATYPES:
            held = {name: rounded(x, dtype) for name, x in tensors.items()}
            with self.subTest(dtype=dtype):
                self.same_bits(self.binary(safetensors.dump(tensors, dtype))[0],
                               self.json_of(held)[0])
                wrong = {**tensors, "v": tensors["v"].copy()}
                wrong["v"][900, 7] = wrong["v"][1000, 399] = np.nan
                self.bad(safetensors.dump(wrong, dtype), mentions=["v[900][7]"])

    def test_float64_beyond_float32(self):
        tensors = three((3, 2))
        tensors["k"] = tensors["k"].astype(np.float64)
        tensors["k"][2, 1] = 1e39
        self.bad(safetensors.dump(tensors, "F64"), mentions=["k[2][1]"])

    def test_types_that_are_not_read_are_refused_by_name(self):
        for dtype, size in (("I64", 8), ("U8", 1), ("F8_E4M3", 1), ("BOOL", 1), ("C64", 8),
                            ("I8", 1), ("nonsense", 1)):
            header = {"q": entry(dtype, [2, 2], 0, 4 * size)}
            with self.subTest(dtype=dtype):
                error = self.bad(frame(header, bytes(4 * size)), mentions=["q", dtype])
                self.assertEqual(error["param"], "q")


def rounded(x, dtype):
    """What is left of float32 values in another type, as float32."""
    if dtype == "BF16":
        words = np.frombuffer(client.to_bytes(x, "BF16"), "<u2").astype("<u4") << 16
        return words.view("<f4").reshape(x.shape)
    return x.astype(safetensors.READ[dtype]).astype(np.float32)


class Alignment(BinaryCase):
    def test_header_of_any_length(self):
        tensors = three((2, 11, 6))
        wanted, _ = self.json_of(tensors)
        shortest = int.from_bytes(safetensors.dump(tensors)[:8], "little")
        for more, dtype in itertools.product(range(9), ("F32", "F64")):
            with self.subTest(more=more, dtype=dtype):
                body = safetensors.dump(tensors, dtype, shortest + 2 + more)
                self.same_bits(self.binary(body)[0], wanted)

    def test_tensors_after_one_of_odd_size(self):
        """Five elements of two bytes move what follows off every boundary but that of two."""
        tensors, mask = three((5, 3)), np.array([1, 0, 1, 1, 1])
        for dtype in safetensors.DATATYPES:
            held = {**tensors, "q": rounded(tensors["q"], dtype)}
            wanted, _ = self.json_of(held, key_mask=mask.tolist())
            for order in itertools.permutations((*QKV, "key_mask")):
                every = {**tensors, "key_mask": mask}
                body = safetensors.dump({name: every[name] for name in order},
                                        {"key_mask": "F16", "q": dtype})
                self.same_bits(self.binary(body)[0], wanted, f"{dtype} {order}")

    def test_pieces_of_any_size(self):
        """The first pieces may even be shorter than the eight bytes of header length."""
        body = safetensors.dump(three((9, 4)))
        wanted, _ = self.binary(body)
        for sizes in ((1,), (1, 6), (3, 5), (7, 1), (8,), (9,), (len(body) - 1,), (1,) * len(body)):
            answer = self.chunked(body, sizes)
            with self.subTest(sizes=sizes[:3], count=len(sizes)):
                self.same_bits(safetensors.answer_of(answer)[0], wanted)

    def chunked(self, body, sizes):
        """Send `body` chunked in pieces of these sizes, the rest as one, each on its own."""
        request = head(Transfer_Encoding="chunked", Content_Type=safetensors.TYPE,
                       Accept=safetensors.TYPE)
        with self.daemon.socket() as plain:
            plain.setsockopt(client.socket.IPPROTO_TCP, client.socket.TCP_NODELAY, 1)
            plain.sendall(request)
            at = 0
            for size in (*sizes, len(body) - sum(sizes)):
                if size:
                    plain.sendall(b"%x\r\n%s\r\n" % (size, body[at:at + size]))
                at += size
            plain.sendall(b"0\r\n\r\n")
            return client.read_answer(plain)


class Masks(BinaryCase):
    def test_lengths(self):
        tensors = three((3, 2, 9, 4))
        for lengths, causal in itertools.product(([9, 4, 0], [1, 1, 1]), (False, True)):
            options = {"lengths": lengths, "causal": causal}
            self.same_bits(self.binary(tensors, options)[0], self.json_of(tensors, **options)[0],
                           str(options))

    def test_key_mask_is_a_tensor_of_the_body(self):
        tensors = three((2, 1, 6, 4))
        for mask in ([1, 0, 1, 1, 0, 0], [[1, 0, 1, 1, 0, 0], [0] * 6]):
            wanted, _ = self.json_of(tensors, key_mask=mask)
            for dtype in ("F32", "F16"):
                body = {**tensors, "key_mask": np.array(mask)}
                got, _ = self.binary(safetensors.dump(body, {"key_mask": dtype}))
                self.same_bits(got, wanted, f"{mask} {dtype}")

    def test_key_mask_in_the_query(self):
        tensors = three((2, 1, 6, 4))
        wanted, _ = self.json_of(tensors, key_mask=[1, 0, 1, 1, 0, 0])
        self.same_bits(self.binary(tensors, {"key_mask": "1,0,1,1,0,0"})[0], wanted, "query")
        body = safetensors.dump(tensors)
        for text in ("", "1,0,1,1,0", "1,0,1,1,0,2", "1,,0,1,1,0", "1,0,1,1,0,0,", "101100"):
            with self.subTest(text=text):
                self.bad(body, mentions=["key_mask"], options={"key_mask": text})
        self.bad(body, mentions=["q is a tensor"], options={"q": "1"})

    def test_key_mask_refused(self):
        tensors = three((2, 1, 4, 4))
        for mask, options, words in (([1, 1, 1], {}, [3, 4]), ([1, 1, 2, 1], {}, ["key_mask[2]"]),
                                     ([[1, 1, 0.5, 1]] * 2, {}, ["key_mask[0][2]"]),
                                     ([1, 1, 1, 1], {"lengths": [4, 4]}, ["lengths"])):
            body = safetensors.dump({**tensors, "key_mask": np.array(mask)})
            with self.subTest(mask=mask):
                self.bad(body, mentions=["key_mask", *words], options=options)

    def test_lengths_refused(self):
        tensors = safetensors.dump(three((2, 1, 4, 4)))
        for lengths in ("4", "4,5", "-1,4", "4,4,4", "", "4,", ",4", "4,,4", "4;4", "4, 4", "1.5,4",
                        "true,4", "1e1,4", "99999999999999999999,4", "[4,4]"):
            with self.subTest(lengths=lengths):
                error = self.bad(tensors, options={"lengths": lengths})
                self.assertTrue(error["param"].startswith("lengths"), error)


class Query(BinaryCase):
    # Every option field by kind: what is taken, and what is not.
    BOOLS = ("causal", "return_output", "measure_error", "params.orthogonal", "hints.long_range",
             "hints.locality")
    COUNTS = ("params.window", "params.stride", "params.summary", "params.k", "params.features")
    REALS = ("scale", "hints.max_relative_error", "hints.deadline_ms")
    TEXTS = ("backend", "model", "adapter", "params.pattern", "params.projection", "params.norm")
    GOOD_TEXTS = {"backend": "auto", "params.pattern": "strided", "params.projection": "mean",
                  "params.norm": "chi"}

    def taken(self, query):
        answer = self.post(GOOD, query)
        self.assertEqual(answer.status, 200, f"{query}: {answer}")
        return answer

    def refused_query(self, query, name, mentions=()):
        error = self.bad(safetensors.dump(GOOD), types=("invalid_argument",), options=query,
                         mentions=mentions)
        self.assertTrue(error.get("param", "").startswith(name), f"{query}: {error}")

    def test_booleans(self):
        for name in self.BOOLS:
            with self.subTest(name=name):
                for word in ("true", "false"):
                    self.taken(f"{name}={word}")
                for word in ("", "True", "1", "0", "yes", "true,false", "true%20", "null", "t"):
                    self.refused_query(f"{name}={word}", name)
                self.refused_query(name, name)

    def test_integers(self):
        for name in (*self.COUNTS, "params.seed"):
            with self.subTest(name=name):
                self.taken(f"{name}=7")
                for word in ("", "-1", "1.0", "1e3", "0x10", "%201", "7%20", "%2b7", "7,8", "seven",
                             "99999999999", "9" * 30):
                    if (name, word) != ("params.seed", "99999999999"):
                        self.refused_query(f"{name}={word}", name)
        self.taken("params.seed=0")
        for name in self.COUNTS:
            self.refused_query(f"{name}=0", name)

    def test_reals(self):
        for name in self.REALS:
            with self.subTest(name=name):
                for word in ("100000", "1e5", "1.5E+5", "100000.25"):
                    self.taken(f"{name}={word}".replace("+", "%2b"))
                for word in ("", "nan", "inf", "Infinity", "1e999", "0x1p3", "1,5", "%201x", "half",
                             "true", "[1]", '"1"', ".5", "1.", "%2b1"):
                    self.refused_query(f"{name}={word}", name)
        self.refused_query("hints.deadline_ms=-1", "hints.deadline_ms")

    def test_strings(self):
        for name in self.TEXTS:
            with self.subTest(name=name):
                if name in self.GOOD_TEXTS:
                    self.taken(f"{name}={self.GOOD_TEXTS[name]}")
                self.refused_query(f"{name}=", name)
                self.refused_query(f"{name}={'x' * 200}", name)
        self.refused_query("backend=exakt", "backend", ["exakt"])
        answer = self.post(GOOD, {"model": "demo"})
        self.check_error(answer, 404, ("not_found",), ["demo"])

    def test_nested_names_reach_their_fields(self):
        daemon = self.daemon
        keys = {name: np.ones((2, 1), np.float32) for name in QKV}
        self.refused_query("backend=exact&params.window=3", "params.window", ["window", "exact"])
        keys["k"] = keys["v"] = np.ones((4096, 1), np.float32)
        planned = safetensors.post(daemon, keys,
                                   {"hints.long_range": True}, path="/v1/plan").json
        self.assertEqual(planned["route"]["rule"], "medium")

    def test_options_act_as_in_json(self):
        tensors = three((2, 12, 8))
        for options in ({"causal": True}, {"scale": -0.25}, {"scale": 1e-3, "causal": True},
                        {"lengths": [7]}, {"backend": "exact"}, {"hints.locality": True},
                        {"causal": True, "lengths": [3], "scale": 2, "backend": "exact"}):
            fields = {name: value for name, value in options.items() if "." not in name}
            with self.subTest(**fields):
                self.same_bits(self.binary(tensors, options)[0], self.json_of(tensors, **fields)[0])

    def test_unknown(self):
        for query, name in (("casual=true", "casual"), ("params.windw=1", "params.windw"),
                            ("hints.x=1", "hints.x"), ("window=3", "window"),
                            ("params=1", "params"),
                            ("params.=1", "params."), (".window=1", ".window"),
                            ("params.window.x=1", "params.window.x"), ("q=1", "q"),
                            ("shape.n=3", "shape"),
                            ("Causal=true", "Causal"), ("=true", ""), ("causal[]=true", "causal[]"),
                            ("x" * 300 + "=1", "xxx")):
            with self.subTest(query=query[:40]):
                self.refused_query(query, name)
        self.refused_query("causal=true&casual=true", "casual")

    def test_duplicates(self):
        for query, name in (("causal=true&causal=true", "causal"), ("scale=1&scale=2", "scale"),
                            ("lengths=2&lengths=2", "lengths"),
                            ("causal=true&c%61usal=false", "causal"),
                            ("params.seed=1&causal=true&params.seed=1", "params.seed")):
            with self.subTest(query=query):
                self.refused_query(query, name, ["twice"])

    def test_percent_encoding(self):
        tensors = three((2, 2, 5, 4))
        wanted, _ = self.json_of(tensors, lengths=[5, 2], causal=True)
        for query in ("lengths=5%2C2&causal=true", "l%65ngths=%35,2&%63ausal=tru%65",
                      "causal=%74%72%75%65&lengths=5%2c2"):
            self.same_bits(self.binary(tensors, query)[0], wanted, query)
        for query in ("causal=%", "causal=tru%6", "causal=%zz", "causal=%74rue%0a",
                      "backend=%c3%28", "backend=%ff"):
            with self.subTest(query=query):
                self.refused_query(query, query.split("=")[0])
        for query in ("%ff%fe=1", "%22%5c%0a=1", "%c3%28=1", "\xc3\xa9".encode().hex()):
            with self.subTest(query=query):
                self.bad(safetensors.dump(GOOD), options=query)

    def test_nothing_hides_behind_a_nul(self):
        for query in ("causal=true%00", "causal=true%00x", "causal=%00true", "scale=1%00",
                      "causal%00x=true", "%00=true", "causal=true&scale=1%00e5"):
            with self.subTest(query=query):
                self.refused_query(query, "query")

    def test_separators(self):
        for query in ("causal=true&", "&causal=true", "causal=true&&scale=1"):
            with self.subTest(query=query):
                self.assertIn(self.post(GOOD, query).status, (200, 400))
        self.taken("")
        self.refused_query("causal=true;scale=1", "causal")

    def test_many(self):
        query = "&".join(f"params.x{i}=1" for i in range(500))
        self.bad(safetensors.dump(GOOD), options=query)

    def test_options_in_the_query_of_a_json_body(self):
        for query in ("causal=true", "x=1", "params.window=3", "causal"):
            with self.subTest(query=query):
                answer = self.daemon.post(f"/v1/attend?{query}", as_json(GOOD))
                error = self.check_error(answer, 400, BOTH, ["query"])
                self.assertEqual(error["param"], query.split("=")[0])
        self.assertEqual(self.daemon.post("/v1/attend?", as_json(GOOD)).status, 200)


class Tensors(BinaryCase):
    def test_sizes_that_do_not_fit_together(self):
        def shapes(q, k, v):
            return {name: np.ones(shape) for name, shape in zip(QKV, (q, k, v))}

        for tensors, name in ((shapes((4,), (4,), (4,)), "q"),
                              (shapes((2, 2), (2, 2), (1, 2, 2)), "v"),
                              (shapes((2, 2), (2, 3), (2, 2)), "k"),
                              (shapes((2, 2), (2, 2), (3, 2)), "v"),
                              (shapes((3, 2, 2), (2, 2, 2), (2, 2, 2)), ""),
                              (shapes((2, 1, 2, 2), (1, 1, 2, 2), (1, 1, 2, 2)), "k"),
                              (shapes((1,) * 5, (1,) * 5, (1,) * 5), "q"),
                              (shapes((), (1, 1), (1, 1)), "q"),
                              (shapes((0, 2), (2, 2), (2, 2)), "q"),
                              (shapes((2, 2), (0, 2), (0, 2)), "k")):
            with self.subTest({name: x.shape for name, x in tensors.items()}):
                error = self.bad(safetensors.dump(tensors))
                self.assertTrue((error.get("param") or "").startswith(name), error)

    def test_missing(self):
        for name in QKV:
            with self.subTest(missing=name):
                rest = {other: x for other, x in GOOD.items() if other != name}
                self.assertEqual(self.bad(safetensors.dump(rest))["param"], name)
        self.bad(safetensors.dump({}))

    def test_unknown_tensor(self):
        for name in ("w", "Q", "q.weight", "", "output", "\u00e9", "\ud83d\ude00" * 30):
            with self.subTest(name=name):
                self.bad(safetensors.dump({**GOOD, name: Q}))

    def test_input_goes_with_a_model(self):
        self.bad(safetensors.dump({"input": Q}), mentions=["input"])

    def test_metadata_of_the_request_is_ignored(self):
        body = safetensors.dump(GOOD, metadata={"format": "pt", "causal": "true"})
        self.same_bits(self.binary(body)[0], self.binary(GOOD)[0])


class Hostile(BinaryCase):
    def test_truncated(self):
        body = safetensors.dump(GOOD)
        for length in (*range(0, 12), len(body) // 2, len(body) - 5, len(body) - 1):
            with self.subTest(length=length):
                self.bad(body[:length], types=("malformed",))

    def test_trailing(self):
        for more in (b"\0", b" ", bytes(1000)):
            self.bad(safetensors.dump(GOOD) + more, types=("malformed",), mentions=["trailing"])

    def test_places_in_the_data(self):
        one = entry("F32", [4], 0, 16)
        for why, second, size, word in (
                ("overlap", entry("F32", [4], 8, 24), 24, "overlap"),
                ("the same bytes", one, 16, "overlap"),
                ("gap", entry("F32", [4], 20, 36), 36, "gap"),
                ("too short", entry("F32", [4], 16, 28), 28, "16"),
                ("backwards", entry("F32", [4], 32, 16), 32, "begin"),
                ("past the end", entry("F32", [4], 16, 32), 28, "truncated"),
                ("far", entry("F32", [2**60], 16, 16 + 2**62), 32, "truncated")):
            with self.subTest(why):
                self.bad(frame({"q": one, "k": second}, bytes(size)), types=("malformed",),
                         mentions=[word])
        self.bad(frame({"q": entry("F32", [4], 4, 20)}, bytes(20)), mentions=["gap"])

    def test_duplicate_names(self):
        one = json.dumps(entry("F32", [4], 0, 16))
        two = json.dumps(entry("F32", [4], 16, 32))
        for names in ('"q": %s, "q": %s', '"q": %s, "\\u0071": %s'):
            header = "{" + names % (one, two) + "}"
            self.bad(frame(header, bytes(32)), types=("malformed",), mentions=["duplicate"])

    def test_header_length(self):
        for length in (2**63, 2**64 - 1, 2**64 - 8, 2**32, 100_000_001, 2**31, 10_000, 0):
            with self.subTest(length=length):
                self.bad(length.to_bytes(8, "little") + b"{}" + bytes(100), types=("malformed",))

    def test_headers(self):
        good = '{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
        for header in (b"", b"[]", b"null", b"5", b"{", b'{"q"}', b'{"q":}', b'{"q":5}',
                       b'{"q":[]}',
                       b'{"q":{}}', b"\xff\xfe{}", b"{}\0", b"{}x", b" {}", 
                       b'{"q":' + b"[" * 100_000,
                       b'{"q":{"dtype":' + b'{"a":' * 50_000,
                       '{"q":%s,}' % good, '{"q":%s "k":%s}' % (good, good),
                       '{"q":{"dtype":"F32","shape":[1]}}',
                       '{"q":{"shape":[1],"data_offsets":[0,4]}}',
                       '{"q":{"dtype":"F32","data_offsets":[0,4]}}',
                       '{"q":{"dtype":5,"shape":[1],"data_offsets":[0,4]}}',
                       '{"q":{"dtype":"F32","shape":1,"data_offsets":[0,4]}}',
                       '{"q":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}',
                       '{"q":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}}',
                       '{"q":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}}',
                       '{"q":{"dtype":"F32","shape":[true],"data_offsets":[0,4]}}',
                       '{"q":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}}',
                       '{"q":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]}}',
                       '{"q":{"dtype":"F32","shape":[1],"data_offsets":[0]}}',
                       '{"q":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}}',
                       '{"q":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}',
                       '{"q":{"dtype":"F32","shape":[1],"data_offsets":[0,4.0]}}',
                       '{"q":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}',
                       '{"q":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}}',
                       '{"q":{"dtype":"F32","dtype":"F16","shape":[1],"data_offsets":[0,4]}}',
                       '{"__metadata__":5,"q":%s}' % good, '{"__metadata__":{"a":5},"q":%s}' % good,
                       '{"__metadata__":{"a":"b","a":"c"},"q":%s}' % good):
            with self.subTest(header=header[:60]):
                self.bad(frame(header, bytes(4)), types=("malformed",))

    def test_header_that_only_costs(self):
        """Names and metadata without end are bounded before they are read."""
        many = {f"t{i}": entry("F32", [0], 0, 0) for i in range(3000)}
        self.bad(frame(many, b""))
        self.bad(frame({"__metadata__": {"x": "y" * 2**20}}, b""), mentions=["header"])
        self.bad(frame("{" + " " * 2**20 + "}", b""), mentions=["header"])

    def test_json_sent_as_safetensors_and_the_other_way_round(self):
        for text in (json.dumps(as_json(GOOD)).encode(), b"{}"):
            self.bad(text, types=("malformed",), mentions=["application/json"])
        answer = self.daemon.post("/v1/attend", safetensors.dump(GOOD))
        self.check_error(answer, 400, ("malformed",))

    def test_noise(self):
        rng = np.random.default_rng(8)
        body = safetensors.dump(GOOD)
        for i in range(200):
            spoilt = bytearray(body)
            for at in rng.integers(0, len(body) - 48, 1 + i % 4):
                spoilt[at] = rng.integers(0, 256)
            answer = self.post(bytes(spoilt))
            self.assertIn(answer.status, (200, 400, 422), f"{bytes(spoilt)!r}: {answer}")
