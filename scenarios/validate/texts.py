"""Prose of the page."""

HEAD = """# Validation: predicted beside measured

Written by `specdec validate --report docs/validation.md`; every figure on this page is computed by that command from
the files in `scenarios/data/validation/`. Predicted speed-ups S take a row's own acceptance length, never its timing.
"""

READ = """How a row becomes a prediction: its hardware, model, engine and method are looked up in the catalogue, a fixed
batch is priced from the cost table, a closed loop or a rate is simulated with both arms on the same requests, and S is
read off the quantity the row reports (time per token, wall time with the prompt, mean latency). A tree costs its nodes
and is accepted as its published length says. Errors are predicted over measured minus 1; bias is their median. *Median
of sources* is the median over sources of each source's median |error|: single sources with many rows do not decide it.

Base rates: *always on* says faster to every row; *constant S/AL* multiplies a row's acceptance length by the median
S/AL of its method, once over these very rows and once over rows of other sources only, as a forecast would have to.

No constant was fitted to a speculative measurement. Host times come from plain decoding and from profiled passes
(`docs/derivations/derive_host_constants.py`), kernels from measured tables, and what is neither is declared in
`roofline/catalog/engines.toml` with a range and how it follows from its source.
"""

KNOWN_FAULTS = """## What is missing

- **Front ends.** At some ten thousand tokens a second the processes that detokenise and stream take time that nothing
  here prices: plain decoding of gpt-oss-20b on B200 is 1 to 2 ms a step slower at 64 requests than predicted, and as
  predicted at one. Rounds emit more tokens a step, so speculation is predicted too fast there.
- **EAGLE-3 passes of vLLM in mid-2025** (S20, C03). They took about 0.4 ms longer than those of the larger EAGLE-1 head
  of the same source. Missing graphs are not the reason: releases from 0.9.0 (May 2025) capture both heads, and the
  source is of July. What the host does in a pass is known from one profiled round of unstated K.
- **Heads outside graphs.** Rows and cases of vLLM V1 before 0.9.0 (S21, S22, S36, C04, C05) are priced with eager draft
  passes, as they ran. EAGLE-1 heads come out too slow: the head's logits and the host's launches are added up, which
  overlap, and a launch is priced as those of layers that hold several kernels.
- **Bands that no change above explains.** C01: plain decoding of DeepSeek-R1 on vLLM V0 of February 2025 took almost
  three times as long a step as its kernels and host times give, so fewer requests are in flight at a rate than there
  were, and the gain does not fall. C13: eight GPUs that decode less than four at one batch are a fault of that
  deployment, which no cost of a pass describes. C14: neither acceptance nor hardware is published; with the acceptance
  of other chat tasks six drafts cost too little at 64 requests.
- **llama.cpp between one row and many.** Its kernels for 2 to 8 rows are further from the bandwidth that a single row
  reaches than a constant share of arithmetic says, most so on Volta, Metal and early Vulkan builds.
- **Routing.** Experts are touched as if tokens were routed independently; tokens of one sequence share experts, so
  verification of a mixture of experts is predicted too dear at small batches.
- **Prompts of 2,000 tokens for answers of 64** (S11): what counts there is how prompts and decoding share steps over
  data-parallel GPUs, which the row does not say.
"""
