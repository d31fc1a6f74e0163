# SPDX-License-Identifier: MIT OR Apache-2.0
"""What plays, and the key or tensor that is named where something does not."""

import numpy as np
import pytest

from bankml.core.gguf.types import ARRAY, BOOL, F32, STRING, U16, U32
from bankml.core.model.plan import plan
from bankml.core.refusal import Refusal


def test_the_default_model(smollm2):
    from bankml.core.gguf.reader import GgufFile

    with GgufFile.open(smollm2) as gguf:
        built = plan(gguf)
    assert (built.architecture.name, built.n_layer, built.n_embd, built.n_ff) == ("llama", 30, 576, 1536)
    assert (built.n_head, built.n_head_kv, built.head_dim, built.n_vocab) == (9, 3, 64, 49152)
    assert (built.tied, built.output, built.rope.freq_base, built.rope.freq_scale) == (True, "token_embd.weight", 100000.0, 1.0)
    assert len(built.matrices) == 30 * 7 + 1
    assert len(built.vectors) == 30 * 2 + 1


@pytest.mark.parametrize("head_dim", [32, 64, 96, 128, 160, 192, 256])
def test_the_scale_of_attention_is_made_in_float32(changed, head_dim):
    width = 2 * head_dim
    keys = {f"llama.{key}": (U32, head_dim) for key in ("attention.key_length", "attention.value_length", "rope.dimension_count")}
    keys |= {"llama.attention.head_count": (U32, 2), "llama.attention.head_count_kv": (U32, 2)}
    dims = {f"blk.0.attn_{part}.weight": (32, width) for part in "qkv"} | {"blk.0.attn_output.weight": (width, 32)}
    with changed(keys, dims) as gguf:
        built = plan(gguf)
    assert np.float32(built.attention_scale) == np.float32(1) / np.sqrt(np.float32(head_dim))


@pytest.mark.parametrize(
    ("keys", "code", "where"),
    [
        ({"general.architecture": (STRING, "mamba")}, "model.architecture", "key general.architecture"),
        ({"llama.feed_forward_length": None}, "model.key-missing", "key llama.feed_forward_length"),
        ({"llama.attention.layer_norm_rms_epsilon": None}, "model.key-missing", "layer_norm_rms_epsilon"),
        ({"llama.expert_count": (U32, 8), "llama.expert_used_count": (U32, 2)}, "model.not-built", "key llama.expert_count"),
        ({"split.count": (U16, 3)}, "model.split", "key split.count"),
        ({"llama.attention.causal": (BOOL, False)}, "model.not-built", "key llama.attention.causal"),
        ({"llama.nextn_predict_layers": (U32, 1)}, "model.not-built", "key llama.nextn_predict_layers"),
        ({"llama.attention.layer_norm_rms_epsilon": (F32, -1e-6)}, "model.key-value", "layer_norm_rms_epsilon"),
        ({"llama.rope.scaling.factor": (F32, 1e-45)}, "model.key-value", "key llama.rope.scaling.factor"),
        ({"llama.rope.scale_linear": (F32, 1e-45)}, "model.key-value", "key llama.rope.scale_linear"),
        ({"llama.rope.freq_base": (F32, 0.0)}, "model.key-value", "key llama.rope.freq_base"),
        ({"llama.rope.scaling.attn_factor": (F32, float("inf"))}, "model.key-value", "key llama.rope.scaling.attn_factor"),
        ({"llama.rope.dimension_count": (U32, 16)}, "model.rope-dims", "key llama.rope.dimension_count"),
        ({"llama.attention.value_length": (U32, 64)}, "model.head-width", "key llama.attention.key_length"),
        ({"llama.attention.key_length": (U32, 33), "llama.attention.value_length": (U32, 33)}, "model.head-width", "key_length"),
    ],
)
def test_the_key_in_the_way_is_named(changed, keys, code, where):
    with changed(keys) as gguf, pytest.raises(Refusal) as refusal:
        plan(gguf)
    assert refusal.value.code == code
    assert where in refusal.value.where


YARN = {"llama.rope.scaling.type": (STRING, "yarn"), "llama.rope.scaling.factor": (F32, 4.0)}


@pytest.mark.parametrize(
    "name", ["yarn_beta_fast", "yarn_beta_slow", "yarn_ext_factor", "yarn_attn_factor", "yarn_log_multiplier"]
)
def test_other_architectures_keys_of_the_rotation_are_not_read(changed, name):
    with changed(YARN) as gguf:
        plain = plan(gguf)
    with changed({**YARN, f"llama.rope.scaling.{name}": (F32, 3.0)}) as gguf:
        assert plan(gguf) == plain
    assert (plain.rope.beta_fast, plain.rope.beta_slow, plain.rope.ext_factor) == (32.0, 1.0, 1.0)


def test_an_original_context_of_0_counts_as_absent(changed):
    with changed({**YARN, "llama.rope.scaling.original_context_length": (U32, 0), "llama.context_length": (U32, 77)}) as gguf:
        assert plan(gguf).rope.n_ctx_orig == 77


@pytest.mark.parametrize(("factor", "older", "scale"), [(0.0, 4.0, 1.0), (2.0, 4.0, 0.5), (None, 4.0, 0.25), (None, 0.0, 1.0)])
def test_a_factor_hides_its_older_name(changed, factor, older, scale):
    newer = {} if factor is None else {"llama.rope.scaling.factor": (F32, factor)}
    with changed({**newer, "llama.rope.scale_linear": (F32, older)}) as gguf:
        assert plan(gguf).rope.freq_scale == scale


def test_of_a_list_the_first_number_counts(changed):
    two = {"llama.block_count": (U32, 1), "llama.feed_forward_length": ((ARRAY, U32), [32])}
    with changed({**two, "llama.attention.head_count": ((ARRAY, BOOL), [True])}) as gguf:
        assert (plan(gguf).n_ff, plan(gguf).n_head) == (32, 1)


def test_layers_with_other_key_heads_are_refused(changed):
    keys = {"llama.block_count": (U32, 2), "llama.attention.head_count": (U32, 2)}
    with changed({**keys, "llama.attention.head_count_kv": ((ARRAY, U32), [1, 2])}) as gguf, pytest.raises(Refusal) as refusal:
        plan(gguf)
    assert (refusal.value.code, refusal.value.found) == ("model.layers-differ", "[1, 2]")


def test_an_embedding_has_a_row_for_each_token(changed):
    with (
        changed({"tokenizer.ggml.tokens": ((ARRAY, STRING), [str(n) for n in range(15)])}) as gguf,
        pytest.raises(Refusal) as refusal,
    ):
        plan(gguf)
    assert (refusal.value.code, refusal.value.where) == ("model.tensor-shape", "tensor token_embd.weight")


def test_experts_stand_in_the_way_of_llama_alone(changed):
    for arch in ("qwen2", "qwen3"):
        with changed({f"{arch}.expert_count": (U32, 8), f"{arch}.expert_used_count": (U32, 2)}, arch=arch) as gguf:
            assert plan(gguf).n_layer == 1


@pytest.mark.parametrize(
    ("tensors", "code", "where"),
    [
        ({"blk.0.ffn_gate.weight": None}, "model.tensor-missing", "tensor blk.0.ffn_gate.weight"),
        ({"output_norm.weight": None}, "model.tensor-missing", "tensor output_norm.weight"),
        ({"blk.0.attn_k.weight": (32, 64)}, "model.tensor-shape", "tensor blk.0.attn_k.weight"),
        ({"token_embd.weight": None}, "model.missing", "tensor token_embd.weight"),
    ],
)
def test_the_tensor_in_the_way_is_named(changed, tensors, code, where):
    with changed(tensors=tensors) as gguf, pytest.raises(Refusal) as refusal:
        plan(gguf)
    assert (refusal.value.code, refusal.value.where) == (code, where)


def test_a_tensor_that_the_graph_has_no_place_for(changed):
    with changed(extra=[("blk.0.attn_sinks.weight", (32,))]) as gguf, pytest.raises(Refusal) as refusal:
        plan(gguf)
    assert (refusal.value.code, refusal.value.found) == ("model.tensor-unknown", "1 such tensors")
    assert "blk.0.attn_sinks.weight" in refusal.value.where


def test_qwen2_has_heads_as_wide_as_its_embedding(changed):
    keys = {f"qwen2.{key}": (U32, 64) for key in ("attention.key_length", "attention.value_length", "rope.dimension_count")}
    with changed(keys, arch="qwen2") as gguf, pytest.raises(Refusal) as refusal:
        plan(gguf)
    assert refusal.value.code == "model.head-width"


def test_an_attention_scale_is_not_read_as_in_the_reference(changed):
    with changed({"llama.attention.scale": (F32, 3.0)}) as gguf:
        assert plan(gguf).attention_scale == np.float32(1) / np.sqrt(np.float32(32))


def test_scales_of_matrices_play_where_the_reference_reads_them(changed):
    extra = [("blk.0.attn_q.scale", (1,)), ("blk.0.attn_q.input_scale", (1,)), ("blk.0.ffn_up.scale", (1,))]
    with changed(extra=extra) as gguf:
        assert [name for name in plan(gguf).vectors if "scale" in name] == ["blk.0.attn_q.scale", "blk.0.ffn_up.scale"]


def test_a_feed_forward_scale_beside_a_bias_is_named(changed):
    extra = [("blk.0.ffn_up.scale", (1,)), ("blk.0.ffn_up.bias", (32,))]
    with changed(extra=extra) as gguf, pytest.raises(Refusal) as refusal:
        plan(gguf)
    assert (refusal.value.code, refusal.value.where) == ("model.scaled-bias", "tensor blk.0.ffn_up.scale")


def test_an_output_scale_has_a_place_only_beside_nvfp4(changed):
    with changed(extra=[("output.scale", (1,))]) as gguf, pytest.raises(Refusal) as refusal:
        plan(gguf)
    assert (refusal.value.code, refusal.value.where) == ("model.tensor-unknown", "tensor output.scale")
