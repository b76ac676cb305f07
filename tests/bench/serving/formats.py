"""What reading and printing cost beside the computing."""

import statistics

import row
from load import ATTEND, BINARY_TYPE, JSON_TYPE, arrays, ask, binary_body, daemon_of, path_with, timed

JSON_BESIDE_COMPUTE = 1.0
BINARY_BESIDE_COMPUTE = 0.1
READ_RATE, PRINT_RATE = 55, 30  # million floats a second a core
N, D, HEADS = 4096, 64, 4
TIMES = 9


def nested(x):
    """JSON text of the shortest numbers that read back to the same float32."""
    if x.ndim == 1:
        return "[" + ",".join(map(str, x)) + "]"
    return "[" + ",".join(map(nested, x)) + "]"


def json_body():
    tensors = ",".join(f'"{name}":{nested(x)}' for name, x in arrays(N, D, HEADS).items())
    return ('{"backend":"exact",' + tensors + "}").encode()


def server_timing(answer):
    """Server-Timing as {stage: ms}."""
    stages = (entry.split(";dur=") for entry in answer.headers["Server-Timing"].split(", "))
    return {name: float(ms) for name, ms in stages}


def ask_often(daemon, body, path, headers):
    """(elapsed ms, stages) of each request, the first of them dropped."""
    connection, found = daemon.connect(), []
    for _ in range(TIMES + 1):
        elapsed, answer = timed(lambda: ask(connection, body, path, headers))
        assert answer.status == 200, str(answer)
        found.append((elapsed, server_timing(answer)))
    connection.close()
    return found[1:]


def median_of(found, value):
    return statistics.median(value(elapsed, stages) for elapsed, stages in found)


def beside_compute(what, limit, found):
    """By the client's clock, so that sending and receiving count."""
    ratio = median_of(found, lambda elapsed, stages: elapsed / stages["compute"] - 1)
    compute = median_of(found, lambda _, stages: stages["compute"])
    return row.at_most(f"n = {N}, d = {D}, {HEADS} heads in {what}: all but compute / compute "
                       f"({compute:.0f} ms)", limit, ratio, ".2f")


def measure():
    """On one worker, so that a second of it is a second of one core."""
    numbers = N * D * HEADS
    with daemon_of(workers=1) as daemon:
        text = ask_often(daemon, json_body(), ATTEND, JSON_TYPE)
        binary = ask_often(daemon, binary_body(N, D, HEADS), path_with(backend="exact"), BINARY_TYPE)
    read = median_of(text, lambda _, stages: 3 * numbers / stages["parse"] / 1e3)
    printed = median_of(text, lambda _, stages: numbers / stages["serialize"] / 1e3)
    return [beside_compute("JSON", JSON_BESIDE_COMPUTE, text),
            beside_compute("binary", BINARY_BESIDE_COMPUTE, binary),
            row.at_least("JSON read, a core", READ_RATE, read, ".0f", " Mfloat/s"),
            row.at_least("JSON printed, a core", PRINT_RATE, printed, ".0f", " Mfloat/s")]
