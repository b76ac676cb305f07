"""Whether a JSON value is what a schema of /openapi.json says: the part of JSON schema used there."""

TYPES = {"null": type(None), "boolean": bool, "integer": int, "number": (int, float), "string": str,
         "array": list, "object": dict}


def target(document, reference):
    """What a local $ref points at; KeyError when nothing does."""
    assert reference.startswith("#/"), reference
    for key in reference[2:].split("/"):
        document = document[key.replace("~1", "/").replace("~0", "~")]
    return document


def resolved(document, schema):
    return target(document, schema["$ref"]) if "$ref" in schema else schema


def faults(document, schema, value, path="$"):
    """Everything that is wrong with the value, as sentences. A member that no schema lists is one:
    answers hold what is described, and no more."""
    schema = resolved(document, schema)
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            found = [faults(document, below, value, path) for below in schema[choice]]
            if all(found):
                return [f"{path} is none of {choice}: {sum(found, [])}"]
            return []
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{path} is {value!r}, not of {schema['enum']}"]
    kind = schema["type"]
    if not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return [f"{path} is {value!r}, expected {kind}"]
    if kind == "array" and "items" in schema:
        return [fault for i, below in enumerate(value)
                for fault in faults(document, schema["items"], below, f"{path}[{i}]")]
    return members(document, schema, value, path) if kind == "object" else []


def members(document, schema, value, path):
    """The faults of an object; one whose schema lists nothing may hold anything."""
    listed, others = schema.get("properties", {}), schema.get("additionalProperties")
    wrong = [f"{path} lacks {name}" for name in schema.get("required", ()) if name not in value]
    for name, below in value.items():
        expected = listed.get(name, others)
        if isinstance(expected, dict):
            wrong += faults(document, expected, below, f"{path}.{name}")
        elif listed or others is False:
            wrong.append(f"{path}.{name} is not described")
    return wrong
