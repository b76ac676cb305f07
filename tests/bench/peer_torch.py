"""PyTorch's attention on the CPU: usage peer_torch.py THREADS HEADS N D REPETITIONS.

One line "torch VERSION, FUNCTION", then "full MS" and "causal MS", medians after a warm-up.
"""

import statistics
import sys
import time

import torch


def plain(q, k, v, is_causal):
    """What F.scaled_dot_product_attention computes, for versions that lack it."""
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if is_causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    return scores.softmax(-1) @ v


def measure(attend, arrays, causal, repetitions):
    times = []
    for _ in range(repetitions + 1):
        start = time.perf_counter()
        attend(*arrays, is_causal=causal)
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[1:])


def main(threads, heads, n, d, repetitions):
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    attend = getattr(torch.nn.functional, "scaled_dot_product_attention", None)
    print(f"torch {torch.__version__},", "scaled_dot_product_attention" if attend else
          "softmax(q k^T) v, for want of scaled_dot_product_attention")
    arrays = [torch.randn(1, heads, n, d) for _ in range(3)]
    with torch.no_grad():
        for causal in (False, True):
            took = measure(attend or plain, arrays, causal, repetitions)
            print("causal" if causal else "full", f"{took:.3f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
