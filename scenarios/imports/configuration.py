"""Find out whose configuration a text is: a serve line of four engines, a YAML file, a script with such lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from roofline.errors import InvalidInput
from scenarios.imports.command_words import shell_words, take_environment
from scenarios.imports.llamacpp_written import read_llamacpp
from scenarios.imports.sglang_written import read_sglang
from scenarios.imports.trtllm_written import read_trtllm, read_yaml
from scenarios.imports.vllm_written import read_vllm, read_vllm_yaml
from scenarios.imports.written import Written

_LAUNCHERS = (
    ("vllm", r"\S*vllm serve"),
    ("vllm", r"\S*python[0-9.]* (-[a-zA-Z]+ )*?-m vllm\.entrypoints\.(openai\.)?api_server"),
    ("sglang", r"\S*python[0-9.]* (-[a-zA-Z]+ )*?-m sglang\.launch_server"),
    ("sglang", r"\S*sglang serve"),
    ("trtllm", r"\S*trtllm-serve( serve)?"),
    ("llamacpp", r"\S*llama-(server|cli|speculative|speculative-simple|parallel)(\.exe)?"),
)
_BENCHMARKS = (
    r"\S*vllm bench \w+",
    r"\S*python[0-9.]* -m sglang\.bench_\w+",
    r"\S*python[0-9.]* \S*(benchmark_serving|bench_serving|benchmark_throughput|prepare_dataset)\S*\.py",
    r"\S*(genai-perf|aiperf|guidellm|inference-perf|llama-batched-bench|llama-bench|trtllm-bench|llmperf)( |$)",
)
_START = "`vllm serve`, `python -m sglang.launch_server`, `sglang serve`, `trtllm-serve` or `llama-server`"


def read_command(command: str, *, folder: Path | None = None, prelude: Mapping[str, str] | None = None) -> Written:
    """A serve line of any of the four engines, bare or inside `docker run`; `prelude` is what a script exported before.

    Raises
    ------
    InvalidInput
        Another program, quotes left open, a value of the wrong kind, a YAML file that is not there.
    """
    words = shell_words(command, what="serve command")
    environment = {**(prelude or {}), **take_environment(words)}
    engine, rest = _launcher(_inner_command(words), environment)
    match engine:
        case "vllm":
            return read_vllm(rest, environment)
        case "sglang":
            return read_sglang(rest, environment)
        case "llamacpp":
            return read_llamacpp(rest, environment)
        case _:
            return _trtllm(rest, environment, folder)


def read_file(path: str) -> tuple[Written, tuple[str, ...]]:
    """A YAML configuration (TensorRT-LLM, or vLLM's), or a script: its serve line and its benchmark lines."""
    file = Path(path).expanduser()
    text = read_text(file)
    if file.suffix in (".yaml", ".yml"):
        return read_yaml_text(text, name=file.name), ()
    joined = re.sub(r"\\\s*\r?\n", " ", text)
    lines = [re.sub(r"^\s*(\$ |exec |nohup )", "", line).strip() for line in joined.splitlines()]
    exported = {found[1]: found[2] for line in lines if (found := re.match(r"export (\w+)=(\S+)$", line))}
    serving = [line for line in lines if not line.startswith("#") and _is_serving(line)]
    if len(serving) != 1:
        raise InvalidInput(
            f"{file.name} must hold exactly one serve command, found {len(serving)}; start it with {_START}"
        )
    written = read_command(serving[0], folder=file.parent, prelude=exported)
    return written, tuple(line for line in lines if is_benchmark(line))


def read_yaml_text(text: str, *, name: str) -> Written:
    """TensorRT-LLM's where its sections stand in it, else vLLM's."""
    content = read_yaml(text, name=name)
    section = content.get("speculative_config")
    if isinstance(section, dict) and ("decoding_type" in section or "max_draft_len" in section):
        return read_trtllm([], {}, content=content)
    dashed = any("-" in key for key in content)
    if dashed or "model" in content or isinstance(content.get("speculative_config"), str):
        return read_vllm_yaml(content)
    return read_trtllm([], {}, content=content)


def is_benchmark(line: str) -> bool:
    """Whether a line starts one of the known load generators."""
    words = line.split()
    while words and re.match(r"[A-Za-z_]\w*=", words[0]):
        words.pop(0)
    return any(re.match(pattern, " ".join(words)) for pattern in _BENCHMARKS)


def read_text(file: Path) -> str:
    """A text file, with one sentence where it cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read ({error.strerror}); give a readable file") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file.name} is not UTF-8 text; give a YAML file or a shell script") from error


def _is_serving(line: str) -> bool:
    if re.match(r"(echo|printf|pip|pgrep|pkill|kill|tail|grep)\b", line):
        return False
    return any(re.search(rf"(^|[\s'\"]){pattern}(\s|$)", line) for _, pattern in _LAUNCHERS) or bool(
        _image(line.split())
    )


def _inner_command(words: list[str]) -> list[str]:
    """The words of `bash -c '…'`, where a container or a shell is given the command as one word."""
    for index, word in enumerate(words[:-1]):
        if word in ("-c", "-lc") and " " in words[index + 1] and "sh" in words[index - 1]:
            return shell_words(words[index + 1], what="the command given to the shell")
    return words


def _launcher(words: list[str], environment: dict[str, str]) -> tuple[str, list[str]]:
    """The engine and the words after its launcher; assignments on the way (`docker run -e A=1`) are kept."""
    for start in range(len(words)):
        text = " ".join(words[start : start + 6])
        for engine, pattern in _LAUNCHERS:
            found = re.match(rf"{pattern}(\s|$)", text)
            if found:
                _keep_assignments(words[:start], environment)
                return engine, words[start + len(found[0].split()) :]
    image = _image(words)
    if image is not None:
        _keep_assignments(words[: image[1]], environment)
        return image[0], words[image[1] + 1 :]
    text = " ".join(words[:3])
    raise InvalidInput(f"serve command must start with {_START}, got {text or 'nothing'!r}; paste the whole line")


def _image(words: list[str]) -> tuple[str, int] | None:
    """The engine whose container image starts its server itself, and where the image stands."""
    if not words or words[0] not in ("docker", "podman", "sudo"):
        return None
    for index, word in enumerate(words):
        if re.match(r"\S*vllm(-[a-z]+)*/?\S*vllm-openai\S*", word):
            return "vllm", index
        if re.match(r"\S*llama\.cpp:\S*server\S*", word):
            return "llamacpp", index
    return None


def _keep_assignments(words: list[str], environment: dict[str, str]) -> None:
    for word in words:
        name, equals, value = word.removeprefix("--env=").partition("=")
        if equals and re.fullmatch(r"[A-Z_][A-Z0-9_]*", name):
            environment.setdefault(name, value)


def _trtllm(words: list[str], environment: dict[str, str], folder: Path | None) -> Written:
    first = read_trtllm(words, environment)
    named = first.flags.get("config")
    if not named:
        return first
    file = Path(named).expanduser()
    if not file.is_file() and folder is not None:
        file = folder / named
    content = read_yaml(read_text(file), name=file.name)
    return read_trtllm(words, environment, content=content)
