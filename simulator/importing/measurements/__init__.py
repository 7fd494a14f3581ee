"""Measurements of other tools -> measured records of ours, every definition converted and named.

source.py, fields.py, details.py    a file as text, lines and JSON mappings, with the place of every value
definitions.py             acceptance and times as others define them -> as we do
serving.py, genai.py       clients: vllm bench serve, SGLang's bench_serving, genai-perf, AIPerf
vllm_logs.py, engine_lines.py, prometheus.py, sglang_log.py, log_times.py    servers
llama_cpp.py               llama-bench, llama-speculative, llama-cli
answers.py                 Spec-Bench, EAGLE, Medusa
tables_of_acceptance.py    acceptance lengths by K; rounds one by one
nccl.py, other_files.py    all-reduces; datasheet figures; what holds no measurement
formats.py                 the table of all of them, and how each is recognised
matching.py, records.py    the point of a scenario that was measured, and its record
reading.py, words.py       the whole import, and its report
"""

from simulator.importing.measurements.formats import FORMATS
from simulator.importing.measurements.reading import Imported, import_measurement, import_source, with_scenario
from simulator.importing.measurements.source import source_of

__all__ = ["FORMATS", "Imported", "import_measurement", "import_source", "source_of", "with_scenario"]
