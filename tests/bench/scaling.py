"""What `attnd bench --json` printed, by backend and n: what plot_scaling.py and print_scaling.py read."""

import json


def load(files):
    """The documents, in the order of the files."""
    documents = []
    for file in files:
        with open(file, encoding="utf-8") as stream:
            documents.append(json.load(stream))
    return documents


def series(documents):
    """(backend, causal) -> {n: run}."""
    found = {}
    for document in documents:
        for one in document["rounds"]:
            for run in one["runs"]:
                key = run["backend"], document["causal"]
                found.setdefault(key, {})[run["n"]] = run
    return found


def elapsed_ms(run):
    return run["ms"]["median"]


def workspace_bytes(run):
    return run["workspace_bytes"]["measured"]
