#!/usr/bin/python3
"""Crossovers, elapsed time and workspace as Markdown: usage print_scaling.py FILE.json...

The files are what `attnd bench --json` printed, with and without --causal.
"""

import sys

import scaling


def table(head, aligned, rows):
    print("|", " | ".join(head), "|")
    print("|" + "|".join(aligned) + "|")
    for row in rows:
        print("|", " | ".join(row), "|")
    print()


def sizes_of(found):
    return sorted({n for runs in found.values() for n in runs})


def faster_from(speedups):
    """The first n from which on every speedup is above 1; none where the last is not."""
    first = None
    for n, speedup in sorted(speedups.items(), reverse=True):
        if speedup <= 1:
            break
        first = n
    return first


def crossovers(found):
    """Times as fast as exact under the same mask, at the sizes where exact was measured."""
    sizes = sorted({n for (name, _), runs in found.items() if name == "exact" for n in runs})
    rows = []
    for (backend, causal), runs in found.items():
        exact = found.get(("exact", causal), {})
        speedups = {n: scaling.elapsed_ms(exact[n]) / scaling.elapsed_ms(runs[n])
                    for n in sizes if n in runs and n in exact}
        if backend != "exact" and speedups:
            cells = [f"{speedups[n]:.1f}x" if n in speedups else "" for n in sizes]
            rows.append([backend, "causal" if causal else "full",
                         str(faster_from(speedups) or "never"), *cells])
    print("### Times as fast as exact\n")
    table(["backend", "", "from n", *map(str, sizes)], ["---", "---"] + ["---:"] * (len(sizes) + 1),
          rows)


def by_size(found, causal, title, value):
    """One column a backend; nothing where a size was not measured."""
    columns = {name: runs for (name, order), runs in found.items() if order == causal}
    if not columns:
        return
    print(f"### {title}, {'causal' if causal else 'full'}\n")
    table(["n", *columns], ["---:"] * (len(columns) + 1),
          [[str(n), *(value(runs[n]) if n in runs else "" for runs in columns.values())]
           for n in sizes_of(found)])


def main(files):
    found = scaling.series(scaling.load(files))
    crossovers(found)
    for causal in (False, True):
        by_size(found, causal, "Elapsed, ms", lambda run: f"{scaling.elapsed_ms(run):.2f}")
    for causal in (False, True):
        by_size(found, causal, "Workspace, KiB",
                lambda run: f"{scaling.workspace_bytes(run) / 1024:.0f}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.splitlines()[0])
    try:
        main(sys.argv[1:])
    except (OSError, ValueError, KeyError) as fault:
        sys.exit(f"{sys.argv[0]}: {fault!s}; it reads what attnd bench --json printed")
