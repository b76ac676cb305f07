"""GET /openapi.json: a valid document that says what the daemon does, no more and no less."""

import re
import unittest

import client
import numpy as np
import safetensors
from schema import resolved, target
from test_errors import GOOD

METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}
# Everything that may be there; what answers 404 is not, and then not in the document either.
CANDIDATES = ("/", "/v1/attend", "/v1/plan", "/v1/analyze", "/v1/models", "/v2", "/v2/health/live",
              "/v2/health/ready", "/healthz", "/readyz", "/metrics", "/openapi.json",
              "/v2/repository/index", "/v2/repository", "/v1", "/v1/streams")
ROUTES_WITH_TENSORS = ("/v1/attend", "/v1/plan", "/v1/analyze")
BINARY_GOOD = {name: np.array(x, np.float32) for name, x in GOOD.items()}
WRONG = {"boolean": "yes", "integer": "many", "number": "much", "string": 5, "array": "list",
         "object": 7}


def walk(node, path=""):
    """Every (path, node) of a document."""
    yield path, node
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(
        node, list) else ()
    for key, below in pairs:
        yield from walk(below, f"{path}/{key}")


def filled(path):
    """The path with a model's name in it; the daemon has no models."""
    return path.replace("{m}", "demo")


def refusal(path):
    """What a body with nothing in it gets: models are not changed on request here."""
    return 403 if path.startswith("/v2/repository") else 400


class OpenApi(unittest.TestCase):
    def setUp(self):
        self.daemon = client.shared()
        answer = self.daemon.get("/openapi.json")
        self.assertEqual(answer.status, 200, str(answer))
        self.assertEqual(answer.headers["Content-Type"], "application/json")
        self.document = answer.json

    def operations(self):
        for path, item in self.document["paths"].items():
            for method in set(item) & METHODS:
                yield path, method, item[method]

    def test_structure(self):
        self.assertRegex(self.document["openapi"], r"\A3\.1\.\d+\Z")
        for name in ("title", "version"):
            self.assertTrue(self.document["info"][name])
        for path, item in self.document["paths"].items():
            self.assertTrue(path.startswith("/"), path)
            self.assertTrue(set(item) & METHODS, path)
        for path, method, operation in self.operations():
            with self.subTest(path=path, method=method):
                self.assertTrue(operation["responses"])
                for status, response in operation["responses"].items():
                    self.assertRegex(status, r"\A([1-5]\d\d|default)\Z")
                    self.assertTrue(response["description"])
                if "requestBody" in operation:
                    self.assertTrue(operation["requestBody"]["content"])
                    self.assertNotIn(method, ("get", "head"))

    def parameters(self, operation, place):
        return [parameter["name"] for parameter in operation.get("parameters", ())
                if parameter["in"] == place]

    def test_parameters_are_those_of_the_path(self):
        for path, method, operation in self.operations():
            told = self.parameters(operation, "path")
            self.assertEqual(told, re.findall(r"{(\w+)}", path), f"{method} {path}")

    def test_the_query_has_every_option_of_the_body(self):
        for path, method, operation in self.operations():
            wanted = []
            if safetensors.TYPE in operation.get("requestBody", {}).get("content", {}):
                kinds = dict(self.kinds(self.schema_of(path)))
                wanted = [name for name, kind in kinds.items() if kind not in ("tensor", "object")]
                wanted += ["key_mask"] if "key_mask" in kinds else []
            told = self.parameters(operation, "query")
            self.assertEqual(sorted(told), sorted(wanted), f"{method} {path}")

    def test_parameters_of_the_query_are_those_that_are_taken(self):
        for route in ROUTES_WITH_TENSORS:
            for name in self.parameters(self.document["paths"][route]["post"], "query"):
                if name in ("model", "adapter"):  # any text is one
                    continue
                answer = safetensors.post(self.daemon, BINARY_GOOD, {name: "~"}, path=route)
                with self.subTest(route=route, name=name):
                    self.assertEqual(answer.status, 400, str(answer))
                    error = answer.json["error"]
                    self.assertTrue(error["param"].startswith(name), error)
                    self.assertNotIn("not a known", error["message"])

    def words(self, schema, prefix=""):
        """(path, words) of every field that is one of some words."""
        for name, below in schema["properties"].items():
            if "enum" in below:
                yield prefix + name, below["enum"]
            elif below.get("type") == "object":
                yield from self.words(below, f"{prefix}{name}.")

    def test_words_are_those_that_are_taken(self):
        seen = set()
        for route in ROUTES_WITH_TENSORS:
            for path, words in self.words(self.schema_of(route)):
                seen.add(path)
                for word in [*words, "some", words[0].upper(), words[0] + "x"]:
                    answer = self.daemon.post(route, self.with_field(path, word))
                    with self.subTest(route=route, path=path, word=word):
                        if word in words:
                            self.assertIn(answer.status, (200, 422), str(answer))
                        else:
                            self.assertEqual(answer.status, 400, str(answer))
                            self.assertEqual(answer.json["error"]["param"], path)
        self.assertEqual(seen, {"backend", "params.pattern", "params.projection", "params.norm"})

    def test_references_have_targets(self):
        references = [node["$ref"] for _, node in walk(self.document)
                      if isinstance(node, dict) and isinstance(node.get("$ref"), str)]
        self.assertTrue(references)
        for reference in references:
            self.assertIsInstance(target(self.document, reference), dict, reference)

    def test_schemas_are_sound(self):
        for path, node in walk(self.document):
            if not isinstance(node, dict):
                continue
            with self.subTest(path=path):
                for name in set(node.get("required", ())) if isinstance(
                        node.get("required"), list) else ():
                    self.assertIn(name, node["properties"])
                if isinstance(node.get("enum"), list):
                    self.assertEqual(len(node["enum"]), len(set(node["enum"])), node["enum"])
                if isinstance(node.get("maximum"), (int, float)):
                    self.assertLessEqual(node["minimum"], node["maximum"])

    def test_routes_answer_as_it_says(self):
        for path, method, operation in self.operations():
            with self.subTest(path=path, method=method):
                if method == "get":
                    answer = self.daemon.get(filled(path))
                    self.assertEqual(answer.status, 404 if "{m}" in path else 200, str(answer))
                else:
                    answer = self.daemon.post(filled(path), {})
                    self.assertEqual(answer.status, refusal(path), str(answer))
                self.assertIn(str(answer.status), operation["responses"])

    def test_methods_it_does_not_list_are_refused(self):
        listed = {(path, method) for path, method, _ in self.operations()}
        for path in self.document["paths"]:
            for method in ("get", "post", "put", "delete"):
                if (path, method) not in listed:
                    answer = self.daemon.request(method.upper(), filled(path))
                    self.assertEqual(answer.status, 405, f"{method} {path}: {answer}")

    def test_routes_that_answer_are_in_it(self):
        for path in CANDIDATES:
            there = self.daemon.get(path).status != 404
            self.assertEqual(path in self.document["paths"], there, path)

    def test_media_types_are_those_that_are_taken(self):
        for path, method, operation in self.operations():
            for kind in operation.get("requestBody", {}).get("content", {}):
                answer = self.daemon.request(method.upper(), filled(path), "",
                                             {"Content-Type": kind})
                self.assertEqual(answer.status, refusal(path), f"{path} {kind}: {answer}")

    def schema_of(self, path):
        body = self.document["paths"][path]["post"]["requestBody"]
        return resolved(self.document, body["content"]["application/json"]["schema"])

    def kinds(self, schema, prefix=""):
        """(path, type) of every field of a schema, groups and their members both."""
        for name, below in schema["properties"].items():
            if "$ref" in below:
                yield prefix + name, "tensor"
            else:
                yield prefix + name, below["type"]
                if below["type"] == "object":
                    yield from self.kinds(below, f"{prefix}{name}.")

    def with_field(self, path, value):
        group, _, member = path.partition(".")
        return {**GOOD, group: {member: value} if member else value}

    def test_fields_are_those_that_are_taken(self):
        for route in ROUTES_WITH_TENSORS:
            schema = self.schema_of(route)
            self.assertIs(schema["additionalProperties"], False)
            for path, kind in self.kinds(schema):
                wrong = WRONG.get(kind, "text")
                answer = self.daemon.post(route, self.with_field(path, wrong))
                with self.subTest(route=route, path=path, wrong=wrong):
                    self.assertEqual(answer.status, 400, str(answer))
                    error = answer.json["error"]
                    self.assertTrue(error["param"].startswith(path), error)
                    self.assertNotIn("not a known", error["message"])

    def test_fields_it_does_not_list_are_refused(self):
        for route in ROUTES_WITH_TENSORS:
            listed = {path for path, _ in self.kinds(self.schema_of(route))}
            groups = ("", "params.", "hints.")
            for path in [group + name for group in groups for name in ("x", "q", "causal", "n")]:
                if path not in listed:
                    answer = self.daemon.post(route, self.with_field(path, True))
                    self.assertEqual(answer.status, 400, f"{path}: {answer}")

    def test_bounds_are_those_that_are_held(self):
        for route in ROUTES_WITH_TENSORS:
            for path, kind in self.kinds(self.schema_of(route)):
                if kind not in ("integer", "number"):
                    continue
                node = self.schema_of(route)
                for key in path.split("."):
                    node = node["properties"][key]
                for outside in (10 * node["maximum"], min(-1, 10 * node["minimum"])):
                    answer = self.daemon.post(route, self.with_field(path, outside))
                    self.assertEqual(answer.status, 400, f"{route} {path}: {answer}")

    def test_error_types_are_those_that_are_given(self):
        error = self.document["components"]["schemas"]["Error"]["properties"]["error"]
        types = error["properties"]["type"]["enum"]
        for document, headers in (("{", {}), ({}, {}), (GOOD, {"Content-Type": "text/plain"}),
                                  ({**GOOD, "backend": "mamba"}, {})):
            told = self.daemon.post("/v1/attend", document, headers).json["error"]
            self.assertIn(told["type"], types)
            self.assertLessEqual(set(told), set(error["properties"]))
            self.assertLessEqual(set(error["required"]), set(told))
