"""What is known of `vllm serve` and SGLang flags: which change the answer, which do not and why.

Read off vLLM 0.33.0 (`config/`, `engine/arg_utils.py`) and SGLang 0.5.23.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NO_EFFECT = "does not change step times"

# Flags that are read into the scenario; the value says where (shown to the user).
HONOURED: dict[str, str] = {
    "model": "target.model",
    "tensor-parallel-size": "hardware.tensor_parallel",
    "enable-expert-parallel": "hardware.expert_parallel",
    "quantization": "target.quantization",
    "dtype": "target weights as in the config when auto or 16 bits",
    "kv-cache-dtype": "target.kv_cache_dtype",
    "gpu-memory-utilization": "engine.gpu_memory_utilization_fraction",
    "block-size": "engine.block_tokens",
    "num-gpu-blocks-override": "engine.kv_blocks",
    "max-model-len": "engine.max_context_tokens",
    "max-num-batched-tokens": "engine.max_batched_tokens",
    "max-num-seqs": "engine.max_sequences",
    "long-prefill-token-threshold": "engine.long_prefill_threshold_tokens",
    "enable-chunked-prefill": "engine.chunked_prefill",
    "enforce-eager": "engine.enforce_eager",
    "speculative-config": "speculation",
    "pipeline-parallel-size": "hardware.pipeline_parallel",
    "data-parallel-size": "hardware.data_parallel, with --enable-expert-parallel",
}

ALIASES: dict[str, str] = {
    "tp": "tensor-parallel-size",
    "pp": "pipeline-parallel-size",
    "dp": "data-parallel-size",
    "q": "quantization",
    "sc": "speculative-config",
    "cc": "compilation-config",
    "ac": "attention-config",
    "ep": "enable-expert-parallel",
    "dcp": "decode-context-parallel-size",
    "O": "optimization-level",
    "n": "nnodes",
    "r": "node-rank",
    "asc": "api-server-count",
    "model-tag": "model",
    "served-model": "served-model-name",
}

# Flags that take no value.
SWITCHES: frozenset[str] = _words(
    """
    enable-chunked-prefill enforce-eager enable-prefix-caching async-scheduling trust-remote-code
    enable-expert-parallel enable-auto-tool-choice disable-log-requests disable-log-stats
    enable-log-requests disable-custom-all-reduce enable-lora headless enable-request-id-headers
    disable-frontend-multiprocessing enable-sleep-mode skip-tokenizer-init allow-credentials
    enable-server-load-tracking disable-uvicorn-access-log disable-fastapi-docs enable-reasoning
    return-tokens-as-token-ids enable-force-include-usage enable-tokenizer-info-endpoint
    disable-cascade-attn disable-hybrid-kv-cache-manager enable-dbo enable-eplb calculate-kv-scales
    use-tqdm-on-load enable-prompt-tokens-details language-model-only disable-sliding-window
    scheduler-reserve-full-isl enable-prompt-embeds data-parallel-hybrid-lb
    """
)

_TIME = "changes step times in a way that is not modelled"
# Known flags that are not honoured, with the reason.
IGNORED: dict[str, str] = {
    "enable-prefix-caching": "prefix hits come from workload.prefix_hit_fraction or the trace",
    "async-scheduling": "host time comes from the calibration or the engine profile",
    "scheduling-policy": "requests are served first come, first served",
    "performance-mode": "set max-num-seqs and max-num-batched-tokens instead",
    "max-num-scheduled-tokens": "taken equal to max-num-batched-tokens",
    "max-num-active-seqs": "taken equal to max-num-seqs",
    "kv-cache-memory-bytes": "memory comes from gpu-memory-utilization; use num-gpu-blocks-override",
    "watermark": "the watermark is 0, the engine's default",
    "scheduler-reserve-full-isl": "the engine's default is simulated",
    "prefill-schedule-interval": "the engine's default is simulated",
    "stream-interval": NO_EFFECT,
    "compilation-config": "captured graph sizes are the engine's defaults",
    "cudagraph-capture-sizes": "captured graph sizes are the engine's defaults",
    "max-cudagraph-capture-size": "captured graph sizes are the engine's defaults",
    "optimization-level": "captured graph sizes are the engine's defaults",
    "attention-backend": "kernel speed comes from the calibration or the engine profile",
    "attention-config": "kernel speed comes from the calibration or the engine profile",
    "moe-backend": "kernel speed comes from the calibration or the engine profile",
    "enable-eplb": _TIME,
    "enable-dbo": _TIME,
    "decode-context-parallel-size": _TIME,
    "cpu-offload-gb": _TIME,
    "kv-offloading-size": _TIME,
    "kv-transfer-config": _TIME,
    "enable-lora": _TIME,
    "disable-custom-all-reduce": _TIME,
    "disable-cascade-attn": _TIME,
    "distributed-executor-backend": NO_EFFECT,
    "swap-space": "this engine version does not swap",
    "max-num-queued-reqs": "no request is refused for a full queue",
    "max-num-queued-tokens": "no request is refused for a full queue",
    "hf-overrides": "edit the config.json and give its path instead",
    "rope-scaling": "position encoding does not change step times",
    "per-request-spec-decode-metrics": NO_EFFECT,
    "limit-mm-per-prompt": "requests are text",
    "nnodes": "one node is simulated",
    "node-rank": "one node is simulated",
}

# Known flags without any bearing on speed.
HARMLESS: frozenset[str] = _words(
    """
    host port uds api-key served-model-name trust-remote-code tokenizer tokenizer-mode
    tokenizer-revision revision code-revision download-dir load-format seed chat-template
    chat-template-content-format response-role generation-config override-generation-config
    tool-call-parser tool-parser-plugin reasoning-parser enable-auto-tool-choice max-logprobs
    logprobs-mode disable-log-requests disable-log-stats enable-log-requests max-log-len
    uvicorn-log-level disable-uvicorn-access-log allowed-origins allowed-methods allowed-headers
    allow-credentials ssl-keyfile ssl-certfile ssl-ca-certs ssl-cert-reqs root-path middleware
    config config-format hf-token hf-config-path runner task convert otlp-traces-endpoint
    collect-detailed-traces guided-decoding-backend structured-outputs-config enable-reasoning
    api-server-count headless safetensors-load-strategy disable-frontend-multiprocessing
    enable-request-id-headers disable-fastapi-docs enable-server-load-tracking lora-modules
    max-loras max-lora-rank ignore-patterns return-tokens-as-token-ids enable-force-include-usage
    enable-prompt-tokens-details enable-tokenizer-info-endpoint use-tqdm-on-load
    model-loader-extra-config worker-cls worker-extension-cls skip-tokenizer-init additional-config
    data-parallel-address data-parallel-rpc-port mm-processor-kwargs language-model-only
    enable-sleep-mode device show-hidden-metrics-for-version log-config-file
    allowed-local-media-path default-chat-template-kwargs
    """
)

# Keys of --speculative-config that are read.
SPECULATIVE_HONOURED: frozenset[str] = _words(
    """
    num_speculative_tokens method model draft_tensor_parallel_size quantization enforce_eager
    num_speculative_tokens_per_batch_size parallel_drafting rejection_sample_method
    synthetic_acceptance_rates synthetic_acceptance_length synthetic_acceptance_rate
    """
)
_DRAFT_SPEED = "the draft's kernel speed comes from the calibration or the engine profile"
SPECULATIVE_IGNORED: dict[str, str] = {
    "moe_backend": _DRAFT_SPEED,
    "attention_backend": _DRAFT_SPEED,
    "kv_cache_dtype": "the draft's cache is counted in the target's format",
    "max_model_len": "requests beyond the draft's window are reported from its config",
    "revision": NO_EFFECT,
    "code_revision": NO_EFFECT,
    "draft_load_config": NO_EFFECT,
    "index_share_for_mtp_iteration": _DRAFT_SPEED,
    "disable_padded_drafter_batch": "drafter batches are padded, the engine's default",
    "disable_eagle_block_drop": "a detail of prefix caching",
    "disable_lookahead_block_hashes": "a detail of prefix caching",
    "draft_lm_head_quantization": "give the draft's config.json with that precision",
    "use_local_argmax_reduction": _DRAFT_SPEED,
    "use_heterogeneous_vocab": "a cross-vocabulary draft changes acceptance, which is given",
    "prompt_lookup_max": "how often a match is found is speculation.proposal_fraction",
    "prompt_lookup_min": "how often a match is found is speculation.proposal_fraction",
    "suffix_decoding_max_tree_depth": "give num_speculative_tokens",
    "suffix_decoding_max_cached_requests": "how often a match is found is speculation.proposal_fraction",
    "suffix_decoding_max_spec_factor": "how often a match is found is speculation.proposal_fraction",
    "suffix_decoding_min_token_prob": "how often a match is found is speculation.proposal_fraction",
    "draft_sample_method": "changes acceptance, which is given",
    "enable_adaptive_verification": "the draft length is fixed, or set by batch size",
    "dspark_draft_topk": "changes acceptance, which is given",
    "xpress_topc": "changes acceptance, which is given",
    "fly_window_size": "changes acceptance, which is given",
    "fly_entropy_threshold": "changes acceptance, which is given",
    "fly_entropy_top_k": "changes acceptance, which is given",
    "disable_by_batch_size": "gone since V1; use num_speculative_tokens_per_batch_size",
}
