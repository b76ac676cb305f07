"""Ask a running daemon for what a trained layer would ask, and hold the answer against float64.

usage: /usr/bin/python3 tests/http/example.py [http://127.0.0.1:8080]
"""
import json
import sys
import urllib.request

import numpy as np

sys.dont_write_bytecode = True
import reference  # noqa: E402
import samples  # noqa: E402


def main(url):
    q, k, v = samples.trained_like()
    body = {"q": q.tolist(), "k": k.tolist(), "v": v.tolist(), "causal": True}
    request = urllib.request.Request(url + "/v1/attend", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        answer = json.load(answer)
    exact = reference.attend(*(x[None].astype(np.float64) for x in (q, k, v)), causal=True)[0]
    error = np.abs(np.array(answer["output"]) - exact).max() / np.abs(v).max()
    logits = np.abs(np.einsum("hid,hjd->hij", q, np.repeat(k, 2, axis=0))).max() / np.sqrt(8)
    print(f"{q.shape[0]} heads over {k.shape[0]}, {q.shape[1]} positions, logits to {logits:.0f}")
    print(f"backend {answer['backend']} in {answer['timing']['compute_ms']} ms; "
          f"largest error / largest |v| = {error:.1e}")
    return 0 if error < 1e-5 else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"))
    except OSError as fault:
        sys.exit(f"{sys.argv[0]}: {fault}; is a daemon running there? make run starts one")
