"""One container of the image under test, run by runc as a strict platform would run it.

Read-only root, no capabilities, no new privileges, the engines' default system call filter, and
namespaces of its own, the network's among them. Requests go through that network: a socket belongs
to the namespace it was made in, so only making it happens inside.
"""

import contextlib
import ctypes
import http.client
import json
import os
import socket
import subprocess
import time
import uuid

import client

CLONE_NEWNET = 0x40000000
SECCOMP_PROFILE = "/usr/share/containers/seccomp.json"
PORT = 8080
# Answered by a daemon that listens on every address, not by one that listens on 127.0.0.1.
ADDRESS = "127.0.0.2"
HIDDEN = ["/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"]
FIXED = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]

libc = ctypes.CDLL(None, use_errno=True)


def mount(where, kind, *options):
    return {"destination": where, "type": kind, "source": kind, "options": list(options)}


def seccomp():
    """The engines' default filter, for a process without capabilities, in the runtime's terms."""
    with open(SECCOMP_PROFILE, encoding="utf-8") as file:
        profile = json.load(file)
    machine = {"x86_64": ("amd64", "SCMP_ARCH_X86_64"), "aarch64": ("arm64", "SCMP_ARCH_AARCH64")}
    name, architecture = machine[os.uname().machine]
    rules = []
    for rule in profile["syscalls"]:
        includes = rule["includes"]
        if includes.get("caps") or name not in includes.get("arches", [name]):
            continue
        kept = {key: rule[key] for key in ("names", "action", "errnoRet") if key in rule}
        rules.append({**kept, "args": rule["args"] or []})
    return {"defaultAction": profile["defaultAction"],
            "defaultErrnoRet": profile["defaultErrnoRet"],
            "architectures": [architecture], "syscalls": rules}


def bundle(image, root, identity, *, user, tmp, environment, resources):
    """The runtime's configuration of a container."""
    mounts = [mount("/proc", "proc", "nosuid", "noexec", "nodev"),
              mount("/dev", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
              mount("/sys", "sysfs", "nosuid", "noexec", "nodev", "ro"),
              mount("/sys/fs/cgroup", "cgroup", "nosuid", "noexec", "nodev", "relatime", "ro")]
    if tmp:
        mounts.append(mount("/tmp", "tmpfs", "nosuid", "nodev", "mode=1777", "size=65536k"))
    uid, gid = user
    none = {kind: [] for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")}
    return {
        "ociVersion": "1.0.2",
        "process": {"user": {"uid": uid, "gid": gid}, "cwd": image["WorkingDir"] or "/",
                    "args": image["Entrypoint"] + image["Cmd"],
                    "env": image["Env"] + environment,
                    "capabilities": none, "noNewPrivileges": True},
        "root": {"path": root, "readonly": True},
        "hostname": identity,
        "mounts": mounts,
        "linux": {"namespaces": [{"type": kind} for kind in
                                 ("pid", "network", "ipc", "uts", "mount")],
                  "cgroupsPath": "/" + identity, "resources": resources,
                  "seccomp": seccomp(), "maskedPaths": HIDDEN, "readonlyPaths": FIXED}}


@contextlib.contextmanager
def network_of(pid):
    """This thread is in the network namespace of a process meanwhile."""
    with open("/proc/thread-self/ns/net", "rb") as ours, open(f"/proc/{pid}/ns/net", "rb") as its:
        enter(its)
        try:
            yield
        finally:
            enter(ours)


def enter(namespace):
    if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Container:
    """A running container; `post` and `get` ask it, `execute` runs a command inside."""

    def __init__(self, image, root, scratch, *, user=None, tmp=False, environment=(),
                 resources=None):
        self.identity = "attnd-check-" + uuid.uuid4().hex[:12]
        self.folder = os.path.join(scratch, self.identity)
        self.runc = ["runc", "--root", os.path.join(scratch, "runc")]
        os.mkdir(self.folder)
        user = user or tuple(int(part) for part in image["User"].split(":"))
        config = bundle(image, root, self.identity, user=user, tmp=tmp,
                        environment=list(environment), resources=resources or {})
        with open(os.path.join(self.folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        self.log_path = os.path.join(self.folder, "log")
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [*self.runc, "run", "--pid-file", self.path("pid"), "-b", self.folder,
                 self.identity], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.wait_until_ready()

    def path(self, name):
        return os.path.join(self.folder, name)

    def log_text(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    @property
    def pid(self):
        """Of its first process, as seen from outside."""
        with open(self.path("pid"), encoding="ascii") as file:
            return int(file.read())

    def status(self):
        """What the kernel says of its first process."""
        with open(f"/proc/{self.pid}/status", encoding="utf-8") as file:
            return dict(line.rstrip("\n").split(":\t", 1) for line in file)

    def wait_until_ready(self):
        give_up = time.monotonic() + client.WAIT_S
        while time.monotonic() < give_up:
            if self.process.poll() is not None:
                raise RuntimeError(f"the container ended at start: {self.log_text()[-2000:]}")
            try:
                if self.get("/readyz").status == 200:
                    return
            except (OSError, ValueError):  # no process, or no listener, yet
                pass
            time.sleep(0.02)
        self.kill()
        raise RuntimeError(f"not ready after {client.WAIT_S} s: {self.log_text()[-2000:]}")

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(ADDRESS, PORT, timeout=client.WAIT_S)
        with network_of(self.pid):
            connection.sock = socket.create_connection((ADDRESS, PORT), client.WAIT_S)
        try:
            connection.request(method, path, body, headers or {})
            return client.Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path):
        return self.request("GET", path)

    def post(self, path, document):
        body = document if isinstance(document, (str, bytes)) else json.dumps(document)
        return self.request("POST", path, body, {"Content-Type": "application/json"})

    def execute(self, *command):
        """Run a command inside, as the image's user: the CompletedProcess."""
        return subprocess.run([*self.runc, "exec", self.identity, *command], capture_output=True,
                              text=True, timeout=client.WAIT_S, check=False)

    def send_signal(self, name="TERM"):
        subprocess.run([*self.runc, "kill", self.identity, name], check=True)

    def wait(self):
        """The exit code of the container's first process."""
        return self.process.wait(client.WAIT_S)

    def stop(self):
        """SIGTERM if it still runs; the exit code."""
        if self.process.poll() is None:
            self.send_signal()
        return self.wait()

    def kill(self):
        """End it whatever it does; nothing happens when it has ended."""
        subprocess.run([*self.runc, "delete", "--force", self.identity], check=False)
        self.process.wait(client.WAIT_S)
