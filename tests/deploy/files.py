"""The deployment files, read: what each says of environment, ports and times.

Everything is looked up where a platform would look it up, so that a file which moves a setting to
where nothing reads it fails here.
"""

import os
import re
import shlex

import yaml

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def text_of(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as file:
        return file.read()


def yaml_of(path):
    return yaml.safe_load(text_of(path))


class Dockerfile:
    """The last stage: instructions joined over their continued lines."""

    def __init__(self):
        lines = re.sub(r"\\\n", " ", re.sub(r"(?m)^ *#.*\n", "", text_of("Dockerfile")))
        self.all = [line.split(None, 1) for line in lines.splitlines() if line.strip()]
        start = max(i for i, (word, _) in enumerate(self.all) if word == "FROM")
        self.stage = self.all[start:]

    def every(self, instruction):
        return [rest for word, rest in self.stage if word == instruction]

    @property
    def environment(self):
        pairs = [pair for line in self.every("ENV") for pair in shlex.split(line)]
        return dict(pair.split("=", 1) for pair in pairs)

    @property
    def arguments(self):
        """Every value that an ARG of any stage has, by name."""
        values = {}
        for word, rest in self.all:
            if word == "ARG":
                name, value = rest.split("=", 1)
                values.setdefault(name, set()).add(value.strip())
        return values

    @property
    def health_command(self):
        (health,) = self.every("HEALTHCHECK")
        return yaml.safe_load(health[health.index("["):])


class Unit:
    """A systemd unit: the values of a key in order; an empty one would forget those before it."""

    def __init__(self, path):
        self.lines = [line.split("=", 1) for line in text_of(path).splitlines()
                      if "=" in line and not line.startswith("#")]

    def every(self, key):
        return [value for name, value in self.lines if name == key]

    def only(self, key):
        (value,) = self.every(key)
        return value

    @property
    def environment(self):
        return dict(pair.split("=", 1) for value in self.every("Environment")
                    for pair in shlex.split(value))


def seconds(text):
    """30s or 1m30s, as compose writes a time."""
    units = {"h": 3600, "m": 60, "s": 1}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([hms])", text))


def port_of(address):
    """The port of host:port, or of a URL."""
    return int(re.search(r":(\d+)(?:/|$)", address)[1])


image = Dockerfile()
unit = Unit("deploy/attnd.service")
compose = yaml_of("deploy/compose.yaml")
composed = compose["services"]["attnd"]
scraping = yaml_of("deploy/prometheus.yml")
deployment = yaml_of("deploy/kubernetes/deployment.yaml")
service = yaml_of("deploy/kubernetes/service.yaml")
pod = deployment["spec"]["template"]
(container,) = pod["spec"]["containers"]

# What attnd finds in its environment on each platform; the first two run the image and its ENV.
environments = {
    "compose": {**image.environment, **composed["environment"]},
    "kubernetes": {**image.environment, **{e["name"]: e["value"] for e in container["env"]}},
    "systemd": unit.environment,
}
