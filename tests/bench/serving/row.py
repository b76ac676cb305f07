"""A line of the table: what was measured, what is wanted, what was found."""

from typing import NamedTuple


class Row(NamedTuple):
    what: str
    target: str
    measured: str
    verdict: str = ""  # ok, MISSED, or nothing where there is no target

    def __str__(self):
        return "| " + " | ".join(self) + " |"


HEAD = "| what | target | measured | |\n|---|---|---|---|"


def at_most(what, limit, found, spelled, unit=""):
    """`spelled` is how the number found is formatted."""
    return Row(what, f"<= {limit:g}{unit}", f"{found:{spelled}}{unit}",
               "ok" if found <= limit else "MISSED")


def at_least(what, limit, found, spelled, unit=""):
    return Row(what, f">= {limit:g}{unit}", f"{found:{spelled}}{unit}",
               "ok" if found >= limit else "MISSED")


def skipped(what, target, why):
    return Row(what, target, f"SKIP: {why}")
