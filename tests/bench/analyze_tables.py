#!/usr/bin/python3
"""Ask a running daemon for low-rank analyses and print the tables of core/docs/accuracy.md.

usage: analyze_tables.py URL [FILE.safetensors]    FILE holds q, k and v of a trained causal layer

Everything else is drawn: unit-normal q, k and v from seed 0.
"""

import json
import os
import statistics
import sys
import urllib.request

import numpy as np

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "http"))
import safetensors  # noqa: E402

HEADS = 4  # of what is drawn
SWEEPS = (("window", "window", None, "`window`, by `params.window`"),
          ("sparse", "stride", "strided", "`sparse` strided, by `params.stride`"),
          ("sparse", "stride", "fixed", "`sparse` fixed, by `params.stride`"),
          ("linformer", "k", None, "`linformer` without training, by `params.k`"),
          ("performer", "features", None, "`performer` without training, by `params.features`"))


def analyze(url, body, causal):
    """The answer of one analysis."""
    request = urllib.request.Request(f"{url}/v1/analyze?causal={str(causal).lower()}", body,
                                     {"Content-Type": safetensors.TYPE})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def gaussian(n, d):
    """A body of unit-normal tensors."""
    rng = np.random.default_rng(0)
    return safetensors.dump({name: np.float32(rng.standard_normal((HEADS, n, d)))
                             for name in "qkv"})


def columns(url, path):
    """(title, answer) of every column."""
    sets = []
    if path:
        with open(path, "rb") as file:
            trained = file.read()
        sets = [("trained, causal", trained, True), ("trained, not causal", trained, False)]
    sets += [(f"Gaussian {n}, d {d}{', causal' * causal}", gaussian(n, d), causal)
             for n, d, causal in ((201, 8, True), (201, 8, False), (512, 8, False), (512, 64, False))]
    return [(title, analyze(url, body, causal)) for title, body, causal in sets]


def row(first, cells):
    """One line of a table."""
    print("| " + " | ".join([str(first), *cells]) + " |")


def head_of_table(first, titles):
    """Its first two lines."""
    row(first, titles)
    row("---", ["---"] * len(titles))


def number(x):
    """Two or three digits of it."""
    return "–" if x is None else f"{x:.0f}" if x >= 100 else f"{x:.2g}"


def span(figures):
    """The median and, where heads differ, the extremes."""
    middle, least, most = statistics.median(figures), min(figures), max(figures)
    return number(middle) if least == most else f"{number(middle)} ({number(least)}–{number(most)})"


def print_spectra(answers):
    """A row a set: what its heads look like."""
    figures = {
        "rank bound of the scores": lambda h: h["rank_bound"],
        "numerical rank": lambda h: h["numerical_rank"],
        "k90": lambda h: h["k_energy"]["0.9"],
        "k99": lambda h: h["k_energy"]["0.99"],
        "stable rank": lambda h: h["stable_rank"],
        "entropy, nats": lambda h: h["row_entropy"]["mean"],
        "in window 16": lambda h: h["window_mass"]["16"],
        "performer's matrix": lambda h: h["kernel_estimate"]["relative_frobenius"],
    }
    head_of_table("", figures)
    for title, answer in answers:
        row(title, [span([pick(h) for h in answer["heads"]]) for pick in figures.values()])


def errors(answer, backend, name, pattern):
    """Relative L2 error by the parameter's value."""
    return {entry["params"][name]: entry["relative_l2"] for entry in answer["advice"]
            if entry["backend"] == backend and entry["params"].get("pattern") == pattern}


def print_sweep(answers, backend, name, pattern, title):
    """A row a value: the error on every set."""
    found = [errors(answer, backend, name, pattern) for _, answer in answers]
    print(f"\n{title}:\n")
    head_of_table(name, [title for title, _ in answers])
    for value in sorted(set().union(*found)):
        row(value, [number(each.get(value)) for each in found])


def main(url, path=None):
    """Print everything."""
    answers = columns(url, path)
    print_spectra(answers)
    for sweep in SWEEPS:
        print_sweep(answers, *sweep)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except OSError as fault:  # no daemon there, or no such file
        sys.exit(f"{sys.argv[0]}: {fault}; usage: analyze_tables.py URL [FILE]")
