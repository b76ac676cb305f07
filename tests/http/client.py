"""Start, ask and stop a daemon: what every suite needs.

Nothing here waits for an absolute time to pass: sanitizer builds run many times slower. WAIT_S only
keeps a daemon that hangs from hanging the tests with it.
"""

import base64
import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time

import numpy as np

WAIT_S = 300
binary = None  # path of the daemon under test; run.py sets it
started = []  # every daemon of this run, so that none is left behind
_shared = None


class Answer:
    """One HTTP answer, body already read."""

    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self):
        """The body as JSON; NaN and Infinity are not JSON and fail."""
        return json.loads(self.body, parse_constant=refuse_constant)

    def __str__(self):
        return f"{self.status} {self.body[:300]!r}"


def refuse_constant(name):
    """json.loads would let NaN through."""
    raise ValueError(f"{name} is not JSON")


class Daemon:
    """A running `attnd serve` of our own on a free port of 127.0.0.1."""

    def __init__(self, *flags, workers=2, within=()):
        """`within` is a command that becomes the daemon in the end, as `nice` does."""
        self.port = free_port()
        self.log = tempfile.TemporaryFile()
        command = [*within, binary, "serve", "--listen", f"127.0.0.1:{self.port}",
                   "--workers", str(workers)]
        self.signalled = False
        self.process = subprocess.Popen([*command, *flags], stdout=self.log, stderr=self.log)
        started.append(self)
        self.wait_until_ready()

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process.poll() is None

    def log_text(self):
        """Everything it printed so far. pread leaves the offset that the daemon writes at alone."""
        size = os.fstat(self.log.fileno()).st_size
        return os.pread(self.log.fileno(), size, 0).decode(errors="replace")

    def wait_until_ready(self):
        give_up = time.monotonic() + WAIT_S
        while time.monotonic() < give_up:
            if not self.alive():
                raise RuntimeError(f"the daemon ended at start: {self.log_text()[-2000:]}")
            try:
                if self.get("/readyz").status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.01)
        raise RuntimeError(f"not ready after {WAIT_S} s: {self.log_text()[-2000:]}")

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)

    def request(self, method, path, body=None, headers=None):
        """One request on a connection of its own."""
        connection = self.connect()
        try:
            connection.request(method, path, body, headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.request("GET", path, headers=headers)

    def post(self, path, document, headers=None):
        """POST JSON; a document that is already text or bytes goes out as it is."""
        raw = isinstance(document, (str, bytes))
        body = document if raw else json.dumps(document)
        return self.request("POST", path, body, {"Content-Type": "application/json",
                                                 **(headers or {})})

    def attend(self, q, k, v, **fields):
        """POST /v1/attend; arrays become nested lists, everything else is sent as given."""
        tensors = {name: listed(x) for name, x in (("q", q), ("k", k), ("v", v))}
        return self.post("/v1/attend", {**tensors, **fields})

    def socket(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)

    def raw(self, data):
        """Send bytes as they are and read one answer, even if the daemon stops listening early."""
        with self.socket() as plain:
            try:
                plain.sendall(data)
            except OSError:
                pass
            return read_answer(plain)

    def send_signal(self, number=signal.SIGTERM):
        self.signalled = True
        self.process.send_signal(number)

    def wait(self):
        """Its exit code, or None when it had to be killed."""
        try:
            return self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def stop(self, number=signal.SIGTERM):
        """Ask it to end, unless it was asked already (a second signal means "at once"); its exit
        code, or None when it had to be killed."""
        if self.alive() and not self.signalled:
            self.send_signal(number)
        code = self.wait()
        if self in started:
            started.remove(self)
        return code

    def kill(self):
        self.process.kill()
        self.process.wait()


def read_answer(plain):
    """The next answer on a plain socket (100 Continue is skipped)."""
    response = http.client.HTTPResponse(plain)
    response.begin()
    return Answer(response)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def shared():
    """The daemon that ordinary tests share; a new one when a test has killed the last."""
    global _shared
    if _shared is None or not _shared.alive():
        _shared = Daemon()
    return _shared


def stop_all():
    """Stop every daemon that is left; returns what was wrong with their ends."""
    complaints = []
    for daemon in list(started):
        code = daemon.stop()
        if code != 0:
            complaints.append(f"daemon {daemon.pid} ended with {code}: {daemon.log_text()[-4000:]}")
    return complaints


def run_command(*arguments):
    """Run the binary to its end: the CompletedProcess with text output."""
    return subprocess.run([binary, *arguments], capture_output=True, text=True, timeout=20,
                          check=False)


def listed(x):
    return x.tolist() if isinstance(x, np.ndarray) else x


def to_bytes(x, datatype):
    """Little-endian bytes of a float array in an Open Inference Protocol datatype."""
    if datatype == "BF16":
        words = np.ascontiguousarray(x, dtype="<f4").view("<u4") >> 16
        return words.astype("<u2").tobytes()
    return np.asarray(x).astype({"FP16": "<f2", "FP32": "<f4", "FP64": "<f8"}[datatype]).tobytes()


def tensor(x, form="base64", datatype="FP32"):
    """An array in one of the four forms: nested, flat, nested_data, base64."""
    x = np.asarray(x)
    if form == "nested":
        return x.tolist()
    described = {"shape": list(x.shape), "datatype": datatype}
    if form == "base64":
        return {**described, "base64": base64.b64encode(to_bytes(x, datatype)).decode()}
    return {**described, "data": x.tolist() if form == "nested_data" else x.ravel().tolist()}


def decode(output):
    """A tensor of an answer as (array, form). The values are float32: so the text is meant."""
    if isinstance(output, list):
        return as_float32(output), "nested"
    shape = output["shape"]
    if "base64" in output:
        values = np.frombuffer(base64.b64decode(output["base64"], validate=True), dtype="<f4")
        return values.astype(np.float64).reshape(shape), "base64"
    data = output["data"]
    form = "nested_data" if data and isinstance(data[0], list) else "flat"
    return as_float32(data).reshape(shape), form


def as_float32(numbers):
    """Rounded to float32, held as float64 so that differences are not rounded again."""
    return np.array(numbers, dtype=np.float32).astype(np.float64)


def at_once(ask, starts):
    """Call ask(start, wrong) on a thread for each; what they put into wrong, and their exceptions,
    which would otherwise be printed and forgotten."""
    wrong = []

    def run(start):
        try:
            ask(start, wrong)
        except Exception as error:  # pylint: disable=broad-except
            wrong.append((start, repr(error)))

    threads = [threading.Thread(target=run, args=(start,)) for start in starts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong
