"""Quantisation blocks of a configuration -> types of weights, scales, caches and multiplications.

Read off the formats' own code: Transformers 4.57.1 (utils/quantization_config.py), compressed-tensors and ModelOpt.
Unless said otherwise embedding, LM head, norms and routers stay as they were; routers and norms are too few to be told
apart here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from simulator.importing.building import Building
from simulator.importing.reader import Reader

_UNMODELLED = "aqlm, bitnet, eetq, higgs, hqq, quanto, quark, spqr, torchao and vptq are not modelled"
_INTS = {4: "int4", 8: "int8"}
_FLOATS = {4: "fp4", 8: "fp8"}
_KV = {"FP8": "fp8", "INT8": "int8", "NVFP4": "fp4"}


@dataclass(frozen=True)
class Quantised:
    """How weights are stored; ``group`` weights share a scale of type ``scale``."""

    dtype: str
    key: str
    """Where the file says so."""
    group: int | None = None
    scale: str | None = None
    matmul: str | None = None
    experts_only: bool = False
    kept: tuple[str, ...] = ("lm_head",)
    """Modules that are left as they were, as the file names them."""
    kv: str | None = None
    note: str = ""


# What the algorithms of ModelOpt are (modelopt/torch/export/quant_utils.py).
_MODELOPT = {
    "FP8": Quantised("fp8", "quant_algo", matmul="fp8"),
    "FP8_PER_CHANNEL_PER_TOKEN": Quantised("fp8", "quant_algo", matmul="fp8"),
    "FP8_PB_WO": Quantised("fp8", "quant_algo", 128 * 128, "float32"),
    "NVFP4": Quantised("fp4", "quant_algo", 16, "fp8", matmul="fp4"),
    "W4A16_NVFP4": Quantised("fp4", "quant_algo", 16, "fp8"),
    "W4A16_AWQ": Quantised("int4", "quant_algo", 128, "float16"),
    "INT4_AWQ": Quantised("int4", "quant_algo", 128, "float16"),
    "W4A8_AWQ": Quantised("int4", "quant_algo", 128, "float16", matmul="fp8"),
    "W8A16": Quantised("int8", "quant_algo"),
    "W8A8_SQ_PER_CHANNEL": Quantised("int8", "quant_algo", matmul="int8"),
}


def read_quantization(reader: Reader, build: Building, plain: str | None) -> None:
    """The block `quantization_config`, where there is one; ``plain`` is the type of what is not quantised."""
    block = reader.part("quantization_config") or reader.part("compression_config")
    if block is None:
        return
    method = block.word("quant_method")
    if method is None:
        if block.has("load_in_4bit") or block.has("load_in_8bit"):
            method = "bitsandbytes"
        elif not block.has("quant_method"):
            block.lacks("quant_method")
            return
    handler = _METHODS.get((method or "").lower().replace("_", "-"))
    if handler is None:
        accepts = f"one of {', '.join(_METHODS)}; {_UNMODELLED}"
        if block.has("quant_method"):
            block.refuse("quant_method", accepts)
        return
    put(block, build, handler(block), plain)


def read_modelopt(block: Reader, build: Building, plain: str | None) -> None:
    """The `quantization` mapping of a hf_quant_config.json."""
    put(block, build, _modelopt(block), plain)


def put(block: Reader, build: Building, found: Quantised | None, plain: str | None) -> None:
    """Set the types that ``found`` says."""
    if found is None or plain is None:
        return
    where = (*block.path, found.key)
    build.kept, build.plain = found.kept, plain
    experts_only = found.experts_only or _only_experts(found, build)
    if experts_only and not build.values.get("experts"):
        block.refuse(found.key, "a model with experts: this quantises them alone")
        return
    build.put("experts.weight_dtype" if experts_only else "weight_dtype", found.dtype, where)
    if experts_only:
        build.put("weight_dtype", plain, where)
    elif any("lm_head" in module for module in found.kept):
        build.put("head_dtype", plain, where)
    build.put("weight_group", found.group, where)
    build.put("weight_scale_dtype", found.scale if found.group else None, where)
    build.put("kv_dtype", found.kv, where)
    build.put("activation_dtype", plain if plain != "fp8" else "bfloat16", where)
    build.put("matmul_dtype", found.matmul, where)
    block.report.note(_words(found, plain, experts_only))
    for note in filter(None, (found.note, _kept_words(found, experts_only))):
        block.report.note(note)


def _only_experts(found: Quantised, build: Building) -> bool:
    """Whether attention is kept in every layer of a model with experts: then these are what is quantised."""
    kept = [module for module in found.kept if re.search(r"(?:self_attn|attention)[.*$]*$", module)]
    everywhere = any("*" in module for module in kept) or len(kept) >= (build.whole("layers") or 0) > 0
    return everywhere and bool(build.values.get("experts"))


def _words(found: Quantised, plain: str, experts_only: bool) -> str:
    what = "experts" if experts_only else "weights of the layers"
    scales = f", one {found.scale} scale for {found.group:,} of them" if found.group else ""
    cache = f"; KV cache in {found.kv}" if found.kv else ""
    return f"quantised: {what} in {found.dtype}{scales}; multiplied in {found.matmul or plain}; other: {plain}{cache}"


def _kept_words(found: Quantised, experts_only: bool) -> str:
    """What the file keeps as it was, layers taken together."""
    kept = dict.fromkeys(re.sub(r"\.\d+\.", ".N.", module) for module in found.kept if "lm_head" not in module)
    if not kept:
        return ""
    shown = ", ".join(list(kept)[:8]) + (", ..." if len(kept) > 8 else "")
    charged = "all but experts" if experts_only else "none of a layer"
    return f"not quantised, says the file: {shown}; charged as not quantised: {charged}"


def _fp8(block: Reader) -> Quantised | None:
    size = block.wholes("weight_block_size")
    matmul = None if block.word("activation_scheme") is None else "fp8"
    kept = ("lm_head", *(block.words("modules_to_not_convert") or block.words("ignored_layers") or ()))
    if size is None:
        return Quantised("fp8", "quant_method", matmul=matmul, kept=kept)
    if len(size) != 2 or not all(0 < side <= 1000 for side in size):
        block.refuse("weight_block_size", "two sides of a block, such as [128, 128]")
        return None
    return Quantised("fp8", "weight_block_size", size[0] * size[1], "float32", matmul=matmul, kept=kept)


def _integers(block: Reader) -> Quantised | None:
    """GPTQ and AWQ: integers of 4 or 8 bits with a scale and a zero for each group."""
    bits_key = block.says(("bits", "w_bit")) or "bits"
    bits = block.need(bits_key)
    group_key = block.says(("group_size", "q_group_size")) or "group_size"
    group = block.whole(group_key, least=-1, most=1_000_000)
    if bits is None:
        return None
    if bits not in _INTS:
        block.refuse(bits_key, "4 or 8; other sizes are not modelled")
        return None
    if not block.has(group_key):
        group = 128
        block.report.infer("weight_group", group, f"{group_key} is not in the file; the default of both formats")
    each = group if group and group > 0 else None
    note = "the zero points of the groups are left out: half a byte or one for each group" if each else ""
    kept = () if block.flag("lm_head") else ("lm_head",)
    return Quantised(_INTS[bits], bits_key, each, "float16", kept=kept, note=note)


def _mxfp4(block: Reader) -> Quantised:
    kept = block.words("modules_to_not_convert") or ("lm_head",)
    return Quantised("fp4", "quant_method", 32, "fp8", experts_only=True, kept=kept)


def _bitsandbytes(block: Reader) -> Quantised | None:
    four = block.flag("load_in_4bit") or block.flag("_load_in_4bit")
    eight = block.flag("load_in_8bit") or block.flag("_load_in_8bit")
    if four and eight:
        block.refuse("load_in_8bit", "one of load_in_4bit and load_in_8bit")
        return None
    if eight:
        return Quantised("int8", "load_in_8bit", matmul="int8")
    if not four:
        block.refuse("quant_method", "load_in_4bit or load_in_8bit beside it")
        return None
    scale = "fp8" if block.flag("bnb_4bit_use_double_quant") else "float32"
    table = block.word("bnb_4bit_quant_type") or "fp4"
    note = f"{table} is a table of 16 values: 4 bits a weight, called int4 here; a scale for each 64 is its default"
    return Quantised("int4", "load_in_4bit", 64, scale, note=note)


def _compressed(block: Reader) -> Quantised | None:
    groups = block.part("config_groups")
    if groups is None:
        if not block.has("config_groups"):
            block.lacks("config_groups")
        return None
    schemes = [_scheme(part) for key in groups.data if (part := groups.part(str(key))) is not None]
    found = [scheme for scheme in schemes if scheme is not None]
    if not found:
        if len(schemes) == 0:
            block.refuse("config_groups", "at least one group, with its weights")
        return None
    if any(scheme != found[0] for scheme in found):
        block.refuse("config_groups", "groups of one kind; several kinds in one model are not modelled")
        return None
    return replace(found[0], kv=_cache(block), kept=block.words("ignore") or ())


def _cache(block: Reader) -> str | None:
    """The type of cached keys and values, where the block says one."""
    scheme = block.part("kv_cache_scheme")
    if scheme is None:
        return None
    bits, kind = scheme.need("num_bits"), scheme.word("type") or "float"
    found = (_FLOATS if kind == "float" else _INTS).get(bits or 0)
    if found is None and bits is not None:
        scheme.refuse("num_bits", "4 or 8; other sizes are not modelled")
    return found


def _scheme(group: Reader) -> Quantised | None:
    weights = group.part("weights")
    if weights is None:
        if not group.has("weights"):
            group.lacks("weights")
        return None
    bits, kind = weights.need("num_bits"), weights.word("type") or "int"
    dtype = (_FLOATS if kind == "float" else _INTS).get(bits or 0)
    if dtype is None:
        if bits is not None:
            weights.refuse("num_bits", "4 or 8; other sizes are not modelled")
        return None
    strategy = weights.word("strategy")
    size, block = weights.whole("group_size", least=-1, most=1_000_000), weights.wholes("block_structure")
    each = size if size and size > 0 else None
    if strategy == "block" and block and len(block) == 2:
        each = block[0] * block[1]
    inputs = group.part("input_activations")
    matmul = None
    if inputs is not None:
        kinds = _FLOATS if (inputs.word("type") or kind) == "float" else _INTS
        matmul = kinds.get(inputs.need("num_bits") or 0)
    scale = ("fp8" if dtype == "fp4" else "bfloat16") if each else None
    return Quantised(dtype, "config_groups", each, scale, matmul=matmul)


def _modelopt(block: Reader) -> Quantised | None:
    algorithm = block.word("quant_algo")
    cache = block.word("kv_cache_quant_algo")
    if cache is not None and cache not in _KV:
        block.refuse("kv_cache_quant_algo", f"one of {', '.join(_KV)}, or null")
    if algorithm is None or algorithm not in _MODELOPT:
        if block.has("quant_algo"):
            block.refuse("quant_algo", f"one of {', '.join(_MODELOPT)}; mixtures are not modelled")
        elif cache is None:
            block.lacks("quant_algo")
        else:
            block.lacks("quant_algo", ": a cache alone that is quantised is not read")
        return None
    found = _MODELOPT[algorithm]
    size = block.whole("group_size", most=1_000_000)
    if found.group and size and algorithm != "FP8_PB_WO":
        found = replace(found, group=size)
    kept = block.words("exclude_modules" if block.has("exclude_modules") else "ignore")
    return replace(found, kv=_KV.get(cache or "") or _cache(block), kept=kept or ())


def _fbgemm(block: Reader) -> Quantised:
    return Quantised("fp8", "quant_method", matmul="fp8", kept=block.words("modules_to_not_convert") or ("lm_head",))


_METHODS: dict[str, Callable[[Reader], Quantised | None]] = {
    "fp8": _fp8,
    "fbgemm-fp8": _fbgemm,
    "gptq": _integers,
    "awq": _integers,
    "compressed-tensors": _compressed,
    "mxfp4": _mxfp4,
    "bitsandbytes": _bitsandbytes,
    "modelopt": _modelopt,
}
