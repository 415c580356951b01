"""Where rules come from. Retrieved 2026-11-29; engine files as of vLLM 0.33.0 and SGLang 0.5.23."""

from scenarios.check.finding import Reference

VLLM_SPECULATIVE = Reference(
    "vLLM config/speculative.py, SpeculativeConfig",
    "https://github.com/vllm-project/vllm/blob/main/vllm/config/speculative.py",
)
VLLM_SCHEDULER = Reference(
    "vLLM v1/core/sched/scheduler.py, token and input budget",
    "https://github.com/vllm-project/vllm/blob/main/vllm/v1/core/sched/scheduler.py",
)
VLLM_GRAPHS = Reference("vLLM PR 37865: the captured sizes are cut", "https://github.com/vllm-project/vllm/pull/37865")
VLLM_DYNAMIC = Reference(
    "vLLM v1/spec_decode/dynamic/utils.py",
    "https://github.com/vllm-project/vllm/blob/main/docs/features/speculative_decoding/dynamic_speculative_decoding.md",
)
VLLM_ASYNC = Reference(
    "vLLM PR 31998: asynchronous scheduling with drafts", "https://github.com/vllm-project/vllm/pull/31998"
)
VLLM_DRAFT_TP = Reference(
    "vLLM PR 9291: chunked prefill with a draft model", "https://github.com/vllm-project/vllm/pull/9291"
)
VLLM_PIPELINE = Reference(
    "vLLM issue 14117: speculation under pipeline parallelism", "https://github.com/vllm-project/vllm/issues/14117"
)
VLLM_OLD_FLAGS = Reference(
    "vLLM documentation, draft models", "https://docs.vllm.ai/en/latest/features/speculative_decoding/draft_model/"
)
VLLM_DRAFT_MODEL = Reference(
    "vLLM 0.14 documentation, speculative decoding", "https://docs.vllm.ai/en/v0.14.0/features/spec_decode/"
)
VLLM_OOM = Reference(
    "vLLM issue 8731: the pool is sized before the draft is loaded", "https://github.com/vllm-project/vllm/issues/8731"
)
VLLM_VOCABULARY = Reference(
    "vLLM issue 5203: vocabulary sizes differ", "https://github.com/vllm-project/vllm/issues/5203"
)
VLLM_METRICS = Reference("vLLM issue 9565: what the rate counts", "https://github.com/vllm-project/vllm/issues/9565")
VLLM_SHORT_DRAFT = Reference(
    "vLLM issue 57941: the draft's context is shorter", "https://github.com/vllm-project/vllm/issues/57941"
)
VLLM_EAGER = Reference("vLLM: CUDA graphs design", "https://docs.vllm.ai/en/latest/design/cuda_graphs.html")
VLLM_RANDOM = Reference(
    "vLLM issue 33497: low acceptance on random tokens", "https://github.com/vllm-project/vllm/issues/33497"
)
ASCEND_ROTATION = Reference(
    "vllm-ascend issue 5974: a rotated target under EAGLE-3", "https://github.com/vllm-project/vllm-ascend/issues/5974"
)
SGLANG_CAP = Reference(
    "SGLang PR 34290: the cap of running requests with speculation", "https://github.com/sgl-project/sglang/pull/34290"
)
SGLANG_SPECULATIVE = Reference(
    "SGLang documentation, speculative decoding",
    "https://docs.sglang.io/advanced_features/speculative_decoding.html",
)
SGLANG_PIPELINE = Reference(
    "SGLang server_args.py, check_server_args",
    "https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/server_args.py",
)
SGLANG_OOM = Reference("SGLang issue 6875: no room for the draft", "https://github.com/sgl-project/sglang/issues/6875")
SGLANG_CHUNKS = Reference(
    "SGLang PR 12064: chunk gaps are no time per token", "https://github.com/sgl-project/sglang/pull/12064"
)
TRTLLM_SPECULATIVE = Reference(
    "TensorRT-LLM documentation, speculative decoding",
    "https://nvidia.github.io/TensorRT-LLM/features/speculative-decoding.html",
)
TRTLLM_ARGS = Reference(
    "TensorRT-LLM LLM API reference", "https://nvidia.github.io/TensorRT-LLM/llm-api/reference.html"
)
LLAMACPP_SPECULATIVE = Reference(
    "llama.cpp docs/speculative.md", "https://github.com/ggml-org/llama.cpp/blob/master/docs/speculative.md"
)
LLAMACPP_ARGUMENTS = Reference(
    "llama.cpp common/arg.cpp", "https://github.com/ggml-org/llama.cpp/blob/master/common/arg.cpp"
)
LLAMACPP_VOCABULARY = Reference(
    "llama.cpp common/speculative.cpp, SPEC_VOCAB_MAX_SIZE_DIFFERENCE",
    "https://github.com/ggml-org/llama.cpp/blob/master/common/speculative.cpp",
)
SPECULATION_BOUND = Reference(
    "Leviathan et al., Fast Inference from Transformers via Speculative Decoding", "https://arxiv.org/abs/2211.17192"
)
SAMPLING_LAW = Reference(
    "Chen et al., Accelerating LLM Decoding with Speculative Sampling", "https://arxiv.org/abs/2302.01318"
)
