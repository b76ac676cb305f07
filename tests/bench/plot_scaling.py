#!/usr/bin/python3
"""Time and workspace against n: usage plot_scaling.py PICTURE.png FILE.json...

The files are what `attnd bench --json` printed; those under a causal mask are drawn dashed. Prints
the same numbers as Markdown tables.
"""

import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

COLOURS = {"exact": "#222222", "window": "#1f77b4", "sparse": "#2ca02c", "linformer": "#d62728",
           "performer": "#9467bd"}


def series(documents):
    """(backend, causal) -> {n: run}."""
    found = {}
    for document in documents:
        for one in document["rounds"]:
            for run in one["runs"]:
                key = run["backend"], document["causal"]
                found.setdefault(key, {})[run["n"]] = run
    return found


def draw(axes, found, value, title):
    for (backend, causal), runs in found.items():
        sizes = sorted(runs)
        axes.plot(sizes, [value(runs[n]) for n in sizes], "--" if causal else "-", marker="o",
                  markersize=3, linewidth=1.2, color=COLOURS.get(backend),
                  label=backend + (" causal" if causal else ""))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("n")
    axes.set_title(title, fontsize=10)
    axes.grid(True, which="major", alpha=0.3)


def picture(path, found, subtitle):
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6))
    draw(left, found, lambda run: run["busy_ms"], "processor time, ms")
    draw(right, found, lambda run: run["workspace_bytes"]["measured"] / 2**20,
         "workspace measured, MiB")
    figure.suptitle(subtitle, fontsize=10)
    left.legend(fontsize=8, ncol=2)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def table(found, causal, value):
    names = [backend for backend, order in found if order == causal]
    sizes = sorted({n for (_, order), runs in found.items() if order == causal for n in runs})
    print("| n |", " | ".join(names), "|")
    print("|---:|" + "---:|" * len(names))
    for n in sizes:
        runs = [found[name, causal].get(n) for name in names]
        print(f"| {n} |", " | ".join(value(run) if run else "" for run in runs), "|")
    print()


def main(path, files):
    documents = []
    for file in files:
        with open(file, encoding="utf-8") as stream:
            documents.append(json.load(stream))
    found = series(documents)
    first = documents[0]
    picture(path, found, "d {d}, heads {heads}, workers {workers}, {isa}; window {window}, k {k}, "
            "features {features}".format(**first))
    for causal in (False, True):
        print("causal" if causal else "full", "processor ms\n")
        table(found, causal, lambda run: f"{run['busy_ms']:.2f}")
        print("causal" if causal else "full", "workspace KiB\n")
        table(found, causal, lambda run: f"{run['workspace_bytes']['measured'] / 1024:.0f}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__.splitlines()[0])
    main(sys.argv[1], sys.argv[2:])
