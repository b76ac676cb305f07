"""safetensors in numpy and struct, and how to send it: a writer that can also write what is wrong.

A dtype is the format's own name; an array of another type is converted to it.
"""

import json
import struct
from urllib.parse import urlencode

import client
import numpy as np

TYPE = "application/vnd.safetensors"
DATATYPES = {"F32": "FP32", "F16": "FP16", "BF16": "BF16", "F64": "FP64"}
READ = {"F32": "<f4", "F16": "<f2", "F64": "<f8"}


def frame(header, data):
    """A file of a header (text, bytes or a document) and its data, whatever they say."""
    if isinstance(header, dict):
        header = json.dumps(header)
    if isinstance(header, str):
        header = header.encode()
    return struct.pack("<Q", len(header)) + header + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def dump(tensors, dtypes=None, header_length=None, metadata=None):
    """A file of {name: array}, in that order. `dtypes` is one name for all or {name: dtype}, F32
    where it says nothing; `header_length` pads the header with spaces up to that."""
    header, data = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, x in tensors.items():
        dtype = dtypes if isinstance(dtypes, str) else (dtypes or {}).get(name, "F32")
        packed = client.to_bytes(np.asarray(x), DATATYPES[dtype])
        header[name] = entry(dtype, np.shape(x), len(data), len(data) + len(packed))
        data += packed
    return frame(padded(json.dumps(header), header_length), data)


def padded(header, length):
    """The header with spaces up to `length`, which must be enough."""
    if length is None:
        return header
    assert len(header) <= length, f"the header alone has {len(header)} bytes"
    return header.ljust(length)


def load(body):
    """({name: array}, metadata) of a file that must be right in every byte."""
    length, = struct.unpack_from("<Q", body)
    header = json.loads(body[8:8 + length], parse_constant=client.refuse_constant)
    data, tensors, covered = body[8 + length:], {}, 0
    metadata = header.pop("__metadata__", {})
    for name, told in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = told["data_offsets"]
        assert begin == covered, f"{name} begins at {begin}, expected {covered}"
        tensors[name] = floats(data[begin:end], told["dtype"]).reshape(told["shape"])
        covered = end
    assert covered == len(data), f"{len(data) - covered} trailing bytes"
    return tensors, metadata


def floats(data, dtype):
    """Bytes as an array; BF16, which numpy lacks, widened to float32."""
    if dtype == "BF16":
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    return np.frombuffer(data, READ[dtype])


def query_of(options):
    """Options as a query string: true and false in lower case, lists with commas."""
    return urlencode({name: spelled(value) for name, value in options.items()}, safe=",")


def spelled(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(str(element) for element in value)
    return str(value)


def post(daemon, body, options=None, accept=None, path="/v1/attend"):
    """POST a file, or a dict of arrays; `options` are a dict or a query string as it is."""
    if isinstance(body, dict):
        body = dump(body)
    query = query_of(options) if isinstance(options, dict) else options
    headers = {"Content-Type": TYPE, **({"Accept": accept} if accept else {})}
    return daemon.request("POST", f"{path}?{query}" if query else path, body, headers)


def answer_of(answer):
    """A binary 200 as (output or None, the other fields as a JSON answer would hold them)."""
    assert answer.status == 200, str(answer)
    assert answer.headers["Content-Type"] == TYPE, answer.headers["Content-Type"]
    tensors, metadata = load(answer.body)
    assert set(tensors) <= {"output"}, set(tensors)
    fields = {name: json.loads(text, parse_constant=client.refuse_constant)
              for name, text in metadata.items()}
    return tensors.get("output"), fields
