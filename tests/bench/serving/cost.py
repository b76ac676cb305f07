"""How near predictions come: a mixed load, and the shares of attnd_cost_prediction_ratio."""

import random
import tempfile
import threading

import client
import row
from formats import nested
from load import ATTEND, BINARY_TYPE, JSON_TYPE, arrays, ask, daemon_of, path_with
from safetensors import dump
from test_ops import scrape

RATIO = "attnd_cost_prediction_ratio"
LOW, HIGH = 0.7, 1.4
SHARE = 0.9
RAW = ("exact", "window", "sparse", "linformer", "performer")
MODEL = RAW + ("mamba", "hybrid")
LENGTHS = (16, 48, 128, 500, 1024, 4096, 16384)
HIDDEN = 256
CLIENTS = 4
TIMES = 3  # every kind of request, by one client and by several


def raw_requests():
    """(path, body, headers) of raw calls; what is sampled or longest stays with one head."""
    for n in LENGTHS:
        heads = 4 if n <= 1024 else 1
        tensors = arrays(n, 64, heads)
        text = ",".join(f'"{name}":{nested(x)}' for name, x in tensors.items())
        stored = dump(tensors)
        for backend in RAW:
            yield ATTEND, f'{{"backend":"{backend}",{text}}}'.encode(), JSON_TYPE
            yield path_with(backend=backend), stored, BINARY_TYPE
            if backend != "linformer":
                yield path_with(backend=backend, causal=True), stored, BINARY_TYPE


def model_requests():
    for n in LENGTHS:
        x = arrays(n, HIDDEN)["q"]
        stored = dump({"input": x})
        text = nested(x)
        for backend in MODEL:
            options = {"model": "demo", "backend": backend, "causal": backend in ("mamba", "hybrid")}
            yield path_with(**options), stored, BINARY_TYPE
            if n <= 4096:
                causal = "true" if options["causal"] else "false"
                yield (ATTEND, f'{{"model":"demo","backend":"{backend}","causal":{causal},'
                               f'"input":{text}}}'.encode(), JSON_TYPE)


def send(daemon, requests):
    connection = daemon.connect()
    for path, body, headers in requests:
        answer = ask(connection, body, path, headers)
        assert answer.status == 200, str(answer)
    connection.close()


def send_at_once(daemon, requests):
    threads = [threading.Thread(target=send, args=(daemon, requests[i::CLIENTS]))
               for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def buckets(daemon):
    """{backend: {edge: requests at or below it}}."""
    found = {}
    for (name, labels), count in scrape(daemon)[RATIO].samples.items():
        if name == RATIO + "_bucket":
            labels = dict(labels)
            found.setdefault(labels["backend"], {})[labels["le"]] = count
    return found


def within(counts):
    """(requests within the bounds, requests)."""
    return counts[str(HIGH)] - counts[str(LOW)], counts["+Inf"]


def line(what, pairs):
    inside, total = (sum(column) for column in zip(*pairs))
    return row.at_least(f"requests within {LOW} to {HIGH} of their prediction, {what} "
                        f"({total:.0f})", SHARE, inside / total, ".3f")


def measure():
    requests = [*raw_requests(), *model_requests()]
    random.Random(1).shuffle(requests)
    with tempfile.TemporaryDirectory() as folder:
        made = client.run_command("init-model", f"{folder}/demo", "--dim", str(HIDDEN))
        assert made.returncode == 0, made.stderr
        with daemon_of("--model-dir", folder) as daemon:
            for _ in range(TIMES):
                send(daemon, requests)
                send_at_once(daemon, requests)
            found = {backend: within(counts) for backend, counts in buckets(daemon).items()}
    return [line("mixed", list(found.values())),
            *(line(backend, [pair]) for backend, pair in sorted(found.items()))]
