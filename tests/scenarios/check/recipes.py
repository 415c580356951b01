"""Configurations published by the engines' own documents, with the page each was taken from.

Only what bears on serving is kept of each. `gpu` is what the page names, where it names one.
"""

from dataclasses import dataclass

VLLM_RECIPES = "https://github.com/vllm-project/recipes/blob/main/"
VLLM_DOCS = "https://docs.vllm.ai/en/latest/features/speculative_decoding/"
SGLANG_DOCS = "https://docs.sglang.io/advanced_features/speculative_decoding.html"
TRTLLM_DOCS = "https://nvidia.github.io/TensorRT-LLM/features/speculative-decoding.html"
TRTLLM_BLOG = "https://github.com/NVIDIA/TensorRT-LLM/blob/main/docs/source/blogs/Best_perf_practice_on_DeepSeek-R1_in_TensorRT-LLM.md"
LLAMACPP_DOCS = "https://github.com/ggml-org/llama.cpp/blob/master/docs/speculative.md"
LLAMACPP_SIMPLE = "https://github.com/ggml-org/llama.cpp/blob/master/examples/speculative-simple/README.md"


@dataclass(frozen=True)
class Recipe:
    """A serve line (or a YAML text) and where it was published."""

    name: str
    url: str
    serve: str = ""
    yaml: str = ""
    gpu: str | None = None
    model: str | None = None
    draft: str | None = None


def _sglang(model, algorithm, steps, top_k, nodes, *, draft=None, more=""):
    path = f"--speculative-draft-model-path {draft} " if draft else ""
    return (
        f"python3 -m sglang.launch_server --model {model} --speculative-algorithm {algorithm} {path}"
        f"--speculative-num-steps {steps} --speculative-eagle-topk {top_k} --speculative-num-draft-tokens {nodes} "
        f"--mem-fraction-static 0.7 --cuda-graph-max-bs 8 {more}"
    )


RECIPES = (
    Recipe(
        "vLLM: Qwen3-Next with MTP",
        VLLM_RECIPES + "Qwen/Qwen3-Next.md",
        serve="vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct --gpu-memory-utilization 0.8 -tp 4 "
        "--no-enable-chunked-prefill --speculative-config "
        '\'{"method": "qwen3_next_mtp", "num_speculative_tokens": 2}\'',
        gpu="H200-SXM",
        model="Qwen/Qwen3-Next-80B-A3B.json",
    ),
    Recipe(
        "vLLM: GLM-5 with MTP",
        VLLM_RECIPES + "GLM/GLM5.md",
        serve="vllm serve zai-org/GLM-5-FP8 --tensor-parallel-size 8 --speculative-config.method mtp "
        "--speculative-config.num_speculative_tokens 3 --tool-call-parser glm47 --enable-auto-tool-choice",
        gpu="H200-SXM",
        model="zai-org/GLM-5.json",
    ),
    Recipe(
        "vLLM: gpt-oss-120b with EAGLE-3 on Hopper",
        VLLM_RECIPES + "OpenAI/GPT-OSS_EAGLE3_Hopper.yaml",
        yaml="model: openai/gpt-oss-120b\nno-enable-prefix-caching: true\nmax-cudagraph-capture-size: 2048\n"
        "max-num-batched-tokens: 8192\nstream-interval: 20\nspeculative-config: "
        '\'{"model":"nvidia/gpt-oss-120b-Eagle3-v2","num_speculative_tokens":3,"method":"eagle3",'
        '"draft_tensor_parallel_size":1}\'\n',
        gpu="H100-SXM",
        draft="SpecForge/EAGLE3-gpt-oss-120B.json",
    ),
    Recipe(
        "vLLM: Qwen3.5 with one MTP token",
        VLLM_RECIPES + "Qwen/Qwen3.5.md",
        serve="vllm serve Qwen/Qwen3.5-397B-A17B --tensor-parallel-size 8 --reasoning-parser qwen3 "
        '--speculative-config \'{"method": "mtp", "num_speculative_tokens": 1}\'',
    ),
    Recipe(
        "vLLM: Qwen3-4B with a 0.6B draft model",
        VLLM_DOCS + "draft_model/",
        serve="vllm serve Qwen/Qwen3-4B-Thinking-2507 -tp 1 --max-model-len 2048 --gpu-memory-utilization 0.8 "
        '--speculative-config \'{"model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 5, "method": "draft_model"}\'',
    ),
    Recipe(
        "vLLM: Qwen3-8B with suffix decoding",
        VLLM_DOCS + "suffix/",
        serve="vllm serve Qwen/Qwen3-8B -tp 1 --speculative-config "
        '\'{"method": "suffix", "num_speculative_tokens": 32}\'',
        gpu="H100-SXM",
    ),
    Recipe(
        "vLLM: n-gram matching",
        VLLM_DOCS + "n_gram/",
        serve="vllm serve meta-llama/Llama-3.1-8B-Instruct -tp 1 --speculative-config "
        '\'{"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4}\'',
        gpu="H100-SXM",
    ),
    Recipe(
        "vLLM: Llama-3-8B with EAGLE on one of four GPUs",
        VLLM_DOCS + "eagle/",
        serve="vllm serve meta-llama/Meta-Llama-3-8B-Instruct -tp 4 --speculative-config "
        '\'{"model": "yuhuili/EAGLE-LLaMA3-Instruct-8B", "draft_tensor_parallel_size": 1, "num_speculative_tokens": 2, '
        '"method": "eagle"}\'',
    ),
    Recipe(
        "vLLM: Llama-3.1-8B with an EAGLE-3 speculator",
        VLLM_DOCS + "eagle/",
        serve="vllm serve meta-llama/Llama-3.1-8B-Instruct -tp 2 --speculative-config "
        '\'{"model": "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3", "draft_tensor_parallel_size": 2, '
        '"num_speculative_tokens": 2, "method": "eagle3"}\'',
        gpu="H100-SXM",
        draft="SpecForge/EAGLE3-llama3-8B.json",
    ),
    Recipe(
        "SGLang: Llama-2-7B with an EAGLE-2 tree",
        SGLANG_DOCS,
        serve=_sglang("meta-llama/Llama-2-7b-chat-hf", "EAGLE", 3, 4, 16, draft="lmsys/sglang-EAGLE-llama2-chat-7B"),
        gpu="H100-SXM",
        model="meta-llama/Llama-2-7b-hf.json",
        draft="yuhuili/EAGLE-llama2-chat-7B.json",
    ),
    Recipe(
        "SGLang: Llama-3-8B with a frequency-ranked head",
        SGLANG_DOCS,
        serve=_sglang(
            "meta-llama/Meta-Llama-3-8B-Instruct",
            "EAGLE",
            3,
            4,
            16,
            more="--dtype float16 --speculative-token-map thunlp/LLaMA3-Instruct-8B-FR-Spec/freq_32768.pt",
            draft="lmsys/sglang-EAGLE-LLaMA3-Instruct-8B",
        ),
    ),
    Recipe(
        "SGLang: Llama-3.1-8B with an EAGLE-3 tree",
        SGLANG_DOCS,
        serve=_sglang(
            "meta-llama/Meta-Llama-3.1-8B-Instruct",
            "EAGLE3",
            3,
            4,
            16,
            more="--dtype float16",
            draft="jamesliu1/sglang-EAGLE3-Llama-3.1-Instruct-8B",
        ),
        gpu="H100-SXM",
        model="meta-llama/Llama-3.1-8B-Instruct.json",
        draft="SpecForge/EAGLE3-llama3-8B.json",
    ),
    Recipe(
        "SGLang: MiMo-7B with its MTP layer",
        SGLANG_DOCS,
        serve=_sglang("XiaomiMiMo/MiMo-7B-RL", "EAGLE", 1, 1, 2, more="--trust-remote-code"),
        gpu="H100-SXM",
        model="XiaomiMiMo/MiMo-7B-Base.json",
    ),
    Recipe(
        "SGLang: Qwen2.5-7B with a 1.5B draft model, a tree",
        SGLANG_DOCS,
        serve=_sglang("Qwen/Qwen2.5-7B-Instruct", "STANDALONE", 4, 2, 7, draft="Qwen/Qwen2.5-1.5B-Instruct"),
        gpu="H100-SXM",
        draft="Qwen/Qwen2-1.5B-Instruct.json",
    ),
    Recipe(
        "SGLang: the same under the overlap scheduler, a chain",
        SGLANG_DOCS,
        serve="SGLANG_ENABLE_SPEC_V2=True "
        + _sglang("Qwen/Qwen2.5-7B-Instruct", "STANDALONE", 4, 1, 5, draft="Qwen/Qwen2.5-1.5B-Instruct"),
        gpu="H100-SXM",
        draft="Qwen/Qwen2-1.5B-Instruct.json",
    ),
    Recipe(
        "SGLang: DeepSeek-V3 with its MTP layer, engine's own choice of steps",
        "https://docs.sglang.io/basic_usage/deepseek_v3.html",
        serve="python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3-0324 --speculative-algorithm EAGLE "
        "--trust-remote-code --tp 8",
        gpu="H200-SXM",
        model="deepseek-ai/DeepSeek-V3.json",
    ),
    Recipe(
        "TensorRT-LLM: EAGLE-3 chain",
        TRTLLM_DOCS,
        yaml="speculative_config:\n  decoding_type: Eagle3\n  max_draft_len: 4\n"
        "  speculative_model: yuhuili/EAGLE3-LLaMA3.1-Instruct-8B\n",
        gpu="H100-SXM",
        model="meta-llama/Llama-3.1-8B-Instruct.json",
        draft="SpecForge/EAGLE3-llama3-8B.json",
    ),
    Recipe(
        "TensorRT-LLM: EAGLE-3 dynamic tree of 60 nodes",
        TRTLLM_DOCS,
        yaml="speculative_config:\n  decoding_type: Eagle3\n  max_draft_len: 6\n  speculative_model: /path/to/eagle3\n"
        "  use_dynamic_tree: true\n  dynamic_tree_max_topK: 10\n  max_total_draft_tokens: 60\n  max_batch_size: 4\n",
        gpu="H100-SXM",
        model="meta-llama/Llama-3.1-8B-Instruct.json",
    ),
    Recipe(
        "TensorRT-LLM: EAGLE-3 with the suffix automaton",
        TRTLLM_DOCS,
        yaml="speculative_config:\n  decoding_type: Eagle3\n  max_draft_len: 4\n  speculative_model: /path/to/draft\n"
        "  use_sa_spec: true\n  sa_spec_threshold: 4\n",
    ),
    Recipe(
        "TensorRT-LLM: DeepSeek-R1 at least latency",
        TRTLLM_BLOG,
        yaml="moe_config:\n  backend: TRTLLM\nspeculative_config:\n  decoding_type: MTP\n"
        "  num_nextn_predict_layers: 3\ntensor_parallel_size: 8\nmax_batch_size: 1\n",
        gpu="B200-SXM",
        model="deepseek-ai/DeepSeek-R1.json",
    ),
    Recipe(
        "llama.cpp: Qwen2.5-Coder-32B with a 0.5B draft",
        "https://github.com/ggml-org/llama.cpp/pull/10455",
        serve="./bin/llama-server -m qwen2.5-32b-coder-instruct/ggml-model-q8_0.gguf "
        "-md qwen2.5-0.5b-coder-instruct/ggml-model-q4_0.gguf -ngl 99 -ngld 99 -fa --port 8033 -c 32768 "
        "--draft-max 16 --draft-min 5",
    ),
    Recipe(
        "llama.cpp: n-gram hashes shared by all slots",
        LLAMACPP_DOCS,
        serve="llama-server -m model.gguf --spec-type ngram-mod --spec-ngram-size-n 24 --draft-min 48 --draft-max 64",
    ),
    Recipe(
        "llama.cpp: n-gram map with four values",
        LLAMACPP_DOCS,
        serve="llama-server -m model.gguf --spec-type ngram-map-k4v --spec-ngram-size-n 8 --spec-ngram-size-m 8 "
        "--spec-ngram-min-hits 2 --draft-max 64",
    ),
    Recipe(
        "llama.cpp: Qwen3-8B with a 0.6B draft",
        LLAMACPP_SIMPLE,
        serve="./bin/llama-speculative-simple -hf ggml-org/Qwen3-8B-Base-GGUF:Q8_0 -hfd ggml-org/Qwen3-0.6B-Base-GGUF "
        "--spec-type draft-simple --spec-draft-n-max 7 -ngld 99 --color on -n 256 --temp 0 --top-k 1 -ngl 99",
        model="Qwen/Qwen3-8B.json",
        draft="Qwen/Qwen3-0.6B.json",
    ),
    Recipe(
        "llama.cpp: MTP layers of Qwen3.6",
        LLAMACPP_SIMPLE,
        serve="./bin/llama-speculative-simple -hf ggml-org/Qwen3.6-27B-GGUF:Q8_0 --spec-type draft-mtp "
        "--spec-draft-n-max 3 -ngld 99 --color on -n 256 --temp 0 --top-k 1 -ngl 99",
    ),
)
