"""Number formats of GGUF files: bits per weight over the whole file, output matrix included.

From the table of llama.cpp's `tools/quantize/README.md` (Llama-3.1-8B); what it leaves out is as its block layout
says (Q4_0: 18 bytes a block of 32) or halfway to its neighbours (Q3_K_M). https://github.com/ggml-org/llama.cpp/blob/311c2c9f0ebd/tools/quantize/README.md
"""

import re

from roofline.specs import WeightFormat

_BITS = {
    "iq1_s": 2.0042, "iq1_m": 2.1460, "iq2_xxs": 2.3824, "iq2_xs": 2.5882, "iq2_s": 2.7403, "iq2_m": 2.9294,
    "iq3_xxs": 3.2548, "iq3_xs": 3.4977, "iq3_s": 3.6606, "iq3_m": 3.7628, "iq4_xs": 4.4597, "iq4_nl": 4.6818,
    "q2_k_s": 2.9697, "q2_k": 3.1593, "q3_k_s": 3.6429, "q3_k_m": 3.9704, "q3_k_l": 4.2979, "q4_0": 4.5, "q4_1": 5.0,
    "q4_k_s": 4.6672, "q4_k_m": 4.8944, "q5_0": 5.5, "q5_1": 6.0, "q5_k_s": 5.5704, "q5_k_m": 5.7036, "q6_k": 6.5633,
    "q8_0": 8.5008,
}  # fmt: skip
_TYPICAL = {"q2_k_m": "q2_k", "q2_k_l": "q2_k", "q3_k": "q3_k_m", "q4_k": "q4_k_m", "q4_k_l": "q4_k_m",
            "q5_k": "q5_k_m", "q5_k_l": "q5_k_m", "q6_k_l": "q6_k", "q8_k": "q8_0"}  # fmt: skip
_NAME = re.compile(r"(?:ud[-_ ])?(i?q[1-8](?:_[01]|_nl|_k)?(?:_(?:xxs|xs|s|m|l|xl))?)(?![a-z0-9])")


def gguf_format(name: str) -> WeightFormat | None:
    """Format of a quantisation name such as `Q4_K_M` or `UD-Q4_K_XL`; None where it is no such name.

    `UD-` and `_XL` files mix formats by layer; they are taken as the medium mix of their width.
    """
    found = _NAME.search(name.lower().replace("-", "_").replace("ud_", "ud-"))
    if found is None:
        return None
    kind = re.sub(r"_xl$", "_m", found[1])
    bits = _BITS.get(_TYPICAL.get(kind, kind))
    if bits is None:
        return None
    width = int(kind.lstrip("iq")[0])
    label = "int8_weights" if width == 8 else f"int{max(2, width)}"
    return WeightFormat(name=label, bits_per_weight=bits, math="bf16", dequantised=True)
