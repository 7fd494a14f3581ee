"""Heads, compressed keys, windows and recurrent layers of a configuration."""

from __future__ import annotations

from simulator.importing.building import Building
from simulator.importing.families import Family
from simulator.importing.reader import Reader

_FULL = ("full_attention", "attention", "global", "full")
_SLIDING = ("sliding_attention", "sliding", "local", "local_attention")
_CHUNKED = ("chunked_attention",)
_LINEAR = ("linear_attention",)
_KINDS = {word: kind[0] for kind in (_FULL, _SLIDING, _CHUNKED, _LINEAR) for word in kind}


def read_attention(reader: Reader, family: Family, build: Building) -> None:
    """Everything about attention."""
    if reader.has("kv_lora_rank"):
        _read_latent(reader, build)
    else:
        _read_heads(reader, family, build)
        gate = reader.flag("attn_output_gate")
        if gate if gate is not None else family.gate:
            if gate is None:
                reader.report.infer("attention_gate", value=True, reason="the code of its family always has one")
            build.put("attention_gate", value=True, origin=(*reader.path, "attn_output_gate"))
    kinds = _layer_kinds(reader, family, build)
    if kinds is not None:
        _put_windows(reader, build, kinds)
        _put_recurrent(reader, build, kinds.count("linear_attention"))


def _read_heads(reader: Reader, family: Family, build: Building) -> None:
    heads, width = build.whole("heads"), build.whole("d_model")
    size = reader.whole("head_size", most=100_000)
    if size is None and not reader.problems_at("head_size") and heads and width:
        if width % heads:
            reader.refuse(reader.where("width")[len(reader.path) :], _undivided(reader, heads))
            return
        size = width // heads
        reader.report.infer("head_dim", size, f"width over heads, {width:,} / {heads:,}: head_dim is not in the file")
    build.put("head_dim", size, reader.where("head_size"))
    kv_heads = _kv_heads(reader, family, heads)
    if kv_heads and heads and heads % kv_heads:
        reader.refuse(reader.where("kv_heads")[len(reader.path) :], f"a divisor of the {heads:,} query heads")
        return
    build.put("kv_heads", kv_heads, reader.where("kv_heads"))


def _undivided(reader: Reader, heads: int) -> str:
    return f"a multiple of {reader.where('heads')[-1]}, which is {heads:,}, or head_dim beside it"


def _kv_heads(reader: Reader, family: Family, heads: int | None) -> int | None:
    if family.kv_heads == "falcon" and not reader.flag("new_decoder_architecture"):
        # Older Falcons ignore the number and have one head or all of them.
        one = reader.flag("multi_query") is not False
        reader.report.infer("kv_heads", 1 if one else heads, "the rule of Falcon without new_decoder_architecture")
        return 1 if one else heads
    if family.kv_heads == "chatglm" and not reader.flag("multi_query_attention"):
        reader.report.infer("kv_heads", heads, "multi_query_attention is not true")
        return heads
    found = reader.whole("kv_heads", most=100_000)
    if found is not None or reader.problems_at("kv_heads"):
        return found
    if family.kv_heads == "multi_query" and reader.flag("multi_query") is not False:
        reader.report.infer("kv_heads", 1, "its family has one unless multi_query is false")
        return 1
    if heads is not None:
        reader.report.infer("kv_heads", heads, "num_key_value_heads is not in the file; its family then has one each")
    return heads


def _read_latent(reader: Reader, build: Building) -> None:
    names = {
        "head_dim": "qk_nope_head_dim",
        "latent.kv_rank": "kv_lora_rank",
        "latent.rotary_dim": "qk_rope_head_dim",
        "latent.value_dim": "v_head_dim",
    }
    for name, key in names.items():
        build.put(name, reader.need(key, most=100_000), (*reader.path, key))
    build.put("latent.query_rank", reader.whole("q_lora_rank", most=100_000), (*reader.path, "q_lora_rank"))
    heads = build.whole("heads")
    build.put("kv_heads", heads, reader.where("heads"))
    given = reader.whole("kv_heads", most=100_000)
    if given is not None and given != heads:
        reader.report.note(f"{reader.where('kv_heads')[-1]} {given} means nothing where keys are compressed")


def _layer_kinds(reader: Reader, family: Family, build: Building) -> tuple[str, ...] | None:
    """What each layer attends to, one word a layer."""
    layers = build.whole("layers")
    given = reader.words("layer_types")
    if layers is None or (given is None and reader.has("layer_types")):
        return None
    if given is None:
        return _kinds_by_rule(reader, family, layers)
    if len(given) != layers:
        reader.refuse("layer_types", f"{layers:,} words, one for each of {reader.where('layers')[-1]}")
        return None
    unknown = next((i for i, word in enumerate(given) if word not in _KINDS), None)
    if unknown is not None:
        reader.refuse(("layer_types", unknown), f"one of {', '.join(dict.fromkeys(_KINDS.values()))}")
        return None
    return tuple(_KINDS[word] for word in given)


def _kinds_by_rule(reader: Reader, family: Family, layers: int) -> tuple[str, ...] | None:
    if family.recurrent:
        return _spaced(reader, "full_attention_interval", "linear_attention", layers)
    rule = family.windows
    if rule == "pattern":
        return _spaced(reader, "window_pattern", "sliding_attention", layers) if _window(reader) else _all_full(layers)
    if rule == "chunked":
        return _spaced(reader, "no_rope_layer_interval", "chunked_attention", layers)
    if rule in ("flag", "flag_all") and reader.flag("use_sliding_window") is not True:
        return _all_full(layers)
    if rule in {"none", "types"} or not _window(reader):
        if _window(reader) and reader.flag("use_sliding_window") is not False:
            reader.report.note("sliding_window means nothing to this family: all layers attend to everything")
        return _all_full(layers)
    if rule == "alternate":
        reader.report.infer("window.layers", -(-layers // 2), "every other layer, the first among them, in its family")
        return tuple("full_attention" if i % 2 else "sliding_attention" for i in range(layers))
    first = (reader.whole("max_window_layers", least=0) or 0) if rule == "flag" else 0
    return tuple("sliding_attention" if i >= first else "full_attention" for i in range(layers))


def _all_full(layers: int) -> tuple[str, ...]:
    return ("full_attention",) * layers


def _window(reader: Reader) -> bool:
    return reader.get("sliding_window")[1] is not None


def _spaced(reader: Reader, name: str, kind: str, layers: int) -> tuple[str, ...] | None:
    """All layers are of ``kind`` but every n-th."""
    key, value = reader.get(name)
    if isinstance(value, str) and value and set(value) <= {"L", "G"}:  # EXAONE: LLLG
        repeated = value * (layers // len(value) + 1)
        return tuple(kind if letter == "L" else "full_attention" for letter in repeated[:layers])
    every = reader.whole(name, most=100_000)
    if every is None:
        if not reader.problems_at(name):
            reader.lacks(key, "; or layer_types")
        return None
    reader.report.note(f"of every {every:,} layers all but the last have {kind.replace('_', ' ')} ({key})")
    return tuple("full_attention" if (i + 1) % every == 0 else kind for i in range(layers))


def _put_windows(reader: Reader, build: Building, kinds: tuple[str, ...]) -> None:
    sliding, chunked = kinds.count("sliding_attention"), kinds.count("chunked_attention")
    count = sliding or chunked
    if not count:
        return
    if sliding and chunked:
        reader.refuse("layer_types", "layers with windows or layers in chunks; both in one model are not modelled")
        return
    key = "attention_chunk_size" if chunked else "sliding_window"
    positions = reader.need(key, most=100_000_000)
    build.put("window.positions", positions, (*reader.path, key))
    if count < len(kinds):
        build.put("window.layers", count, (*reader.path, "layer_types"))
    if chunked:
        reader.report.note(
            f"{chunked} layers attend in chunks of {positions or 0:,} positions, modelled as a window of that size: an "
            "upper bound, as a token on average sees half a chunk"
        )


def _put_recurrent(reader: Reader, build: Building, layers: int) -> None:
    if not layers:
        return
    names = {
        "key_heads": "linear_num_key_heads",
        "value_heads": "linear_num_value_heads",
        "key_dim": "linear_key_head_dim",
        "value_dim": "linear_value_head_dim",
        "convolution": "linear_conv_kernel_dim",
    }
    build.put("recurrent.layers", layers, (*reader.path, "layer_types"))
    for name, key in names.items():
        build.put(f"recurrent.{name}", reader.need(key, most=100_000), (*reader.path, key))
