"""The layers of loaded models in float64, by the definitions of their papers and nothing else.

Weights are {name: array} under the names that checkpoints use, without a prefix (`under` takes one
off); hidden states are (batch, n, hidden). Attention itself stands in reference.py: a mixer here is
a function of q, k and v.
"""

import math

import numpy as np
import reference
from checkpoints import STACK


def under(weights, prefix):
    """The weights whose names begin with the prefix, without it."""
    return {name[len(prefix):]: x for name, x in weights.items() if name.startswith(prefix)}


def linear(weights, name, x):
    """x W^T + b, as torch.nn.Linear; the bias exists if its tensor does."""
    y = x @ np.asarray(weights[f"{name}.weight"], dtype=np.float64).T
    return y + weights[f"{name}.bias"] if f"{name}.bias" in weights else y


# --- attention ------------------------------------------------------------------------------------


def split_heads(x, heads):
    """(batch, n, heads d) as (batch, heads, n, d)."""
    batch, n, width = x.shape
    return x.reshape(batch, n, heads, width // heads).swapaxes(1, 2)


def merge_heads(x):
    batch, heads, n, d = x.shape
    return x.swapaxes(1, 2).reshape(batch, n, heads * d)


def projected(weights, x, heads, kv_heads=None):
    """q, k and v, (batch, heads, n, d) each."""
    counts = (heads, kv_heads or heads, kv_heads or heads)
    return [split_heads(linear(weights, name, x), count)
            for name, count in zip(("q_proj", "k_proj", "v_proj"), counts)]


def attention(weights, x, heads, kv_heads=None, mixer=reference.attend):
    """out(mixer(q, k, v)); the last projection goes by either of its names."""
    out = "out_proj" if "out_proj.weight" in weights else "o_proj"
    return linear(weights, out, merge_heads(mixer(*projected(weights, x, heads, kv_heads))))


def linformer_projections(weights):
    """E and F as the formula has them, (k, seq_len) each, whichever way the checkpoint does."""
    if "E" in weights:
        return weights["E"].T, weights.get("F", weights["E"]).T
    e = weights["compress_k.weight"]
    return e, weights.get("compress_v.weight", e)


# --- Mamba (Gu and Dao 2023) ----------------------------------------------------------------------


def silu(x):
    return x / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(0, x)


def depthwise_causal(weights, x):
    """A filter a channel over the last positions: torch.nn.Conv1d, padded and cut."""
    filters = np.asarray(weights["conv1d.weight"], dtype=np.float64)[:, 0]
    taps, n = filters.shape[1], x.shape[1]
    padded = np.pad(x, ((0, 0), (taps - 1, 0), (0, 0)))
    y = sum(padded[:, j:j + n] * filters[:, j] for j in range(taps))
    return y + weights["conv1d.bias"] if "conv1d.bias" in weights else y


def selective(weights, x, variant):
    """The step D_t and the B and C of every position, which depend on the input."""
    states = np.shape(weights["A_log"])[1]
    parts = linear(weights, "x_proj", x)
    if variant == "article":
        b, c, step = np.split(parts, [states, 2 * states], axis=-1)
    else:
        step, b, c = np.split(parts, [-2 * states, -states], axis=-1)
    return softplus(linear(weights, "dt_proj", step)), b, c


def scan(step, a, b, c, x, euler=True):
    """h = exp(D_t A) h + D_t B x (the article: + B x);  y = C . h, one position after the other."""
    h, y = np.zeros((len(x), *a.shape)), np.empty_like(x)
    for t in range(x.shape[1]):
        driven = step[:, t] * x[:, t] if euler else x[:, t]
        h = np.exp(step[:, t, :, None] * a) * h + driven[:, :, None] * b[:, t, None, :]
        y[:, t] = (h * c[:, t, None, :]).sum(axis=2)
    return y


def mamba(weights, u, variant="official", euler=True, kept=None):
    """One block. `kept` is (batch, n), 0 at padding, which the state must not see."""
    kept = np.ones(u.shape[:2]) if kept is None else np.asarray(kept, dtype=np.float64)
    x, z = np.split(linear(weights, "in_proj", u), 2, axis=-1)
    x = silu(depthwise_causal(weights, x * kept[:, :, None])) * kept[:, :, None]
    step, b, c = selective(weights, x, variant)
    y = scan(step, -np.exp(np.asarray(weights["A_log"], dtype=np.float64)), b, c, x, euler)
    return linear(weights, "out_proj", (y + weights["D"] * x) * silu(z))


def hybrid(weights, x, heads, kv_heads=None, window=256, kept=None, **mask):
    """Mamba, then causal window attention, each with its residual."""
    def windowed(q, k, v):
        n = q.shape[2]
        return reference.attend(q, k, v, causal=True, **mask,
                                pattern=reference.window_pattern(n, n, True, window))

    h = x + mamba(under(weights, "mamba."), x, kept=kept)
    return h + attention(under(weights, "attn."), h, heads, kv_heads, windowed)


# --- stacks ---------------------------------------------------------------------------------------


def normalized(weights, name, x, epsilon=1e-5):
    """LayerNorm with a bias, RMSNorm with a weight alone, nothing without either."""
    if f"{name}.weight" not in weights:
        return x
    x = np.asarray(x, dtype=np.float64)
    if f"{name}.bias" in weights:
        x = x - x.mean(axis=-1, keepdims=True)
    scaled = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + epsilon)
    return scaled * weights[f"{name}.weight"] + weights.get(f"{name}.bias", 0)


def gelu(x):
    """x Phi(x) with the true normal distribution."""
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def relu(x):
    return np.maximum(x, 0)


def feed_forward(weights, x, activation=gelu):
    """down(act(up x)) or, where there is a gate, down(act(gate x) * up x)."""
    wide = linear(weights, STACK["up"], x)
    if f"{STACK['gate']}.weight" in weights:
        wide = activation(linear(weights, STACK["gate"], x)) * wide
    else:
        wide = activation(wide)
    return linear(weights, STACK["down"], wide)


def block(weights, x, mixer, residual=True, epsilon=1e-5, activation=gelu):
    """One layer of a stack: x + mixer(norm(x)), then x + feed_forward(norm(x)) where it has one."""
    y = mixer(normalized(weights, STACK["norm"], x, epsilon))
    x = x + y if residual else y
    if f"{STACK['down']}.weight" in weights:
        narrow = normalized(weights, STACK["feed_forward_norm"], x, epsilon)
        x = x + feed_forward(weights, narrow, activation)
    return x


def mamba_stack(weights, x, epsilon=1e-5, kept=None):
    """Hugging Face's MambaModel behind its embedding."""
    count = 1 + max(int(name.split(".")[2]) for name in weights if ".layers." in name)
    for i in range(count):
        own = under(weights, f"backbone.layers.{i}.")
        mixer = under(own, "mixer.")
        x = x + mamba(mixer, normalized(own, "norm", x, epsilon), kept=kept)
    return normalized(weights, "backbone.norm_f", x, epsilon)


# --- LoRA (Hu et al. 2021; rsLoRA: Kalajdzievski 2023) --------------------------------------------


def adapted(weights, pairs, alpha, rank, rslora=False):
    """The weights with W + scale B A for every module of {module: (A, B)}."""
    scale = alpha / (np.sqrt(rank) if rslora else rank)
    changed = {f"{module}.weight": weights[f"{module}.weight"].astype(np.float64)
               + scale * np.asarray(b, dtype=np.float64) @ a for module, (a, b) in pairs.items()}
    return {**weights, **changed}
