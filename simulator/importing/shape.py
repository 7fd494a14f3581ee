"""Layers, widths, vocabulary, embeddings, positions and types of a configuration."""

from __future__ import annotations

from simulator.importing.building import Building
from simulator.importing.families import Family
from simulator.importing.reader import Reader

LAYERS = 10_000
"""Layers, at most: lists of that length are made."""

DTYPES = {
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
    "float16": "float16",
    "fp16": "float16",
    "half": "float16",
    "float32": "float32",
    "fp32": "float32",
    "float": "float32",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
}
_GATED = {"silu_glu", "swiglu", "geglu", "reglu"}


def read_shape(reader: Reader, family: Family, build: Building) -> None:
    """Sizes that every model has."""
    for name, key, most in (("layers", "layers", LAYERS), ("d_model", "width", 1_000_000), ("heads", "heads", 100_000)):
        if not (family.encoder and name == "layers"):
            build.put(name, reader.need(key, most=most), reader.where(key))
    read_vocabulary(reader, build)
    _read_embeddings(reader, family, build)
    _read_feed_forward(reader, family, build)
    _read_block(reader, family, build)
    _read_positions(reader, family, build)
    epsilon = reader.real("norm_epsilon", 0, 1)
    if epsilon is None and not reader.problems_at("norm_epsilon"):
        reader.report.infer("norm_epsilon", 1e-6, "not given; times do not depend on it")
        epsilon = 1e-6
    build.put("norm_epsilon", epsilon, reader.where("norm_epsilon"))


def read_vocabulary(reader: Reader, build: Building) -> None:
    """Tokens, padding included: rows of the table, not words of the tokenizer."""
    padded = reader.whole("padded_vocabulary", least=2)
    plain = reader.whole("vocabulary", least=2) if padded is None or reader.key("vocabulary") else padded
    if plain is None:
        if reader.key("vocabulary") is None:
            reader.lacks("vocabulary", f"; also accepted: {reader.where('padded_vocabulary')[-1]}")
        return
    if padded is not None and padded < plain:
        reader.refuse(reader.key("padded_vocabulary") or "", f"at least the {plain:,} tokens without padding")
        return
    multiple = reader.whole("vocabulary_multiple") or 1
    if padded is None and plain % multiple:
        padded = -(-plain // multiple) * multiple
        reason = f"{plain:,} rounded up to a multiple of {multiple:,}, as the file says"
        reader.report.infer("vocabulary", padded, reason)
    build.put("vocabulary", padded or plain, reader.where("vocabulary"))


def _read_embeddings(reader: Reader, family: Family, build: Building) -> None:
    tied = reader.flag("tie_word_embeddings")
    if tied is None and reader.path:
        # A nested text part often leaves it to the outer configuration.
        outer = Reader(reader.document, (), reader.problems, reader.report, {})
        tied = outer.flag("tie_word_embeddings")
    if tied is None:
        tied = family.tied
        reader.report.infer("tied_embeddings", tied, "tie_word_embeddings is not given; the default of its family")
    build.put("tied_embeddings", tied, (*reader.path, "tie_word_embeddings"))
    projected, width = reader.whole("word_embed_proj_dim"), build.whole("d_model")
    if family.projected and projected is None and not reader.problems_at("word_embed_proj_dim"):
        reader.report.infer("word_embed_proj_dim", width, "the width; not so in OPT-350M, which cannot be modelled")
    if projected is not None and width is not None and projected != width:
        accepts = f"the same as hidden_size, which is {width:,}: embeddings of another width are not modelled"
        reader.refuse("word_embed_proj_dim", accepts)


def _read_feed_forward(reader: Reader, family: Family, build: Building) -> None:
    word = reader.word("feed_forward_proj") or ""
    gated = {None: None, True: "gated", False: "plain"}[reader.flag("is_gated_act")]
    if gated is None and word:
        gated = "gated" if word.startswith("gated") else "plain"
    activation = reader.get("hidden_act")[1]
    if gated is None and isinstance(activation, str) and activation in _GATED:
        gated = "gated"
    build.put("feed_forward", gated or family.feed_forward, reader.where("feed_forward_proj"))


def _read_block(reader: Reader, family: Family, build: Building) -> None:
    parallel, key = family.parallel, ""
    if isinstance(parallel, str):
        key = parallel.removeprefix("!")
        said, default = reader.flag(key), parallel.startswith("!")
        if said is None:
            reader.report.infer("block", "parallel" if default else "serial", f"{key} is not in the file")
        parallel = default if said is None else said
    if parallel:
        build.put("block", "parallel", (*reader.path, key))


def _read_positions(reader: Reader, family: Family, build: Building) -> None:
    report = reader.report
    kind = family.positions
    if reader.flag("alibi"):
        kind = "none"
    if kind == "none" and "position_buckets" not in family.extras:
        report.leave(family.alibi or "biases by distance (ALiBi)", reason="positions: none; it has no time of its own")
    build.put("positions", kind, reader.where("positions"))
    if kind == "learned":
        rows = reader.need("positions")
        build.put("max_positions", rows and rows + family.offset, reader.where("positions"))
        if family.offset:
            report.note(f"the table of positions has {family.offset} rows more than {reader.where('positions')[-1]}")
    if kind == "rotary":
        _read_rotary(reader, build)


def _read_rotary(reader: Reader, build: Building) -> None:
    # Transformers 5 keeps base and scaling together in rope_parameters, for some families by kind of layer.
    both = reader.part("rope_parameters")
    both = (both.part("full_attention") or both) if both is not None else None
    holder = both if both is not None and both.has_any("rotary_base") and not reader.has_any("rotary_base") else reader
    base = holder.real("rotary_base", 0, 1e12)
    if base is None and not holder.problems_at("rotary_base"):
        base = 10_000.0
        reader.report.infer("rotary_base", base, "not given; times do not depend on it")
    build.put("rotary_base", base, holder.where("rotary_base"))
    scaling = reader.part("rope_scaling") or both
    if scaling is not None:
        _read_scaling(scaling, build)
    for source in filter(None, (reader, both)):
        key = source.says(("partial_rotary_factor", "rotary_pct", "rotary_dim"))
        if key and source.data[key] not in (1, 1.0):
            source.report.leave(f"rotary positions on a part of each head ({key})", reason="times do not depend on it")


def _read_scaling(reader: Reader, build: Building) -> None:
    kind = reader.word("rope_type") or reader.word("type")
    if kind in (None, "default", "mrope"):
        return
    why = "times do not depend on it"
    if kind != "llama3":
        reader.report.leave(f"rotary scaling of type {kind}", reason=why)
        return
    names = {
        "factor": "factor",
        "low_frequency_factor": "low_freq_factor",
        "high_frequency_factor": "high_freq_factor",
        "original_positions": "original_max_position_embeddings",
    }
    read = {key: (reader.real(name, 0, 1e12), name) for key, name in names.items()}
    for value, name in read.values():
        if value is None and not reader.has(name):
            reader.lacks(name)
    low, high = read["low_frequency_factor"][0], read["high_frequency_factor"][0]
    if low is not None and high is not None and low >= high:
        # Llama 4 gives both as 1: then no pair lies between fast and slow, which the schema has no words for.
        reader.report.leave("rotary scaling of type llama3 whose two factors are the same", reason=why)
        return
    for key, (value, name) in read.items():
        whole = key == "original_positions" and value is not None and value == int(value)
        build.put(f"rotary_scaling.{key}", int(value) if whole and value else value, (*reader.path, name))


def read_dtype(reader: Reader, build: Building) -> str | None:
    """The type of weights that are not quantised."""
    found = next((source for source in _sources(reader) if source.key("dtype")), None)
    word = found.word("dtype") if found is not None else None
    if word == "auto" or (found is None):
        reader.report.infer("weight_dtype", "bfloat16", "neither torch_dtype nor dtype is given; most models have it")
        build.put("weight_dtype", "bfloat16", reader.where("dtype"))
        return "bfloat16"
    if word is None:
        return None
    dtype = DTYPES.get(word.removeprefix("torch."))
    if dtype is None:
        found.refuse(found.key("dtype") or "", f"one of {', '.join(DTYPES)}")
        return None
    if dtype == "float32":
        reader.report.note("the weights are stored in float32, as the file says; servers mostly load them as bfloat16")
    build.put("weight_dtype", dtype, found.where("dtype"))
    return dtype


def _sources(reader: Reader) -> tuple[Reader, ...]:
    """The mapping, and the whole file where that is another."""
    outer = Reader(reader.document, (), reader.problems, reader.report, {})
    return (reader, outer) if reader.path else (reader,)
