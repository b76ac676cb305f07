#!/usr/bin/python3
"""Elapsed time and workspace against n: usage plot_scaling.py PICTURE.png FILE.json...

The files are what `attnd bench --json` printed; those under a causal mask are drawn dashed.
"""

import sys

import matplotlib
import scaling

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

COLOURS = {"exact": "#222222", "window": "#1f77b4", "sparse": "#2ca02c", "linformer": "#d62728",
           "performer": "#9467bd"}


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


def main(path, files):
    documents = scaling.load(files)
    found = scaling.series(documents)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6))
    draw(left, found, scaling.elapsed_ms, "elapsed time, ms")
    draw(right, found, lambda run: scaling.workspace_bytes(run) / 2**20, "workspace measured, MiB")
    figure.suptitle("d {d}, heads {heads}, workers {workers}, {isa}; window {window}, k {k}, "
                    "features {features}".format(**documents[0]), fontsize=10)
    left.legend(fontsize=8, ncol=2)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__.splitlines()[0])
    try:
        main(sys.argv[1], sys.argv[2:])
    except (OSError, ValueError, KeyError) as fault:
        sys.exit(f"{sys.argv[0]}: {fault!s}; it reads what attnd bench --json printed")
