"""Matrix multiplication with weights prepared once, in the fastest form the device has for the format."""

from typing import Protocol

import torch

from calibrate.shapes import EngineDType


class Multiply(Protocol):
    """`(rows, inputs) -> (rows, outputs)`."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Product with the stored weights."""
        ...


class DenseMultiply:
    """The library product on weights as they are: CUDA in every float format."""

    def __init__(self, weight: torch.Tensor) -> None:
        """Keep `(outputs, inputs)` weights."""
        self.weight = weight

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Product with the stored weights."""
        return torch.nn.functional.linear(x, self.weight)


class PackedMultiply:
    """oneDNN on weights reordered once.

    `F.linear` reorders bf16 weights on every call, which makes one row about half as fast and flatters speculation.
    """

    def __init__(self, weight: torch.Tensor) -> None:
        """Reorder `(outputs, inputs)` weights; the plain copy is not kept."""
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Product with the stored weights."""
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, None, "none", [], "")


class Int8Multiply:
    """Weights in int8 per output channel, activations quantised per call: int8 arithmetic, fp32 in and out."""

    def __init__(self, weight: torch.Tensor) -> None:
        """Quantise and pack `(outputs, inputs)` weights symmetrically."""
        linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
        linear.weight = torch.nn.Parameter(weight.float(), requires_grad=False)
        scale = (weight.float().abs().amax(dim=1) / 127.0).clamp_min(1e-12).double()
        zero = torch.zeros(weight.shape[0], dtype=torch.long)
        quantised = _quantise_per_channel(weight.float(), scale, zero)
        self.packed = torch.ops.quantized.linear_prepack(quantised, None)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Product with the stored weights."""
        return torch.ops.quantized.linear_dynamic(x, self.packed, False)


def _quantise_per_channel(weight: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    import warnings

    with warnings.catch_warnings():
        # torch announces the removal of quantised tensors; the packed kernel has no other entry yet.
        warnings.simplefilter("ignore", UserWarning)
        return torch.quantize_per_channel(weight, scale, zero, 0, torch.qint8)


def multiply_for(weight: torch.Tensor, dtype: EngineDType) -> Multiply:
    """The multiply for weights on their device.

    Raises
    ------
    NotImplementedError
        int8 on CUDA: this engine has no kernel for it.
    """
    if weight.device.type == "cuda":
        if dtype == "int8":
            raise NotImplementedError("int8 is measured on CPUs only; use --dtype bf16 on CUDA")
        return DenseMultiply(weight)
    if dtype == "int8":
        return Int8Multiply(weight)
    return PackedMultiply(weight)
