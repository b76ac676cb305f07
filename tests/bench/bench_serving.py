#!/usr/bin/python3
"""Every target of the daemon as a server: usage bench_serving.py BINARY [--long] [PART...].

Starts the daemon on free ports, asks, and prints a Markdown table. PART is latency, memory, formats,
cost, rate or pressure; all of them otherwise. --long adds 100,000 mixed requests. The clients share the
machine with the daemon, so every figure is the worse for them; misses are marked and never fail.
"""

import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "serving"), os.path.join(HERE, "..", "http")]

import client  # noqa: E402
import cost  # noqa: E402
import formats  # noqa: E402
import latency  # noqa: E402
import memory  # noqa: E402
import pressure  # noqa: E402
import rate  # noqa: E402
import row  # noqa: E402


def machine():
    one, five, _ = os.getloadavg()
    return (f"{client.run_command('version').stdout.strip()}, {os.cpu_count()} cores, load {one:.2f} "
            f"({five:.2f} over five minutes) before")


def main(path, flags):
    client.binary = os.path.abspath(path)
    parts = {"latency": latency.measure, "memory": lambda: memory.measure("--long" in flags),
             "formats": formats.measure, "cost": cost.measure, "rate": rate.measure,
             "pressure": pressure.measure}
    wanted = [flag for flag in flags if flag != "--long"] or list(parts)
    unknown = [name for name in wanted if name not in parts]
    if unknown:
        sys.exit(f"there is no part {unknown[0]}; there are {', '.join(parts)}")
    print(machine() + "\n\n" + row.HEAD, flush=True)
    try:
        for name in wanted:
            for line in parts[name]():
                print(line, flush=True)
    finally:
        client.stop_all()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.splitlines()[0])
    try:
        main(sys.argv[1], sys.argv[2:])
    except OSError as fault:  # no such binary
        sys.exit(f"{sys.argv[0]}: {fault}; make build makes build/release/attnd")
