"""A configuration of Hugging Face -> a model of ours, or every reason why not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.errors import ConfigError, Problem
from simulator.importing import drafts
from simulator.importing.attention import read_attention
from simulator.importing.building import Building
from simulator.importing.extras import leave_extras
from simulator.importing.families import FAMILIES, Family
from simulator.importing.family_names import ALIASES, REFUSED, name_of, of_architecture
from simulator.importing.feed_forward import read_feed_forward
from simulator.importing.json_text import parse_json
from simulator.importing.naming import default_name, source_of
from simulator.importing.quantization import read_modelopt, read_quantization
from simulator.importing.reader import Reader, Report
from simulator.importing.shape import read_dtype, read_shape
from simulator.spec.document import Document
from simulator.spec.drafting import MedusaDraft
from simulator.spec.model import ModelSpec
from simulator.spec.problems import closest, in_file_order
from simulator.spec.source import read

BESIDE = "hf_quant_config.json"
"""What ModelOpt writes next to config.json."""
_TEXT = ("text_config", "llm_config", "language_config", "transformer_layer_config")
_OTHER_PARTS = ("vision_config", "audio_config", "speech_config", "visual_config", "vision_tower_config")
_NEEDED = ("layers", "width", "heads", "vocabulary")


@dataclass(frozen=True)
class Asked:
    """What a planner said beside the file."""

    name: str | None = None
    family: str | None = None
    """`--as`: the family to read the file as."""
    draft_head: str | None = None
    """`--draft-head`: the kind of head, or `none`."""
    part: str | None = None
    """`--part mtp`: the multi-token prediction module of the model."""
    tokenizer: str | None = None
    quantization: Path | None = None


@dataclass(frozen=True)
class Imported:
    """A model, or the heads of Medusa, and what there is to say about it."""

    made: ModelSpec | MedusaDraft
    values: dict[str, Any]
    report: Report
    family: str
    file: str


def import_model(path: Path, asked: Asked | None = None, shown_as: str | None = None) -> Imported:
    """Read a config.json.

    Raises:
        ConfigError: every mistake in it, by line and column; a family that is not known or cannot be modelled.
    """
    document = read(path, shown_as, parse_json)
    return import_document(document, path, asked or Asked())


def import_document(document: Document, path: Path, asked: Asked) -> Imported:
    """As :func:`import_model`, of what was read already; ``path`` gives names and the folder."""
    if not isinstance(document.data, dict):
        place = document.place(())
        raise ConfigError((place.problem("", "a mapping of keys, as a config.json has", place.text or None),))
    importing = _Importing(document, path, asked)
    imported = importing.medusa() or importing.model()
    if importing.problems or imported is None:
        raise ConfigError(in_file_order(dict.fromkeys(importing.problems), document.file))
    return imported


class _Importing:
    """One import: the file, what was asked, the mistakes so far."""

    def __init__(self, document: Document, path: Path, asked: Asked) -> None:
        self.document, self.path, self.asked = document, path, asked
        self.problems: list[Problem] = []
        self.report = Report()
        self.top = self.reader(())
        self.hopeless = False

    def reader(self, path: tuple[str, ...], family: Family | None = None) -> Reader:
        return Reader(self.document, path, self.problems, self.report, family.defaults if family else {})

    def medusa(self) -> Imported | None:
        if drafts.kind_of(self.top, None, "") != "medusa":
            return None
        heads = self.top.need("medusa_heads", most=64)
        layers = self.top.whole("medusa_layers", most=1000)
        if layers is None and not self.problems:
            self.report.infer("layers", 1, "medusa_num_layers is not in the file; the default of Medusa")
        self.report.note("a checkpoint may hold another number of heads than its config: Medusa is told when it loads")
        if heads is None or self.problems:
            return None
        made = MedusaDraft(kind="medusa", heads=heads, layers=layers or 1)
        values = {"kind": "medusa", "heads": made.heads, "layers": made.layers}
        return Imported(made, values, self.report, "medusa", self.document.file)

    def model(self) -> Imported | None:
        if isinstance(self.document.data.get("quantization"), dict) and "producer" in self.document.data:
            self.top.refuse("quantization", f"a config.json; this is a {BESIDE}: give it as --quantization")
            return None
        inner = self._inner()
        found = self._family(inner)
        if found is None:
            # Another family would miss its sizes too: told at once, unless no family would help.
            for name in _NEEDED if not self.hopeless else ():
                inner.need(name)
            return None
        name, family = found
        reader = self.reader(tuple(str(part) for part in inner.path), family)
        return self._read(reader, name, family)

    def _inner(self) -> Reader:
        """The text part of a configuration that has others too."""
        key = next((key for key in _TEXT if isinstance(self.document.data.get(key), dict)), None)
        others = [other for other in self.document.data if other in _OTHER_PARTS]
        for other in others:
            self.report.leave(f"what {other} describes", reason="not part of the text model")
        if key is None:
            return self.top
        if not others and not self.top.has(drafts.SPECULATORS):
            self.report.note(f"read from {key}; the file says nothing of other parts, if there are any")
        return self.reader((key,))

    def _family(self, inner: Reader) -> tuple[str, Family] | None:
        if self.asked.family is not None:
            return self._named_by_option(self.asked.family)
        word = inner.word("model_type") or self.top.word("model_type")
        at = inner if inner.has("model_type") else self.top
        if word is None:
            return self._by_class()
        name = name_of(word)
        if self._is_llama_head(name):
            name = "llama"
        if name in REFUSED:
            self.hopeless = True
            at.refuse("model_type", f"a family that can be modelled; of {word}: {REFUSED[name]}")
            return None
        if name not in FAMILIES:
            at.refuse("model_type", f"a known family{_nearest(word)}")
            return None
        return name, FAMILIES[name]

    def _is_llama_head(self, name: str) -> bool:
        """Whether the layers are Llama's although the file names the family of the target."""
        kind = drafts.kind_of(self.top, self.asked.draft_head, self._names())
        if kind in ("eagle", "eagle3", "peagle") and name != "llama":
            self.report.note(f"model_type {name} is that of the target; layers of {kind} are Llama's")
            return True
        return False

    def _named_by_option(self, word: str) -> tuple[str, Family] | None:
        name = name_of(word)
        if name in FAMILIES:
            self.report.infer("family", name, "as --as says")
            return name, FAMILIES[name]
        self.problems.append(Problem(f"--as {word}", 0, 0, "", "", f"a known family{_nearest(word, 'option')}"))
        return None

    def _by_class(self) -> tuple[str, Family] | None:
        classes = self.top.words("architectures") or ()
        name = next(filter(None, map(of_architecture, classes)), "")
        if name in FAMILIES:
            self.report.infer("family", name, f"model_type is not in the file; architectures has {classes[0]}")
            return name, FAMILIES[name]
        self.top.lacks("model_type", _nearest(""))
        return None

    def _names(self) -> str:
        folder = self.path.absolute().parent.name
        return f"{folder}/{self.path.name}" if self.path.stem in ("config", "model") else self.path.name

    def _read(self, reader: Reader, name: str, family: Family) -> Imported | None:
        told = "mtp" if self.asked.part == "mtp" else self.asked.draft_head
        kind = drafts.kind_of(self.top, told, self._names())
        build = Building()
        build.put("name", self.asked.name or default_name(self.path, self.top), ())
        build.put("source", source_of(self.path, self.top), ())
        build.put("tokenizer", self.asked.tokenizer, ())
        if family.encoder:
            _read_encoder(reader, build)
        read_shape(reader, family, build)
        read_attention(reader, family, build)
        read_feed_forward(reader, family, build)
        plain = read_dtype(reader, build)
        self._quantization(reader, build, plain)
        if kind not in {"none", "medusa"}:
            drafts.put_draft(reader, self.top, build, kind)
            if kind == "mtp" and self.asked.name is None:
                build.put("name", f"{build.values['name'][:76]}-mtp", ())
        elif self.top.has_any("prediction_layers") or reader.has_any("prediction_layers"):
            self._note_mtp(reader)
        if self.problems:
            return None
        spec = build.spec(self.document, self.problems)
        if spec is None:
            self.problems[:] = map(self._of_option, self.problems)
            return None
        leave_extras(reader, family, spec)
        if family.note:
            self.report.note(family.note)
        return Imported(spec, build.values, self.report, name, self.document.file)

    def _of_option(self, problem: Problem) -> Problem:
        """A mistake in a name that was given as an option, as one in that option."""
        value = getattr(self.asked, problem.path) if problem.path in {"name", "tokenizer"} else None
        return problem if value is None else Problem(f"--{problem.path} {value}", 0, 0, "", "", problem.accepts)

    def _note_mtp(self, reader: Reader) -> None:
        key = reader.key("prediction_layers")
        if key and reader.data[key] != 0:
            self.report.note(f"it has a module for multi-token prediction ({key}), left out; --part mtp imports it")

    def _quantization(self, reader: Reader, build: Building, plain: str | None) -> None:
        file = self.asked.quantization
        beside = self.path.with_name(self.path.name.removesuffix("config.json") + BESIDE)
        if file is None and self.path.name.endswith("config.json") and _is_file(beside):
            file = beside
            self.report.note(f"{beside.name} lies beside the file and was taken")
        if file is None:
            read_quantization(reader if reader.has("quantization_config") else self.top, build, plain)
            return
        document = read(file, None, parse_json)
        data = document.data
        if not isinstance(data, dict) or not isinstance(data.get("quantization"), dict):
            accepts = f'a mapping with "quantization", as a {BESIDE} has'
            self.problems.append(document.place(()).problem("", accepts))
            return
        block = Reader(document, ("quantization",), self.problems, self.report, {})
        read_modelopt(block, build, plain)
        if self.top.has("quantization_config"):
            self.report.note(f"quantization_config of the file gives way to {file.name}")


def _read_encoder(reader: Reader, build: Building) -> None:
    """T5: `num_layers` are those of the encoder, and of the decoder where nothing else is said."""
    layers = reader.need("layers", most=10_000)
    decoder = reader.whole("num_decoder_layers", most=10_000)
    if decoder is None and layers is not None:
        reader.report.infer("layers", layers, "num_decoder_layers is not in the file: as many as the encoder has")
    build.put("encoder.layers", layers, reader.where("layers"))
    build.put("layers", decoder or layers, (*reader.path, "num_decoder_layers"))


def _nearest(word: str, where: str = "") -> str:
    close = closest(word, {*FAMILIES, *ALIASES}) if word else ""
    guess = f"; did you mean '{close}'?" if close else ""
    way = "known are" if where else "--as NAME reads it as one of"
    # A message has room for 500 letters, and should for all the names.
    return f"{guess}; {way} {' '.join(sorted(name.removesuffix('_text') for name in FAMILIES))}"


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False
