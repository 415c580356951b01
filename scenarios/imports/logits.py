"""Logits of target and draft at the same positions, from an .npz file: acceptance at a temperature follows."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput

FloatArray = NDArray[np.float64]


def read_logits(path: Path) -> tuple[FloatArray, FloatArray]:
    """(target, draft), `(positions, vocabulary)` each.

    Raises
    ------
    InvalidInput
        The file cannot be read, is no .npz, or lacks one of two finite arrays of one shape.
    """
    try:
        with np.load(path, allow_pickle=False) as content:
            names = sorted(content.files)
            if not {"target", "draft"} <= set(names):
                raise InvalidInput(
                    f"logits {path}: needs arrays target and draft, got {', '.join(names) or 'none'}; "
                    "write np.savez(path, target=..., draft=...)"
                )
            target, draft = (np.asarray(content[name], dtype=np.float64) for name in ("target", "draft"))
    except OSError as error:
        raise InvalidInput(
            f"logits {path}: cannot be read ({error.strerror or error}); give a readable file"
        ) from error
    except (ValueError, AttributeError, zipfile.BadZipFile) as error:
        raise InvalidInput(f"logits {path}: is no .npz of numbers ({error}); write it with np.savez") from error
    if not (target.size and np.all(np.isfinite(target)) and np.all(np.isfinite(draft))):
        raise InvalidInput(f"logits {path}: must be finite and not empty; replace masked tokens by a large negative")
    return target, draft
