"""Which number format each part of a model is stored in: `quantization_config`, its side files, and
overrides.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from re import match

from roofline.calibration import STAND_INS
from roofline.errors import InvalidInput, UnsupportedModel
from roofline.hf_fields import Config, Fields, object_of
from roofline.hf_formats import (
    BF16,
    BLOCK_SCALE_BITS,
    FP8,
    FP8_BLOCK,
    FP32,
    INT8,
    KV_BITS,
    MXFP4,
    NVFP4,
    OWN_CONFIG,
    PER_HEAD_KV,
    PER_HEAD_SCALE_BITS,
    group_bits,
    override_format,
    weight_only,
)
from roofline.hf_gguf import gguf_format
from roofline.specs import Layer, Precision, WeightFormat

_ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
_LATENT = ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj")
_DELTA = ("in_proj_qkv", "in_proj_z", "out_proj")
_FEED = ("gate_proj", "up_proj", "down_proj")
_FEED_PLACES = (
    "mlp",
    "feed_forward",
    "mlp.shared_experts",
    "mlp.shared_expert",
    "feed_forward.shared_expert",
)
_EXPERT_PLACES = ("mlp.experts.0", "feed_forward.experts.0", "block_sparse_moe.experts.0")


@dataclass(frozen=True, slots=True)
class Scheme:
    """A checkpoint's quantisation: one format, the modules left out of it, and what it says of head and
    cache. `covers_tied`: an output matrix that is the embedding is quantised too.
    """

    weights: WeightFormat
    excluded: tuple[str, ...] = ()
    covers_lm_head: bool = False
    covers_tied: bool = False
    kv_bits: float | None = None


def precision_of(
    fields: Fields,
    layers: Sequence[Layer],
    *,
    tied: bool,
    quantization: str | None,
    kv_cache_dtype: str | None,
    side_file: Config | None,
) -> Precision:
    """Formats of a model as served: the override where one is given, else what the checkpoint says, else 16
    bits.
    """
    plain = FP32 if quantization is not None and quantization.lower() in ("fp32", "float32") else BF16
    scheme = _chosen(fields, quantization, side_file)
    parts = {part: scheme.weights if scheme else plain for part in ("attention", "ffn", "experts")}
    lm_head = plain
    if scheme is not None:
        _refuse_unknown_names(fields, layers, scheme)
        excluded = _Excluded(scheme.excluded)
        depth = sum(layer.count for layer in layers)
        for part, modules in _modules(layers).items():
            if excluded.covers(part, modules, depth=depth, name=fields.name):
                parts[part] = plain
        if scheme.covers_lm_head and (scheme.covers_tied or not tied) and not excluded.holds("lm_head"):
            lm_head = scheme.weights
    return Precision(
        attention=parts["attention"],
        ffn=parts["ffn"],
        experts=parts["experts"],
        lm_head=lm_head,
        embedding=plain,
        kv_bits=_kv_bits(layers, kv_cache_dtype, scheme, plain),
        activation_bytes=plain.bits_per_weight / 8,
    )


def _chosen(fields: Fields, quantization: str | None, side_file: Config | None) -> Scheme | None:
    own = _own_scheme(fields, side_file)
    if quantization is None or quantization.lower() == "auto":
        return own
    if quantization.lower() in OWN_CONFIG:
        if own is None:
            raise InvalidInput(
                f"{fields.name}: quantization {quantization!r} needs a checkpoint whose config.json has a "
                "`quantization_config`; "
                "give that config or name a format such as fp8 or int4"
            )
        return own
    fmt = override_format(quantization)
    if own is not None and fmt.name in (own.weights.name, STAND_INS.get(own.weights.name)):
        return own
    if fmt in (BF16, FP32):
        return None
    gguf = gguf_format(quantization) is not None
    return Scheme(fmt, covers_lm_head=gguf, covers_tied=gguf)


def _own_scheme(fields: Fields, side_file: Config | None) -> Scheme | None:
    if side_file is not None:
        return scheme_of(side_file, fields.name)
    for key in ("quantization_config", "quantization"):
        found = fields.value(key)
        if found is not None:
            return scheme_of(object_of(found, f"{fields.name}: `{key}`"), fields.name)
    return None


def scheme_of(config: Config, name: str) -> Scheme:
    """Read a `quantization_config`, a `quantize_config.json`, a `quant_config.json` or a
    `hf_quant_config.json`.

    Raises `UnsupportedModel` for a method, or a mixture of formats, that is not computed.
    """
    if "quantization" in config:
        config = object_of(config["quantization"], f"{name}: `quantization`")
    fields = Fields(config, name, {})
    method = str(fields.value("quant_method") or ("modelopt" if "quant_algo" in config else "")).lower()
    if not method and ("w_bit" in config or "q_group_size" in config):
        method = "awq"
    if not method and {"bits", "group_size"} <= set(config):
        method = "gptq" if "desc_act" in config else "mlx"
    readers = {
        "awq": _integer_groups,
        "gptq": _integer_groups,
        "mlx": _mlx,
        "hqq": _hqq,
        "fp8": _block_fp8,
        "fbgemm_fp8": _block_fp8,
        "mxfp4": _mxfp4,
        "compressed-tensors": _compressed_tensors,
        "modelopt": _modelopt,
        "bitsandbytes": _bitsandbytes,
    }
    if method not in readers:
        raise UnsupportedModel(f"{name}: quantisation method {method or 'without `quant_method`'!r} is not computed")
    return readers[method](fields)


def _integer_groups(fields: Fields) -> Scheme:
    """AWQ and GPTQ: a 16-bit scale and a zero point per group, stored for symmetric weights too."""
    if fields.value("dynamic"):
        raise UnsupportedModel(f"{fields.name}: formats that differ by module (`dynamic` of GPTQ) are not computed")
    bits = fields.size("bits", "w_bit")
    group = fields.value("group_size", "q_group_size")
    group_size = group if isinstance(group, int) else None
    excluded = fields.texts("modules_to_not_convert")
    return Scheme(
        weight_only(bits, group_bits(bits, group_size, zero_bits=bits)),
        excluded,
        covers_lm_head=fields.flag("lm_head"),
    )


def _mlx(fields: Fields) -> Scheme:
    """MLX: a 16-bit scale and a 16-bit bias per group."""
    bits = fields.size("bits")
    return Scheme(weight_only(bits, group_bits(bits, fields.size("group_size"), zero_bits=16)))


def _hqq(fields: Fields) -> Scheme:
    """HQQ: a 16-bit scale and a 16-bit zero point per group."""
    weights = Fields(
        Fields(fields.section("quant_config"), fields.name, {}).section("weight_quant_params"),
        fields.name,
        {},
    )
    bits = weights.size("nbits")
    return Scheme(
        weight_only(bits, group_bits(bits, weights.size("group_size"), zero_bits=16)),
        fields.texts("skip_modules"),
    )


def _block_fp8(fields: Fields) -> Scheme:
    """FP8 with one 32-bit scale per block (DeepSeek, Qwen3-FP8), or per tensor or channel where no block is
    named.
    """
    block = fields.numbers("weight_block_size")
    area = 1
    for side in block:
        area *= side
    weights = FP8_BLOCK.model_copy(update={"bits_per_weight": 8 + BLOCK_SCALE_BITS / area}) if block else FP8
    excluded = fields.texts("modules_to_not_convert") or fields.texts("ignored_layers")
    return Scheme(weights, excluded)


def _mxfp4(fields: Fields) -> Scheme:
    return Scheme(MXFP4, fields.texts("modules_to_not_convert"))


def _bitsandbytes(fields: Fields) -> Scheme:
    """8-bit rows, or 4-bit blocks of 64 with a 32-bit scale each (an 8-bit one, and one more per 256, if
    doubly quantised).
    """
    excluded = fields.texts("llm_int8_skip_modules")
    if fields.flag("load_in_8bit"):
        return Scheme(INT8, excluded)
    bits = 4 + (8 + 32 / 256) / 64 if fields.flag("bnb_4bit_use_double_quant") else 4 + 32 / 64
    return Scheme(weight_only(4, bits), excluded)


def _modelopt(fields: Fields) -> Scheme:
    algorithm = str(fields.value("quant_algo") or "").upper()
    formats = {
        "FP8": FP8,
        "NVFP4": NVFP4,
        "W4A16_AWQ": weight_only(4, group_bits(4, fields.size_or(128, "group_size"))),
        "INT8_SQ": INT8,
    }
    if algorithm not in formats:
        raise UnsupportedModel(f"{fields.name}: ModelOpt algorithm {algorithm or 'none'!r} is not computed")
    excluded = fields.texts("exclude_modules") or fields.texts("ignore")
    return Scheme(formats[algorithm], excluded, covers_lm_head=True, kv_bits=_scheme_kv_bits(fields))


def _compressed_tensors(fields: Fields) -> Scheme:
    groups = [object_of(group, f"{fields.name}: `config_groups`") for group in fields.section("config_groups").values()]
    formats: list[WeightFormat] = []
    for group in groups:
        targets = Fields(group, fields.name, {}).texts("targets")
        if targets not in ((), ("Linear",)):
            raise UnsupportedModel(
                f"{fields.name}: formats that differ by module (`targets` {list(targets)}) are not computed"
            )
        formats.append(_group_format(Fields(group, fields.name, {})))
    if not formats or any(fmt != formats[0] for fmt in formats):
        raise UnsupportedModel(f"{fields.name}: `config_groups` with {len(formats)} different formats are not computed")
    return Scheme(formats[0], fields.texts("ignore"), covers_lm_head=True, kv_bits=_scheme_kv_bits(fields))


def _group_format(fields: Fields) -> WeightFormat:
    weights = Fields(fields.section("weights"), fields.name, {})
    bits, kind = weights.size("num_bits"), str(weights.value("type") or "int")
    group = weights.value("group_size")
    group_size = group if isinstance(group, int) else None
    quantised_inputs = fields.value("input_activations") is not None
    if kind == "float" and bits == 8:
        return FP8 if quantised_inputs else FP8.model_copy(update={"math": "bf16", "dequantised": True})
    if kind == "float" and bits == 4 and group_size == 16:
        return NVFP4 if quantised_inputs else NVFP4.model_copy(update={"math": "bf16", "dequantised": True})
    if kind == "int" and bits == 8 and quantised_inputs:
        return INT8
    if kind == "int" and not quantised_inputs:
        zero_bits = 0 if weights.flag("symmetric", default=True) else bits
        return weight_only(bits, group_bits(bits, group_size, zero_bits=zero_bits))
    raise UnsupportedModel(
        f"{fields.name}: {bits}-bit {kind} weights in groups of {group_size} with "
        f"{'quantised' if quantised_inputs else 'plain'} activations are not computed"
    )


def _scheme_kv_bits(fields: Fields) -> float | None:
    found = fields.value("kv_cache_quant_algo", "kv_cache_scheme")
    if found is None:
        return None
    if isinstance(found, str):
        bits = {"FP8": 8.0, "INT8": 8.0, "NVFP4": 4.5}.get(found.upper())
        if bits is None:
            raise UnsupportedModel(f"{fields.name}: key-value cache format {found!r} is not computed")
        return bits
    return float(Fields(object_of(found, f"{fields.name}: `kv_cache_scheme`"), fields.name, {}).size("num_bits"))


def _kv_bits(layers: Sequence[Layer], kv_cache_dtype: str | None, scheme: Scheme | None, plain: WeightFormat) -> float:
    asked = (kv_cache_dtype or "auto").lower()
    if asked == "auto":
        return scheme.kv_bits if scheme is not None and scheme.kv_bits is not None else plain.bits_per_weight
    if asked in PER_HEAD_KV:
        return _per_head_bits(layers)
    if asked not in KV_BITS:
        allowed = ", ".join(sorted(("auto", *KV_BITS, *PER_HEAD_KV)))
        raise InvalidInput(f"kv_cache_dtype must be one of {allowed}, got {kv_cache_dtype!r}; name one of these")
    return KV_BITS[asked]


def _per_head_bits(layers: Iterable[Layer]) -> float:
    """Eight bits, and a 32-bit scale for each key head and each value head of a token."""
    attentions = [(layer.count, layer.attention) for layer in layers if layer.attention is not None]
    elements = sum(count * spec.kv_elements_per_token for count, spec in attentions)
    scales = sum(count * 2 * spec.kv_heads for count, spec in attentions)
    return 8 + PER_HEAD_SCALE_BITS * scales / elements


def _modules(layers: Sequence[Layer]) -> dict[str, list[tuple[str, ...]]]:
    """Names a part's matrices go by inside a layer; each entry lists the aliases of one matrix."""
    latent = any(layer.attention is not None and layer.attention.kind == "mla" for layer in layers)
    attention = [(f"self_attn.{part}",) for part in (_LATENT if latent else _ATTENTION)]
    if any(layer.recurrence is not None for layer in layers):
        attention += [(f"linear_attn.{part}",) for part in _DELTA]
    return {
        "attention": attention,
        "ffn": [tuple(f"{place}.{part}" for place in _FEED_PLACES) for part in _FEED],
        "experts": [tuple(f"{place}.{part}" for place in _EXPERT_PLACES) for part in _FEED],
    }


def _refuse_unknown_names(fields: Fields, layers: Sequence[Layer], scheme: Scheme) -> None:
    """State-space layers name their matrices alike whatever they are, so exclusions cannot be told apart."""
    state_space = any(linear.name == "mamba_in" for layer in layers for linear in layer.linears)
    if state_space and set(scheme.excluded) - {"lm_head"}:
        raise UnsupportedModel(
            f"{fields.name}: quantisation that leaves out parts of state-space layers is not computed"
        )


class _Excluded:
    """Modules a scheme leaves out: names, parts of names, globs, and regular expressions (`re:`)."""

    def __init__(self, patterns: Iterable[str]) -> None:
        bare = [pattern if pattern.startswith("re:") else _bare(pattern) for pattern in patterns]
        self._names = {pattern for pattern in bare if not pattern.startswith("re:") and "*" not in pattern}
        self._expressions = [pattern.removeprefix("re:") for pattern in bare if pattern.startswith("re:")]
        self._globs = [pattern for pattern in bare if not pattern.startswith("re:") and "*" in pattern]

    def holds(self, module: str) -> bool:
        """Whether `module` (without `model.` before it) is left out."""
        pieces = module.split(".")
        runs = (".".join(pieces[a:b]) for a in range(len(pieces)) for b in range(a + 1, len(pieces) + 1))
        if not self._names.isdisjoint(runs):
            return True
        if any(fnmatchcase(module, form) for glob in self._globs for form in (glob, f"{glob}.*", f"*.{glob}")):
            return True
        forms = (module, f"model.{module}", f"language_model.model.{module}")
        return any(match(expression, form) for expression in self._expressions for form in forms)

    def covers(self, part: str, modules: list[tuple[str, ...]], *, depth: int, name: str) -> bool:
        """Whether all matrices of a part are left out; raises where some are and some are not."""
        if not (self._names or self._globs or self._expressions):
            return False
        found = [
            any(self.holds(f"layers.{index}.{alias}") for alias in aliases)
            for index in range(depth)
            for aliases in modules
        ]
        if any(found) and not all(found):
            raise UnsupportedModel(
                f"{name}: quantisation that leaves out some {part} matrices and not others is not computed"
            )
        return all(found)


def _bare(pattern: str) -> str:
    for prefix in ("model.language_model.", "language_model.", "model."):
        pattern = pattern.removeprefix(prefix)
    return pattern
