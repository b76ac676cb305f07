"""Requests that keep the daemon computing for about as long as asked, whatever the build."""

import client
import samples

PROBE_KEYS = 8192  # enough for a few milliseconds, so that the measure is fair
_probe_ms = {}


def probe_ms(daemon):
    """Compute time of one small request, measured once a binary."""
    if client.binary not in _probe_ms:
        answer = daemon.post("/v1/attend", body_of(PROBE_KEYS))
        assert answer.status == 200, str(answer)
        _probe_ms[client.binary] = max(answer.json["timing"]["compute_ms"], 0.1)
    return _probe_ms[client.binary]


def body_of(n):
    """A narrow request of n queries and keys: n^2 work from few bytes, and a short answer."""
    x = client.tensor(samples.normal(3, n, 8))
    return {"q": x, "k": x, "v": x, "backend": "exact", "return_output": False}


def busy_body(daemon, wanted_ms):
    """A body that should take about `wanted_ms` of compute on an idle daemon."""
    n = PROBE_KEYS * (wanted_ms / probe_ms(daemon)) ** 0.5
    return body_of(max(int(n), 64))
