"""A strict reader of the Prometheus text format, version 0.0.4.

promtool does not see duplicate series, split families, a missing +Inf, buckets that fall or a wrong
_count; this does, and raises ValueError with the line at fault.
"""

import math
import re

SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)\Z")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|\Z)')
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}


class Family:
    """One metric: its type and its samples as {(name, labels): value}, in the order they came."""

    def __init__(self, name):
        self.name = name
        self.type = None
        self.samples = {}

    def owns(self, sample):
        return sample in [self.name + end for end in SUFFIXES.get(self.type, ("",))]


def parse(text):
    """{family name: Family}; ValueError when anything is out of order."""
    if not text.endswith("\n"):
        raise ValueError("the last line has no newline")
    families = {}
    current = None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = begin(families, line)
        elif line.startswith("# TYPE "):
            declare(current, line)
        elif line and not line.startswith("#"):
            add(current, line)
    for family in families.values():
        check(family)
    return families


def begin(families, line):
    name, _, text = line[len("# HELP "):].partition(" ")
    if name in families:
        raise ValueError(f"the family is there twice or in two pieces: {line}")
    if not text:
        raise ValueError(f"no help text: {line}")
    families[name] = Family(name)
    return families[name]


def declare(family, line):
    _, _, name, kind = line.split(" ")
    if family is None or family.name != name or family.type or family.samples:
        raise ValueError(f"TYPE must follow the HELP of its family: {line}")
    if kind not in ("counter", "gauge", "histogram", "summary"):
        raise ValueError(f"unknown type: {line}")
    family.type = kind


def add(family, line):
    match = SAMPLE.match(line)
    if not match:
        raise ValueError(f"no sample: {line}")
    name, labels, value = match[1], labels_of(match[2] or "", line), float(match[3])
    if family is None or family.type is None or not family.owns(name):
        raise ValueError(f"outside its family: {line}")
    if math.isnan(value) or (family.type != "gauge" and value < 0):
        raise ValueError(f"impossible value: {line}")
    key = (name, labels)
    if key in family.samples:
        raise ValueError(f"the series is there twice: {line}")
    family.samples[key] = value


def labels_of(text, line):
    """The labels as a sorted tuple of pairs."""
    pairs, at = [], 0
    while at < len(text):
        match = LABEL.match(text, at)
        if not match:
            raise ValueError(f"bad labels: {line}")
        pairs.append((match[1], match[2]))
        at = match.end()
    if len(dict(pairs)) != len(pairs):
        raise ValueError(f"a label is there twice: {line}")
    return tuple(sorted(pairs))


def check(family):
    if family.type is None:
        raise ValueError(f"{family.name} has no TYPE")
    if family.type == "counter" and not family.name.endswith("_total"):
        raise ValueError(f"{family.name} is a counter and does not end in _total")
    if family.type == "histogram":
        check_histogram(family)


def check_histogram(family):
    """Buckets in order and never falling, +Inf there and equal to _count, a _sum for each."""
    buckets = {}
    for (name, labels), value in family.samples.items():
        if name.endswith("_bucket"):
            edge = float(dict(labels)["le"])
            rest = tuple(pair for pair in labels if pair[0] != "le")
            buckets.setdefault(rest, []).append((edge, value))
    for kind in ("_sum", "_count"):
        there = {labels for (name, labels) in family.samples if name == family.name + kind}
        if there != set(buckets):
            raise ValueError(f"{family.name}{kind} and its buckets have different labels")
    for labels, pairs in buckets.items():
        edges, counts = zip(*pairs)
        if list(edges) != sorted(set(edges)) or list(counts) != sorted(counts):
            raise ValueError(f"buckets of {family.name}{dict(labels)} are out of order: {pairs}")
        total = family.samples[(family.name + "_count", labels)]
        if edges[-1] != math.inf or counts[-1] != total:
            raise ValueError(f"+Inf of {family.name}{dict(labels)} is not _count: {pairs}")


def value(families, name, **labels):
    """The sum over all series of that name whose labels include the given ones, or 0."""
    total = 0
    for family in families.values():
        for (sample, pairs), number in family.samples.items():
            if sample == name and set(labels.items()) <= set(pairs):
                total += number
    return total
