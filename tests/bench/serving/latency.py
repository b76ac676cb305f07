"""How long the short wait for the long, and how soon work without a client ends."""

import time

import row
from load import (BINARY_TYPE, JSON_TYPE, ask, binary_body, busy_text, computing, daemon_of, fetch,
                  latencies_ms, p99, path_with, queue_depth)

HEALTH_P99_MS = 50
BESIDE_LONG = 3
CANCEL_MS = 100
ASKED = 1000
BUSY_MS = 60000  # longer than anything measured beside it takes
LONG_N = 65536


def health(daemon):
    """Every worker computes; one client asks again and again."""
    rows = []
    with computing(daemon, busy_text(daemon, BUSY_MS)):
        for path in ("/healthz", "/metrics"):
            connection = daemon.connect()
            found = p99(latencies_ms(lambda: fetch(connection, path), ASKED))
            connection.close()
            rows.append(row.at_most(f"p99 of {path}, every worker busy", HEALTH_P99_MS, found,
                                    ".1f", " ms"))
    return rows


def short_beside_long(daemon):
    connection, body = daemon.connect(), binary_body(512)
    short = lambda: ask(connection, body)  # noqa: E731
    latencies_ms(short, 50)
    alone = p99(latencies_ms(short, ASKED))
    long_path = path_with(backend="exact", return_output=False)
    with computing(daemon, binary_body(LONG_N, heads=4), long_path, BINARY_TYPE):
        beside = latencies_ms(short, ASKED, lambda: queue_depth(daemon) >= 1)
    connection.close()
    ratio = p99(beside) / alone
    return [row.at_most(f"p99 of n = 512 while n = {LONG_N} exact runs / alone "
                        f"({alone:.2f} ms, {len(beside)} asked)", BESIDE_LONG, ratio, ".2f")]


def cancel(daemon, times=20):
    """From closing the socket until the queue is empty, as /metrics sees it."""
    found, body = [], busy_text(daemon, BUSY_MS)
    for _ in range(times):
        connection = daemon.connect()
        connection.request("POST", "/v1/attend", body, JSON_TYPE)
        while queue_depth(daemon) < 1:
            pass
        time.sleep(0.05)
        began = time.perf_counter()
        connection.close()
        while queue_depth(daemon) > 0:
            pass
        found.append((time.perf_counter() - began) * 1e3)
    return [row.at_most(f"client gone -> tiles stop, the slowest of {times}", CANCEL_MS, max(found),
                        ".1f", " ms")]


def measure():
    with daemon_of() as daemon:
        return [*health(daemon), *short_beside_long(daemon), *cancel(daemon)]
