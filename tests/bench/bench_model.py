#!/usr/bin/python3
"""What a layer's backends cost by length: usage bench_model.py BINARY [REPEATS].

Writes a demo model (dim 256), asks each backend for one sequence at a time, and prints a Markdown table
of processor milliseconds, all threads of the daemon together: the least of REPEATS (5) rounds, which is
what little a busy machine lets through. That includes reading the body, which is small beside the rest.
"""

import os
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "http")]

import client  # noqa: E402
import safetensors  # noqa: E402
import samples  # noqa: E402

DIM = 256
LENGTHS = (1024, 2048, 4096, 8192, 16384, 32768, 65536)
BACKENDS = ("exact", "window", "linformer", "performer", "mamba", "hybrid")
LONGEST = {"exact": 32768, "linformer": 32768}  # where time, or the projection, ends
SCALAR_LONGEST = 4096
QUEUE_MS = "86400000"


def processor_ms(pid):
    """Time on a core of all threads of a process."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total * 1e-6


def ask_ms(daemon, x, backend):
    before = processor_ms(daemon.pid)
    answer = safetensors.post(daemon, {"input": x}, {"model": "demo", "backend": backend,
                                                     "return_output": False})
    assert answer.status == 200, str(answer)
    return processor_ms(daemon.pid) - before


def measure(folder, isa, lengths, repeats):
    """{(n, backend): milliseconds}."""
    daemon = client.Daemon("--model-dir", folder, "--isa", isa, "--max-queue-cost-ms", QUEUE_MS)
    least = {}
    for n in lengths:
        x = samples.normal(n, n, DIM)
        for _ in range(repeats):
            for backend in BACKENDS:
                if n <= LONGEST.get(backend, n):
                    took = ask_ms(daemon, x, backend)
                    least[n, backend] = min(took, least.get((n, backend), took))
    daemon.stop()
    return least


def print_table(title, lengths, least):
    print(f"| {title} | " + " | ".join(BACKENDS) + " |")
    print("|---:|" + "---:|" * len(BACKENDS))
    for n in lengths:
        cells = (f"{least[n, b]:.1f}" if (n, b) in least else "" for b in BACKENDS)
        print(f"| {n} | " + " | ".join(cells) + " |")
    print()


def main(path, repeats):
    client.binary = os.path.abspath(path)
    with tempfile.TemporaryDirectory() as folder:
        made = client.run_command("init-model", os.path.join(folder, "demo"), "--dim", str(DIM))
        assert made.returncode == 0, made.stderr
        print_table("n", LENGTHS, measure(folder, "auto", LENGTHS, repeats))
        scalar = [n for n in LENGTHS if n <= SCALAR_LONGEST]
        print_table("n, scalar", scalar, measure(folder, "scalar", scalar, 1))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.splitlines()[0])
    try:
        main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) == 3 else 5)
    except OSError as fault:  # no such binary
        sys.exit(f"{sys.argv[0]}: {fault}; make build makes build/release/attnd")
    finally:
        client.stop_all()
