"""More than the daemon can do, and the signal to stop in the middle of it."""

import collections
import json
import signal
import threading
import time

import client
import row
import work
from load import ATTEND, JSON_TYPE, ask, daemon_of, p99

OVERLOAD = 10
OVERLOAD_S = 10
COMPUTE_MS = 100  # of one request, all workers together
DEADLINE_MS = 2000
QUEUED_MS = 500  # so that what is accepted can meet its deadline
CLIENTS_UNDER_SIGTERM = 16
DRAIN_DELAY_S, DRAIN_TIMEOUT_S = 1, 30
LOST = (OSError, client.http.client.HTTPException)


def overload():
    """Requests leave at a fixed rate, whatever became of the earlier ones."""
    flags = ("--max-queue-cost-ms", str(QUEUED_MS))
    statuses, accepted_ms, lock = collections.Counter(), [], threading.Lock()
    with daemon_of(*flags) as daemon:
        body = json.dumps({**work.busy_body(daemon, COMPUTE_MS),
                           "hints": {"deadline_ms": DEADLINE_MS}})

        def one():
            began = time.perf_counter()
            try:
                status = daemon.post(ATTEND, body).status
            except LOST as error:
                status = type(error).__name__
            with lock:
                statuses[status] += 1
                if status == 200:
                    accepted_ms.append((time.perf_counter() - began) * 1e3)

        send_at_rate(one, OVERLOAD * 1e3 / COMPUTE_MS, OVERLOAD_S)
        alive = daemon.alive()
    counts = ", ".join(f"{count} x {status}" for status, count in statuses.most_common())
    only = alive and set(statuses) <= {200, 429}
    return [row.Row(f"{OVERLOAD}x overload for {OVERLOAD_S} s: what was answered",
                    "alive; only 200 and 429", counts, "ok" if only else "MISSED"),
            row.at_most("p99 of what was accepted meanwhile", DEADLINE_MS, p99(accepted_ms), ".0f",
                        " ms")]


def send_at_rate(call, a_second, seconds):
    threads, began = [], time.perf_counter()
    for i in range(int(a_second * seconds)):
        time.sleep(max(0, began + i / a_second - time.perf_counter()))
        threads.append(threading.Thread(target=call))
        threads[-1].start()
    for thread in threads:
        thread.join()


def stop_under_load():
    """Clients ask until they are told that it stops, or find nobody listening any more: then nothing
    was accepted, and nothing is lost."""
    statuses, lock = collections.Counter(), threading.Lock()
    daemon = client.Daemon("--drain-delay-s", str(DRAIN_DELAY_S), "--drain-timeout-s",
                           str(DRAIN_TIMEOUT_S))
    body = json.dumps(work.busy_body(daemon, COMPUTE_MS))

    def run():
        connection, status = daemon.connect(), 200
        while status in (200, 429):
            try:
                status = ask(connection, body, headers=JSON_TYPE).status
            except ConnectionRefusedError:
                break
            except LOST as error:
                status = type(error).__name__
            with lock:
                statuses[status] += 1
        connection.close()

    threads = [threading.Thread(target=run) for _ in range(CLIENTS_UNDER_SIGTERM)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    elapsed_s = -time.perf_counter()
    code = daemon.stop(signal.SIGTERM)
    elapsed_s += time.perf_counter()
    for thread in threads:
        thread.join()
    counts = ", ".join(f"{count} x {status}" for status, count in statuses.most_common())
    kept = code == 0 and set(statuses) <= {200, 429, 503}
    return [row.Row(f"SIGTERM under {CLIENTS_UNDER_SIGTERM} clients", "every request answered, exit "
                    f"0 within {DRAIN_DELAY_S + DRAIN_TIMEOUT_S} s",
                    f"{counts}; exit {code} after {elapsed_s:.1f} s", "ok" if kept else "MISSED")]


def measure():
    return [*overload(), *stop_under_load()]
