"""Checkpoints as people save them, written by numpy alone: tensors, config.json, adapters, folders.

Weights are of the size that training starts from, so that answers are about as large as inputs and
a relative error means something. Nothing here asks the daemon what it would like.
"""

import json
import os
from collections import namedtuple

import client
import numpy as np
import safetensors

# Names, under "layers.N.", of what a stack holds beside its mixers; the last is at the top.
STACK = {"norm": "norm", "feed_forward_norm": "ffn_norm", "gate": "ffn.gate_proj",
         "up": "ffn.up_proj", "down": "ffn.down_proj", "final_norm": "norm_f"}

# A model folder before it is written. `adapters` is {name: Adapter}.
Checkpoint = namedtuple("Checkpoint", "config tensors adapters", defaults=({},))

# A LoRA adapter: {module: (A, B)} and what adapter_config.json says beside the modules.
Adapter = namedtuple("Adapter", "pairs config")


def normal(rng, *shape, scale=1.0):
    return (scale * rng.standard_normal(shape)).astype(np.float32)


def linear(rng, name, rows, columns, bias=False):
    """torch.nn.Linear's tensors: rows are outputs."""
    tensors = {f"{name}.weight": normal(rng, rows, columns, scale=columns**-0.5)}
    if bias:
        tensors[f"{name}.bias"] = normal(rng, rows, scale=0.3)
    return tensors


def prefixed(prefix, tensors):
    return {prefix + name: x for name, x in tensors.items()}


# --- layers ---------------------------------------------------------------------------------------


def attention(seed, hidden, heads, kv_heads=None, head_dim=None, bias=False, out="out_proj"):
    """q_proj, k_proj, v_proj and the last projection by the name given."""
    rng = np.random.default_rng(seed)
    d = head_dim or hidden // heads
    narrow = (kv_heads or heads) * d
    return {**linear(rng, "q_proj", heads * d, hidden, bias),
            **linear(rng, "k_proj", narrow, hidden, bias),
            **linear(rng, "v_proj", narrow, hidden, bias),
            **linear(rng, out, hidden, heads * d, bias)}


def projections(seed, seq_len, k, names=("E", "F")):
    """Linformer's: E and F are (seq_len, k), compress_k and compress_v (k, seq_len)."""
    rng = np.random.default_rng(seed)
    shape = (seq_len, k) if names[0] == "E" else (k, seq_len)
    return {name: normal(rng, *shape, scale=k**-0.5) for name in names}


def linformer_attention(seed, dim, seq_len, k, num_heads):
    """The state dict of the article's LinformerAttention: biases everywhere, E and F as randn."""
    rng = np.random.default_rng(seed)
    return {**attention(seed + 1, dim, num_heads, bias=True),
            "E": normal(rng, seq_len, k), "F": normal(rng, seq_len, k)}


def mamba(seed, hidden, inner=None, states=16, taps=4, rank=None, bias=False, conv_bias=True):
    """A Mamba block as mamba_ssm and transformers name and start it: steps between 0.001 and 0.1,
    states that decay at rates from 1 to `states`."""
    rng = np.random.default_rng(seed)
    inner, rank = inner or 2 * hidden, rank or -(-hidden // 16)
    step = np.exp(rng.uniform(np.log(0.001), np.log(0.1), inner))
    tensors = {**linear(rng, "in_proj", 2 * inner, hidden, bias),
               "conv1d.weight": normal(rng, inner, 1, taps, scale=taps**-0.5),
               **linear(rng, "x_proj", rank + 2 * states, inner),
               "dt_proj.weight": normal(rng, inner, rank, scale=rank**-0.5),
               "dt_proj.bias": np.log(np.expm1(step)).astype(np.float32),
               "A_log": decay_rates(rng, inner, states),
               "D": 1 + normal(rng, inner, scale=0.1),
               **linear(rng, "out_proj", hidden, inner, bias)}
    if conv_bias:
        tensors["conv1d.bias"] = normal(rng, inner, scale=0.3)
    return tensors


def decay_rates(rng, inner, states):
    """log(1 … states) in every channel, a little moved, as training does."""
    rates = np.log(np.arange(1, states + 1)).astype(np.float32)
    return rates + normal(rng, inner, states, scale=0.1)


def selective_ssm(seed, d_model, d_state=16, d_conv=4, expand=2):
    """The state dict of the article's SelectiveSSM: x_proj gives B, C and a step, in that order."""
    return mamba(seed, d_model, expand * d_model, d_state, d_conv, rank=1)


# --- stacks ---------------------------------------------------------------------------------------


def norm(rng, name, hidden, bias):
    """LayerNorm's tensors, or RMSNorm's, which has no bias."""
    tensors = {f"{name}.weight": 1 + normal(rng, hidden, scale=0.2)}
    if bias:
        tensors[f"{name}.bias"] = normal(rng, hidden, scale=0.2)
    return tensors


def feed_forward(rng, hidden, inner, bias=False, gated=False):
    tensors = {**linear(rng, STACK["up"], inner, hidden, bias),
               **linear(rng, STACK["down"], hidden, inner, bias)}
    return {**tensors, **(linear(rng, STACK["gate"], inner, hidden, bias) if gated else {})}


def hugging_face_mamba(seed, hidden, layers, vocabulary=50, **sizes):
    """MambaForCausalLM's state dict: embedding and head are there, and nobody reads them."""
    rng = np.random.default_rng(seed)
    tensors = {"backbone.embeddings.weight": normal(rng, vocabulary, hidden)}
    for i in range(layers):
        prefix = f"backbone.layers.{i}."
        tensors.update(prefixed(prefix, norm(rng, "norm", hidden, bias=False)))
        tensors.update(prefixed(f"{prefix}mixer.", mamba(seed + i + 1, hidden, **sizes)))
    tensors.update(norm(rng, "backbone.norm_f", hidden, bias=False))
    return {**tensors, "lm_head.weight": tensors["backbone.embeddings.weight"]}


def hugging_face_config(hidden, layers, states=16, taps=4, rank=None, vocabulary=50, **more):
    """The config.json that transformers writes beside it."""
    return {"architectures": ["MambaForCausalLM"], "bos_token_id": 0, "conv_kernel": taps,
            "eos_token_id": 0, "expand": 2, "fused_add_norm": True, "hidden_act": "silu",
            "hidden_size": hidden, "initializer_range": 0.1, "intermediate_size": 2 * hidden,
            "layer_norm_epsilon": 1e-05, "model_type": "mamba", "num_hidden_layers": layers,
            "pad_token_id": 0, "rescale_prenorm_residual": False, "residual_in_fp32": True,
            "rms_norm": True, "state_size": states, "time_step_floor": 0.0001,
            "time_step_init_scheme": "random", "time_step_max": 0.1, "time_step_min": 0.001,
            "time_step_rank": rank or -(-hidden // 16), "time_step_scale": 1.0,
            "torch_dtype": "float32", "transformers_version": "4.39.0", "use_bias": False,
            "use_cache": True, "use_conv_bias": True, "vocab_size": vocabulary, **more}


# --- adapters -------------------------------------------------------------------------------------


def lora(seed, tensors, modules, rank, alpha, **config):
    """An adapter as peft trains one, B no longer zero, for modules of these tensors."""
    rng = np.random.default_rng(seed)
    pairs = {}
    for module in modules:
        rows, columns = tensors[f"{module}.weight"].shape
        pairs[module] = (normal(rng, rank, columns, scale=columns**-0.5),
                         normal(rng, rows, rank, scale=rank**-0.5))
    return Adapter(pairs, {"r": rank, "lora_alpha": alpha, **config})


def adapter_config(adapter):
    """The adapter_config.json that peft writes."""
    targets = sorted({module.rsplit(".", 1)[-1] for module in adapter.pairs})
    return {"alpha_pattern": {}, "auto_mapping": None, "base_model_name_or_path": "some/base",
            "bias": "none", "fan_in_fan_out": False, "inference_mode": True,
            "init_lora_weights": True, "layers_pattern": None, "layers_to_transform": None,
            "lora_dropout": 0.05, "modules_to_save": None, "peft_type": "LORA",
            "rank_pattern": {}, "revision": None, "target_modules": targets, "task_type": None,
            "use_dora": False, "use_rslora": False, **adapter.config}


# --- folders --------------------------------------------------------------------------------------


def as_stored(x, dtype):
    """What a reader finds after the array was saved in that dtype, as float64."""
    packed = client.to_bytes(x, safetensors.DATATYPES[dtype])
    if dtype == "BF16":
        words = np.frombuffer(packed, "<u2").astype("<u4") << 16
        return words.view("<f4").astype(np.float64).reshape(np.shape(x))
    return np.frombuffer(packed, safetensors.READ[dtype]).astype(np.float64).reshape(np.shape(x))


def write(folder, name, content):
    """A file of bytes, text or a JSON document."""
    if not isinstance(content, (bytes, str)):
        content = json.dumps(content, indent=2)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def save(folder, checkpoint, dtypes=None, shards=1, header_length=None, adapter_dtypes=None):
    """Write the folder; `shards` files and their index when there is more than one."""
    os.makedirs(folder, exist_ok=True)
    write(folder, "config.json", checkpoint.config)
    if shards == 1:
        write(folder, "model.safetensors",
              safetensors.dump(checkpoint.tensors, dtypes, header_length, {"format": "pt"}))
    else:
        save_shards(folder, checkpoint.tensors, dtypes, shards)
    for name, adapter in checkpoint.adapters.items():
        save_adapter(os.path.join(folder, "adapters", name), adapter, adapter_dtypes)


def save_shards(folder, tensors, dtypes, shards):
    """Tensors dealt out in turn, so that neighbours of one layer stand in different files."""
    names, weight_map = list(tensors), {}
    for i in range(shards):
        file, own = f"model-{i + 1:05}-of-{shards:05}.safetensors", names[i::shards]
        write(folder, file, safetensors.dump({name: tensors[name] for name in own}, dtypes))
        weight_map.update(dict.fromkeys(own, file))
    total = sum(4 * x.size for x in tensors.values())
    write(folder, "model.safetensors.index.json",
          {"metadata": {"total_size": total}, "weight_map": weight_map})


def save_adapter(folder, adapter, dtypes=None):
    os.makedirs(folder, exist_ok=True)
    tensors = {}
    for module, (a, b) in adapter.pairs.items():
        tensors[f"base_model.model.{module}.lora_A.weight"] = a
        tensors[f"base_model.model.{module}.lora_B.weight"] = b
    write(folder, "adapter_model.safetensors",
          safetensors.dump(tensors, dtypes, metadata={"format": "pt"}))
    write(folder, "adapter_config.json", adapter_config(adapter))
