"""Draft heads by their configuration: which kind it is, and what it reads of the target.

Read off public code, on 2025 revisions:

- EAGLE (Li et al. 2024, arXiv 2401.15077): vLLM, `model_executor/models/llama_eagle.py`: `fc` takes embedding and last
  hidden state side by side, 2 D -> D, at every pass; embedding and LM head are the target's.
- EAGLE-3 (arXiv 2503.01840): SpecForge a6b6b02, `specforge/modeling/draft/llama3_eagle.py`: `fc` takes three hidden
  states of the target, 3 x target_hidden_size -> D, once for each accepted token; queries, keys and values are made of
  embedding and hidden state side by side, 2 D wide; an LM head of its own over `draft_vocab_size` tokens.
- P-EAGLE: SpecForge a6b6b02, `specforge/modeling/draft/peagle.py`: as EAGLE-3, all K tokens in one pass; the first
  layer alone has inputs of 2 D.
- DFlash: SpecForge a6b6b02, `specforge/modeling/draft/dflash.py`: `fc` takes one hidden state for each of
  `target_layer_ids`; a block of `block_size` rows in one pass, the first of them the last token; `target.lm_head`.
- speculators c05b95b, `models/*/config.py`: the same heads with the keys of their layers in `transformer_layer_config`;
  there DFlash too has an LM head of its own over `draft_vocab_size` tokens.
- MTP (DeepSeek-AI 2024, arXiv 2412.19437, section 2.2): speculators c05b95b, `models/mtp/model_definitions.py`:
  `input_proj` takes embedding and hidden state, 2 D -> D; embedding and LM head are the target's.
- Medusa (Cai et al. 2024, arXiv 2401.10774): heads of residual blocks, each with an LM head of its own.
"""

from __future__ import annotations

from typing import Any, Literal

from simulator.importing.building import Building
from simulator.importing.reader import Reader

Kind = Literal["none", "eagle", "eagle3", "peagle", "dflash", "mtp", "medusa"]
SPECULATORS = "speculators_model_type"
HEADS = ("eagle", "eagle3", "peagle", "dflash")

_EAGLE = {"inputs": 2, "projected": "every_pass"}
_EAGLE3 = {"inputs": 3, "projected": "once_a_round", "attention_inputs": 2, "shares_head": False}
_READS: dict[str, dict[str, Any]] = {
    "eagle": _EAGLE,
    "mtp": _EAGLE,
    "eagle3": _EAGLE3,
    "peagle": {**_EAGLE3, "proposes": "block"},
    "dflash": {"projected": "once_a_round", "proposes": "block"},
}


def kind_of(reader: Reader, told: str | None, names: str) -> Kind:
    """Which kind of draft head the file is of; ``names`` are those of the file and its folder."""
    if told:
        return told  # type: ignore[return-value]
    if reader.has(SPECULATORS):
        return _of_speculators(reader)
    if reader.has("medusa_num_heads") or reader.has("medusa_num_layers"):
        return "medusa"
    classes = " ".join(reader.words("architectures") or ()).lower()
    if "dflash" in classes or reader.has("dflash_config"):
        return "dflash"
    if "peagle" in classes:
        return "peagle"
    if "eagle3" in classes or reader.has("draft_vocab_size") or reader.has("eagle_config"):
        return "eagle3"
    if ("eagle" in classes or "eagle" in names.lower()) and reader.key("layers") and reader.get("layers")[1] == 1:
        source = "its architectures" if "eagle" in classes else f"the name {names}"
        reader.report.infer("hidden_states", "as of EAGLE-1", f"{source}, and one layer; --draft-head none denies it")
        return "eagle"
    return "none"


def _of_speculators(reader: Reader) -> Kind:
    word = reader.word(SPECULATORS)
    kind = next((kind for kind in (*HEADS, "mtp") if kind == word), None)
    if kind is None and word is not None:
        reader.refuse(SPECULATORS, f"one of {', '.join((*HEADS, 'mtp'))}")
    return kind or "none"  # type: ignore[return-value]


def put_draft(reader: Reader, top: Reader, build: Building, kind: Kind) -> None:
    """Turn the layers of a head into a head: what it reads, its vocabulary, what it shares.

    Args:
        reader: the keys of its layers.
        top: the whole file, which has those of the head where it is in the format of speculators.
        build: the layers so far.
        kind: what kind of head it is.
    """
    reader = top if top.has(SPECULATORS) else reader
    for key, value in _READS[kind].items():
        build.put(f"hidden_states.{key}", value, (*reader.path, "architectures"))
    _FURTHER[kind](reader, build)
    # A head has no embedding of its own; whether it is tied to the target's LM head makes no difference.
    build.values.pop("tied_embeddings", None)
    reader.report.inferred[:] = [item for item in reader.report.inferred if item.field != "tied_embeddings"]


def _eagle(reader: Reader, build: Building) -> None:
    if build.whole("layers") not in (None, 1):
        reader.problems.append(
            reader.document.place(build.origins["layers",]).problem("num_hidden_layers", "1, as an EAGLE head has")
        )
    reader.report.note("EAGLE-1: embedding and LM head are the target's; its embedding in the checkpoint is a copy")
    reader.report.note("its one layer has no norm before attention, and there is none before the LM head")


def _own_vocabulary(reader: Reader, build: Building) -> bool:
    own, all_tokens = reader.whole("draft_vocab_size", least=2), build.whole("vocabulary")
    if own is None:
        return False
    build.put("vocabulary", own, (*reader.path, "draft_vocab_size"))
    if own != all_tokens:
        reader.report.note(f"its LM head has {own:,} of {all_tokens or 0:,} tokens: write vocabulary_map: subset")
    return True


def _eagle3(reader: Reader, build: Building) -> None:
    _own_vocabulary(reader, build)
    wide = reader.whole("target_hidden_size", most=1_000_000)
    build.put("hidden_states.width", wide, (*reader.path, "target_hidden_size"))
    if wide is None:
        reader.report.infer("hidden_states.width", build.whole("d_model"), "target_hidden_size is not in the file")
    chosen = reader.part("eagle_config")
    read = (chosen or reader).wholes("eagle_aux_hidden_state_layer_ids")
    if read:
        where = (*(chosen or reader).path, "eagle_aux_hidden_state_layer_ids")
        build.put("hidden_states.inputs", len(read), where)
    else:
        reader.report.infer("hidden_states.inputs", 3, "the number of every EAGLE-3 head")
    width = build.whole("d_model") or 0
    reader.report.leave("the norm of the hidden state", width)


def _peagle(reader: Reader, build: Building) -> None:
    _eagle3(reader, build)
    reader.report.note(
        "all tokens of a round in one pass; the first layer alone makes queries, keys and values of two vectors"
    )


def _dflash(reader: Reader, build: Building) -> None:
    chosen = reader.part("dflash_config")
    layers = reader.wholes("aux_hidden_state_layer_ids") if chosen is None else chosen.wholes("target_layer_ids")
    if layers:
        build.put("hidden_states.inputs", len(layers), (*reader.path, "dflash_config"))
    elif build.whole("layers"):
        reader.report.infer("hidden_states.inputs", build.whole("layers"), "one for each of its layers")
        build.put("hidden_states.inputs", build.whole("layers"), reader.where("layers"))
    if reader.has(SPECULATORS) and _own_vocabulary(reader, build):
        build.put("hidden_states.shares_head", value=False, origin=(*reader.path, "draft_vocab_size"))
    reader.report.leave("the norm of the projected hidden states", build.whole("d_model") or 0)
    block = reader.whole("block_size", least=2, most=100_000)
    if block is not None:
        reader.report.note(f"blocks of {block} rows, the last token among them: a lookahead of at most {block - 1}")
    reader.report.note("keys and values of the accepted tokens are made of the projected hidden states in every layer")


def _mtp(reader: Reader, build: Building) -> None:
    modules = reader.whole("prediction_layers", least=0, most=1000) or 0
    if not modules:
        reader.lacks("prediction_layers", ": without it the model has no multi-token prediction module")
        return
    build.values.pop("window", None)
    build.values.pop("recurrent", None)
    experts = build.values.get("experts")
    if experts:
        experts.pop("layers", None)
    _unquantise(reader, build)
    build.put("layers", 1, reader.where("prediction_layers"))
    if modules > 1:
        reader.report.note(f"{modules} modules, each for one token in turn: this is one of them")
    reader.report.note(
        "a layer of the last kind of the model, with full attention; its embedding and LM head are the model's"
    )


def _unquantise(reader: Reader, build: Building) -> None:
    """The module as it is stored: quantisations often leave it out, under the number behind the last layer."""
    behind = f"layers.{build.whole('layers')}"
    if build.plain is None or not any(behind in module or module.startswith("mtp") for module in build.kept):
        return
    for key in ("weight_group", "weight_scale_dtype", "head_dtype", "matmul_dtype"):
        build.values.pop(key, None)
    (build.values.get("experts") or {}).pop("weight_dtype", None)
    build.values["weight_dtype"] = build.plain
    reader.report.note(f"the module itself is not quantised, says the file: its weights are in {build.plain}")


_FURTHER = {"eagle": _eagle, "eagle3": _eagle3, "peagle": _peagle, "dflash": _dflash, "mtp": _mtp}
