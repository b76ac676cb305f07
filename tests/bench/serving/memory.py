"""What the resident set grows by, and whether it shrinks again."""

import json
import threading
import time

import row
from load import (BINARY_TYPE, JSON_TYPE, arrays, ask, binary_body, busy_text, daemon_of, path_with,
                  resident_bytes)

GROWTH = 1.5
IDLE_GROWTH = 1.1
MIXED_GROWTH = 1.05
IDLE_S = 10
LONG_N, LONG_HEADS, LONG_D = 65536, 4, 64
LARGE_BYTES = 256 << 20
MIXED_FIRST, MIXED_LEVEL, MIXED = 1000, 10_000, 100_000
CLIENTS = 8


def warm(daemon):
    """Small requests of each kind, so that what every process needs once is there."""
    connection = daemon.connect()
    for n in (16, 512, 4096):
        for _ in range(20):
            assert ask(connection, binary_body(n)).status == 200
    connection.close()


def growth(daemon):
    """The peak of one long request, answer included, over what came in and went out."""
    before = resident_bytes(daemon)
    body = binary_body(LONG_N, LONG_D, LONG_HEADS)
    connection = daemon.connect()
    answer = ask(connection, body, path_with(backend="exact"))
    connection.close()
    assert answer.status == 200, str(answer)
    ratio = (resident_bytes(daemon, "VmHWM") - before) / (len(body) + len(answer.body))
    return [row.at_most(f"n = {LONG_N}, d = {LONG_D}, {LONG_HEADS} heads, binary: resident growth "
                        "/ (input + output bytes)", GROWTH, ratio, ".2f")]


def idle(daemon):
    before = resident_bytes(daemon)
    d, heads = 64, 4
    n = LARGE_BYTES // (3 * heads * d * 4)
    connection = daemon.connect()
    answer = ask(connection, binary_body(n, d, heads), path_with(backend="window", **{"params.window": 64}))
    connection.close()
    assert answer.status == 200, str(answer)
    time.sleep(IDLE_S)
    ratio = resident_bytes(daemon) / before
    return [row.at_most(f"resident {IDLE_S} s after a 256 MiB request / before "
                        f"({before >> 20} MiB)", IDLE_GROWTH, ratio, ".2f")]


def mixed_bodies(daemon):
    """(path, body, headers): formats, sizes, backends, and what is refused."""
    small = {name: x.tolist() for name, x in arrays(16, 8).items()}
    return [("/v1/attend", binary_body(16), BINARY_TYPE),
            ("/v1/attend", binary_body(200, 64, 2), BINARY_TYPE),
            (path_with(backend="window", **{"params.window": 16}), binary_body(300), BINARY_TYPE),
            (path_with(backend="performer", **{"params.features": 32}), binary_body(100), BINARY_TYPE),
            ("/v1/attend", json.dumps(small), JSON_TYPE),
            ("/v1/plan", json.dumps(small), JSON_TYPE),
            ("/v1/attend", '{"q": 1}', JSON_TYPE),
            ("/v1/attend", busy_text(daemon, 2), JSON_TYPE)]


def ask_mixed(daemon, bodies, count):
    def run():
        connection = daemon.connect()
        for i in range(count // CLIENTS):
            path, body, headers = bodies[i % len(bodies)]
            assert ask(connection, body, path, headers).status < 500
        connection.close()

    threads = [threading.Thread(target=run) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def mixed(daemon):
    """Also on the way: a leak goes on growing, buffers of threads and caches do not."""
    bodies, found, asked = mixed_bodies(daemon), [], 0
    for count in (MIXED_FIRST, MIXED_LEVEL, MIXED):
        ask_mixed(daemon, bodies, count - asked)
        asked = count
        found.append(resident_bytes(daemon))
    first, level, last = (f"{count / 2**20:.1f}" for count in found)
    return [row.at_most(f"resident after {MIXED:,} mixed requests / after {MIXED_FIRST:,} ({first} "
                        f"MiB, after {MIXED_LEVEL:,} {level}, then {last})", MIXED_GROWTH,
                        found[-1] / found[0], ".2f")]


def measure(long):
    rows = []
    for one in (growth, idle):
        with daemon_of() as daemon:
            warm(daemon)
            rows += one(daemon)
    if not long:
        return [*rows, row.skipped(f"resident after {MIXED:,} mixed requests", f"<= {MIXED_GROWTH}",
                                   "only with --long")]
    with daemon_of() as daemon:
        return rows + mixed(daemon)
