"""Requests, and how to keep a daemon busy with them while something else is measured."""

import contextlib
import time

import client
import numpy as np
import safetensors
import samples
import work
from exposition import value
from test_ops import scrape, scrape_until

ATTEND = "/v1/attend"
JSON_TYPE = {"Content-Type": "application/json"}
BINARY_TYPE = {"Content-Type": safetensors.TYPE, "Accept": safetensors.TYPE}


def arrays(n, d=64, heads=1):
    return {name: samples.normal(seed, heads, n, d) for seed, name in enumerate("qkv")}


def binary_body(n, d=64, heads=1):
    return safetensors.dump(arrays(n, d, heads))


def path_with(**options):
    return f"{ATTEND}?{safetensors.query_of(options)}"


def ask(connection, body, path=ATTEND, headers=None):
    """One request on a connection that stays open, and its whole answer."""
    connection.request("POST", path, body, headers or BINARY_TYPE)
    return client.Answer(connection.getresponse())


def fetch(connection, path):
    connection.request("GET", path)
    return client.Answer(connection.getresponse())


def timed(call):
    """Milliseconds that a call took, and what it returned."""
    began = time.perf_counter()
    result = call()
    return (time.perf_counter() - began) * 1e3, result


def latencies_ms(call, count, going_on=lambda: True):
    """Of up to `count` calls one after the other, each answered 200, while `going_on()`."""
    found = []
    while len(found) < count and going_on():
        elapsed, answer = timed(call)
        assert answer.status == 200, str(answer)
        found.append(elapsed)
    return found


def p99(found):
    return float(np.percentile(found, 99, method="higher"))


def queue_depth(daemon):
    return value(scrape(daemon), "attnd_queue_depth")


def resident_bytes(daemon, field="VmRSS"):
    """Resident set of the daemon; field VmHWM is the most there ever was."""
    with open(f"/proc/{daemon.pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/{daemon.pid}/status has no {field}")


@contextlib.contextmanager
def daemon_of(*flags, workers=2):
    daemon = client.Daemon("--log-level", "warn", *flags, workers=workers)
    try:
        yield daemon
    finally:
        code = daemon.stop()
        if code != 0:
            raise RuntimeError(f"the daemon ended with {code}: {daemon.log_text()[-2000:]}")


@contextlib.contextmanager
def computing(daemon, body, path=ATTEND, headers=None):
    """A request that is being computed meanwhile; leaving closes its connection."""
    connection = daemon.connect()
    connection.request("POST", path, body, headers or JSON_TYPE)
    scrape_until(daemon, lambda families: value(families, "attnd_queue_depth") >= 1)
    try:
        yield connection
    finally:
        connection.close()
        scrape_until(daemon, lambda families: value(families, "attnd_queue_depth") == 0)


def busy_text(daemon, wanted_ms):
    """A JSON body that takes about so long to compute."""
    return client.json.dumps(work.busy_body(daemon, wanted_ms))
