"""The reference for models, against plain loops and against the articles' classes written out."""

import math
import unittest

import checkpoints
import model_reference as models
import numpy as np
import reference
import samples


def mamba_by_loops(w, u):
    """One sequence (n, hidden), one number at a time, with nothing but the definition."""
    states, taps = w["A_log"].shape[1], w["conv1d.weight"].shape[2]
    inner, rank = w["dt_proj.weight"].shape
    a = [[-math.exp(x) for x in row] for row in w["A_log"].tolist()]
    pairs = [w["in_proj.weight"].astype(float) @ row for row in u.astype(float)]
    h, out = np.zeros((inner, states)), []
    for t in range(len(u)):
        x = []
        for c in range(inner):
            total = float(w["conv1d.bias"][c])
            for j in range(taps):
                if t - taps + 1 + j >= 0:
                    total += float(w["conv1d.weight"][c, 0, j]) * pairs[t - taps + 1 + j][c]
            x.append(total / (1 + math.exp(-total)))
        parts = w["x_proj.weight"].astype(float) @ x
        y = []
        for c in range(inner):
            raw = float(w["dt_proj.weight"][c].astype(float) @ parts[:rank] + w["dt_proj.bias"][c])
            step, answer = math.log1p(math.exp(raw)), float(w["D"][c]) * x[c]
            for s in range(states):
                h[c, s] = math.exp(step * a[c][s]) * h[c, s] + step * parts[rank + s] * x[c]
                answer += parts[rank + states + s] * h[c, s]
            z = pairs[t][inner + c]
            y.append(answer * z / (1 + math.exp(-z)))
        out.append(w["out_proj.weight"].astype(float) @ y)
    return np.array(out)


def article_linformer(w, x, heads):
    """LinformerAttention.forward with its einsum as it is meant, line by line."""
    batch, n, dim = x.shape
    shape = (batch, n, heads, dim // heads)
    q, k, v = (models.linear(w, name, x).reshape(shape).transpose(0, 2, 1, 3)
               for name in ("q_proj", "k_proj", "v_proj"))
    k_proj = np.einsum("bhnd,nk->bhkd", k, w["E"][:n].astype(float))
    v_proj = np.einsum("bhnd,nk->bhkd", v, w["F"][:n].astype(float))
    attn = np.matmul(q, k_proj.transpose(0, 1, 3, 2)) * (dim // heads) ** -0.5
    attn = np.exp(attn - attn.max(axis=-1, keepdims=True))
    attn /= attn.sum(axis=-1, keepdims=True)
    return models.linear(w, "out_proj", np.matmul(attn, v_proj).transpose(0, 2, 1, 3)
                         .reshape(batch, n, dim))


def article_ssm(w, x):
    """SelectiveSSM.forward with dA as it is meant, line by line."""
    batch, n, _ = x.shape
    d_state, d_conv = w["A_log"].shape[1], w["conv1d.weight"].shape[2]
    x_branch, z = np.split(models.linear(w, "in_proj", x), 2, axis=-1)
    padded = np.pad(x_branch, ((0, 0), (d_conv - 1, d_conv - 1), (0, 0)))
    x_conv = np.stack([(padded[:, t:t + d_conv] * w["conv1d.weight"][:, 0].T).sum(axis=1)
                       for t in range(n)], axis=1) + w["conv1d.bias"]
    x_conv = x_conv / (1 + np.exp(-x_conv))
    ssm_params = models.linear(w, "x_proj", x_conv)
    b_param, c_param = ssm_params[:, :, :d_state], ssm_params[:, :, d_state:d_state * 2]
    dt = np.log1p(np.exp(models.linear(w, "dt_proj", ssm_params[:, :, -1:])))
    a = -np.exp(w["A_log"].astype(float))
    da = np.exp(dt[..., None] * a[None, None])
    h, ys = np.zeros((batch, *a.shape)), []
    for t in range(n):
        h = da[:, t] * h + np.einsum("bd,bn->bdn", x_conv[:, t], b_param[:, t])
        ys.append(np.einsum("bdn,bn->bd", h, c_param[:, t]))
    y = (np.stack(ys, axis=1) + w["D"] * x_conv) * (z / (1 + np.exp(-z)))
    return models.linear(w, "out_proj", y)


class ModelReference(unittest.TestCase):
    def near(self, got, wanted):
        np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-12)

    def test_mamba_against_loops(self):
        for sizes in ({}, {"taps": 2, "states": 3, "rank": 2}, {"inner": 7, "taps": 1}):
            with self.subTest(sizes=sizes):
                w = checkpoints.mamba(1, 6, **sizes)
                u = samples.normal(2, 2, 11, 6)
                self.near(models.mamba(w, u), [mamba_by_loops(w, row) for row in u])

    def test_the_articles_classes(self):
        x = samples.normal(3, 2, 13, 12)
        w = checkpoints.linformer_attention(4, 12, 20, 5, 3)
        e, f = models.linformer_projections(w)
        self.near(models.attention(w, x, 3, None, lambda *qkv: reference.linformer(*qkv, e=e, f=f)),
                  article_linformer(w, x, 3))
        w = checkpoints.selective_ssm(5, 12, d_state=6)
        self.near(models.mamba(w, x, "article", euler=False), article_ssm(w, x))

    def test_article_and_official_differ_in_order_alone(self):
        """The rows of x_proj moved, the article's block with Euler steps is an official one."""
        w = checkpoints.selective_ssm(6, 10, d_state=4)
        rows = w["x_proj.weight"]
        moved = {**w, "x_proj.weight": np.concatenate([rows[-1:], rows[:-1]])}
        u = samples.normal(7, 1, 9, 10)
        self.near(models.mamba(w, u, "article"), models.mamba(moved, u))

    def test_padding_is_not_seen(self):
        w = checkpoints.mamba(8, 10)
        u, junk = samples.normal(9, 1, 12, 10), samples.normal(10, 1, 5, 10)
        wanted = models.mamba(w, u)
        left = models.mamba(w, np.concatenate([junk, u], axis=1), kept=[[0] * 5 + [1] * 12])
        right = models.mamba(w, np.concatenate([u, junk], axis=1), kept=[[1] * 12 + [0] * 5])
        self.near(left[:, 5:], wanted)
        self.near(right[:, :12], wanted)

    def test_norms_and_activations(self):
        """By figures worked out elsewhere: a row of 1, 2, 3, 6 has mean 3 and variance 3.5."""
        x = np.array([[[1.0, 2, 3, 6]]])
        one = {"n.weight": np.ones(4), "n.bias": np.zeros(4)}
        self.near(models.normalized(one, "n", x, 0.0), (x - 3) / math.sqrt(3.5))
        self.near(models.normalized({"n.weight": np.ones(4)}, "n", x, 0.5), x / math.sqrt(13))
        self.near(models.normalized({}, "n", x), x)
        self.assertAlmostEqual(float(models.gelu(np.array([1.0]))[0]), 0.8413447460685429)

    def test_low_rank_update(self):
        w = {"p.weight": np.eye(2)}
        pair = {"p": (np.array([[1.0, 2], [0, 0], [0, 0], [0, 0]]),
                      np.array([[3.0, 0, 0, 0], [1, 0, 0, 0]]))}
        self.near(models.adapted(w, pair, 8, 4)["p.weight"], [[7, 12], [2, 5]])
        self.near(models.adapted(w, pair, 8, 4, rslora=True)["p.weight"], [[13, 24], [4, 9]])

    def test_dtypes_round_trip(self):
        x = np.array([1.0, -3.140625, 2.0**-133])
        self.assertEqual(checkpoints.as_stored(x, "BF16").tolist(), x.tolist())
        self.assertEqual(checkpoints.as_stored([65504, 2.0**-24], "F16").tolist(), [65504, 2**-24])
