"""Prose of the page."""

HEAD = """# Validation: predicted beside measured

Written by `specdec validate --report docs/validation.md`; every figure on this page is computed by that command from the
files in `scenarios/data/validation/`. Predicted speed-ups S take a row's own acceptance length and never its timing.
"""

READ = """How a row becomes a prediction: its hardware, model, engine and method are looked up in the catalogue, a fixed batch is
priced from the cost table, a closed loop or a rate is simulated with both arms on the same requests, and S is read off the
quantity the row reports (time per token, wall time with the prompt, mean latency). A tree costs its nodes and is accepted
as its published length says. Errors are predicted over measured minus 1; bias is their median. *Median of sources* is the
median over sources of each source's median |error|: single sources with many rows do not decide it.

Base rates: *always on* says faster to every row; *constant S/AL* multiplies a row's acceptance length by the median S/AL of
its method, once over these very rows and once over rows of other sources only, which is what a forecast would have.
"""

KNOWN_FAULTS = """## What is missing

- **Front ends.** At some ten thousand tokens a second the processes that detokenise and stream take time that nothing here
  prices: plain decoding of gpt-oss-20b on B200 is 1 to 2 ms a step slower at 64 requests than predicted and as predicted at
  one. Rounds emit more tokens a step, so speculation is predicted too fast there.
- **Eager heads of early vLLM V1.** EAGLE-3 rows of 2025 pay about 0.4 ms a draft pass more than EAGLE-1 rows of the same
  source, although the EAGLE-3 head is smaller: its passes ran outside graphs. The profile is that of current releases.
- **Rows on old or foreign backends.** Matrix kernels of llama.cpp for 2 to 8 rows on Volta and Metal are far from the
  bandwidth that single rows reach; a separate draft model beside a recurrent target saves and restores its state.
- **Routing.** Experts are touched as if tokens were routed independently; tokens of one sequence share experts, so
  verification of a mixture of experts is predicted too dear at small batches.
"""
