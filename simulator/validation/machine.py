"""Which design and which profile suit a machine, and a profile as a file that scenarios can name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from simulator.calibration import host_profile
from simulator.errors import ConfigError, Problem, RefusedError
from simulator.files import write
from simulator.spec import library
from simulator.spec.design import DESIGNS, Design, load_design
from simulator.spec.hardware import HardwareProfile
from simulator.spec.load import tuples
from simulator.spec.probe import HostDescription
from simulator.spec.problems import from_validation, in_file_order, nearest
from simulator.spec.source import parse

BY_DEVICE = {"NVIDIA H200": "h200_sxm", "TPU v4": "tpu_v4"}
"""What JAX calls a device, and its profile."""


def design_for(platform: str, file: Path | None = None, *, quick: bool = False) -> Design:
    """The design that a run measures: the one asked for, else the one that suits the platform."""
    on_cpu = "device_quick" if quick else "device"
    return load_design(file or DESIGNS / f"{on_cpu if platform == 'cpu' else 'accelerator'}.yaml")


def profile_for(host: HostDescription, asked: str | None = None) -> HardwareProfile:
    """The hardware profile of this machine.

    Raises:
        ConfigError: a name that is no profile.
        RefusedError: no profile is known for the device, or the one asked for is of another kind of machine.
    """
    name = asked or ("cpu" if host.platform == "cpu" else BY_DEVICE.get(host.device))
    if name is None:
        known = ", ".join(library.names(library.PROFILES))
        raise RefusedError(f"no profile is known for {host.device}; name one with --hardware: {known}, or a YAML file")
    profile = read_profile(name)
    if profile.shares_memory != (host.platform == "cpu"):
        raise RefusedError(f"this machine's device is {host.device} ({host.platform}), not {profile.name}")
    return host_profile(profile, host) if profile.shares_memory else profile


def read_profile(name: str) -> HardwareProfile:
    """A profile by its name or file.

    Raises:
        ConfigError: there is none, or it has mistakes.
    """
    file = library.find(name, Path(), library.PROFILES)
    if file is None:
        accepts = f"the name of a hardware profile, or a YAML file{nearest(name, library.names(library.PROFILES))}"
        raise ConfigError((Problem("", 0, 0, "--hardware", name, accepts),))
    document = library.read_mapping(file, library.shown(file))
    try:
        return HardwareProfile.model_validate(tuples(document.data))
    except ValidationError as error:
        raise ConfigError(in_file_order(from_validation(error, document, HardwareProfile, ()))) from None


def profile_yaml(profile: HardwareProfile, note: str) -> str:
    """A hardware profile as a file that scenarios can name."""
    data = _lists(profile.model_dump(mode="json", exclude_defaults=True))
    text = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=118)
    return f"# {note}\n{text}"


def write_profile(path: Path, profile: HardwareProfile, note: str) -> Path:
    """Write a profile whole or not at all, and only what can be read again.

    Raises:
        ConfigError: the file cannot be written.
    """
    text = profile_yaml(profile, note)
    HardwareProfile.model_validate(tuples(parse(text, str(path)).data))
    return write(path, text)


class _Dumper(yaml.SafeDumper):
    """Lists of plain numbers and words in one line, everything else a line each."""

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> yaml.SequenceNode:
        short = all(isinstance(item, str | int | float) for item in sequence)
        mapping = all(isinstance(item, dict) and len(item) <= 3 for item in sequence)
        return super().represent_sequence(tag, sequence, flow_style=short and not mapping)


def _lists(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _lists(value) for key, value in data.items()}
    return [_lists(item) for item in data] if isinstance(data, list | tuple) else data
