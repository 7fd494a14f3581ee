"""Feed-forwards of a configuration: one width, or experts in some of the layers."""

from __future__ import annotations

from simulator.importing.building import Building
from simulator.importing.families import Family
from simulator.importing.reader import Reader

_WIDEST = 10_000_000


def read_feed_forward(reader: Reader, family: Family, build: Building) -> None:
    """Width and experts."""
    count = reader.whole("experts", least=0, most=100_000)
    if count is None and reader.problems_at("experts"):
        return
    if count is None or count < 2:
        if count == 1:
            reader.report.note(f"{reader.where('experts')[-1]} 1 is a dense feed-forward")
        build.put("d_ff", _dense_width(reader, build), reader.where("feed_forward_width"))
        return
    layers = build.whole("layers")
    routed = _expert_layers(reader, layers) if layers else None
    _read_experts(reader, family, build, count)
    some_dense = routed is not None and layers is not None and routed < layers
    dense = _width_beside_experts(reader, build, some_dense)
    build.put("d_ff", dense, reader.where("feed_forward_width"))
    if routed == 0:
        del build.values["experts"]
        reader.report.note(f"the file gives {count} experts and no layer that has them: all layers are dense")
    elif some_dense:
        build.put("experts.layers", routed, reader.where("experts"))


def _dense_width(reader: Reader, build: Building) -> int | None:
    found = reader.whole("feed_forward_width", most=_WIDEST)
    if found is not None or reader.problems_at("feed_forward_width"):
        return found
    width = build.whole("d_model")
    if build.values.get("feed_forward") != "plain" or width is None:
        reader.lacks("feed_forward_width")
        return None
    reader.report.infer("d_ff", 4 * width, "four times the width, as nothing else is given")
    return 4 * width


def _width_beside_experts(reader: Reader, build: Building, some_dense: bool) -> int | None:
    """The width of dense layers; where there are none, of what the file calls so."""
    if reader.has("intermediate_size_mlp"):
        return reader.whole("intermediate_size_mlp", most=_WIDEST)
    if some_dense or reader.key("feed_forward_width"):
        return reader.need("feed_forward_width", most=_WIDEST)
    width = (build.values.get("experts") or {}).get("d_ff")
    reader.report.infer("d_ff", width, "that of an expert: no layer is dense, and the file gives no other")
    return width


def _read_experts(reader: Reader, family: Family, build: Building, count: int) -> None:
    build.put("experts.count", count, reader.where("experts"))
    each = _per_token(reader)
    if each is not None and each > count:
        reader.refuse(reader.where("experts_per_token")[len(reader.path) :], f"at most the {count:,} experts there are")
    build.put("experts.per_token", each, reader.where("experts_per_token"))
    name = "expert_width" if reader.has_any("expert_width") or not family.experts_wide else "feed_forward_width"
    width = reader.need(name, most=_WIDEST)
    build.put("experts.d_ff", width, reader.where(name))
    shared = reader.whole("shared_width", least=0, most=_WIDEST)
    number = reader.whole("shared_experts", least=0, most=100_000)
    if shared is not None:
        build.put("experts.shared_d_ff", shared * (number or 1), reader.where("shared_width"))
    elif number and width:
        build.put("experts.shared_d_ff", number * width, reader.where("shared_experts"))
    elif family.shared_expert and width:
        reader.report.infer("experts.shared_d_ff", width, "each layer has one shared expert in its family")
        build.put("experts.shared_d_ff", width, reader.where(name))


def _per_token(reader: Reader) -> int | None:
    value = reader.get("experts_per_token")[1]
    if isinstance(value, tuple) and value and len(set(value)) == 1 and type(value[0]) is int:
        return value[0] if value[0] > 0 else None  # Hunyuan: one number a layer
    return reader.need("experts_per_token", most=100_000)


def _expert_layers(reader: Reader, layers: int) -> int | None:
    """How many layers have experts, by whichever keys say so."""
    listed = reader.wholes("moe_layers")
    if listed is not None:
        return len({i for i in listed if 0 <= i < layers})
    frequency = reader.get("moe_layer_freq")[1]
    if isinstance(frequency, tuple):
        bits = reader.wholes("moe_layer_freq")
        if bits is not None and len(bits) != layers:
            reader.refuse("moe_layer_freq", f"a number, or {layers:,} of 0 and 1, one for each layer")
            return None
        return None if bits is None else sum(bit != 0 for bit in bits)
    return _by_rules(reader, layers)


def _by_rules(reader: Reader, layers: int) -> int | None:
    before = len(reader.problems)
    dense = reader.whole("dense_layers", least=0) or 0
    every = reader.whole("moe_layer_freq") or 1
    step = reader.whole("decoder_sparse_step") or reader.whole("interleave_moe_layer_step") or 1
    apart = set(reader.wholes("mlp_only_layers") or ())
    first = reader.get("moe_layer_start_index")[1]
    last = reader.get("moe_layer_end_index")[1]
    start = first if type(first) is int and first >= 0 else 0
    end = last if type(last) is int and last >= 0 else layers
    step = step if step > 1 else reader.whole("moe_layer_interval") or 1
    if len(reader.problems) > before:
        return None
    return sum(
        i >= dense and i % every == 0 and (i + 1) % step == 0 and i not in apart and start <= i <= end
        for i in range(layers)
    )
