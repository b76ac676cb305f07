"""Small requests a second beside a handler that only answers; wrk asks, Python would be the limit."""

import re
import shutil
import subprocess
import tempfile

import row
import safetensors
from load import ATTEND, binary_body, daemon_of

GOAL = 0.5
SECONDS, CONNECTIONS = 5, 16
WHAT = "n = 16, d = 64, binary, keep-alive: requests a second / those of /healthz"

SCRIPT = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "{type}"
wrk.headers["Accept"] = "{type}"
local file = io.open("{body}", "rb")
wrk.body = file:read("*a")
file:close()
"""


def wrk(daemon, path, script=None):
    """Requests a second; every answer must be 2xx."""
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s"]
    if script:
        command += ["-s", script]
    url = f"http://127.0.0.1:{daemon.port}{path}"
    text = subprocess.run([*command, url], capture_output=True, text=True, check=True).stdout
    assert "Non-2xx" not in text, text
    return float(re.search(r"Requests/sec:\s*([\d.]+)", text)[1])


def measure():
    if not shutil.which("wrk"):
        return [row.skipped(WHAT, f"goal {GOAL}", "wrk is not installed")]
    with tempfile.NamedTemporaryFile() as body, tempfile.NamedTemporaryFile("w") as script:
        body.write(binary_body(16))
        body.flush()
        script.write(SCRIPT.format(type=safetensors.TYPE, body=body.name))
        script.flush()
        with daemon_of() as daemon:
            bare = wrk(daemon, "/healthz")
            small = wrk(daemon, ATTEND, script.name)
    return [row.at_least(f"{WHAT} ({small:,.0f} / {bare:,.0f})", GOAL, small / bare, ".2f")]
