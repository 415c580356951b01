"""Rows of a machine whose constants are known."""

from typing import Any

import numpy as np

from calibrate.constants import Form
from calibrate.fit import constants_only
from calibrate.jobs import Job, component_jobs, end_to_end_jobs
from calibrate.measurements import Row
from calibrate.predict import Setting, predict_s
from calibrate.presets import PRESETS
from roofline.calibration import Calibration, SamplerFit
from roofline.counts import weight_bytes

SETTING = Setting(PRESETS["small"], "bf16", 128)
FORM = Form(tile_rows=16, knot_rows=(17, 33, 48), cache_bytes=float(weight_bytes(SETTING.model("draft"))))
TRUE_VALUES = {
    "gemm_bytes_per_s": 12e9,
    "gemm_flops_per_s": 1.1e12,
    "lm_head_bytes_per_s": 14e9,
    "lm_head_flops_per_s": 1.0e12,
    "attention_bytes_per_s": 5e9,
    "attention_flops_per_s": 6e10,
    "elementwise_bytes_per_s": 9e9,
    "gemm_p": 1.6,
    "cache_gain": 1.7,
    "knot_17": 1.1,
    "knot_33": 0.93,
    "gemm_overhead_s": 20e-6,
    "layer_overhead_s": 150e-6,
    "step_s": 900e-6,
    "draft_pass_s": 300e-6,
    "cold_draft_s": 250e-6,
}
TRUE_SAMPLER = SamplerFit(
    plain_base_s=80e-6,
    plain_per_logit_s=2.5e-9,
    draft_base_s=60e-6,
    draft_per_logit_s=2.2e-9,
    verify_base_s=200e-6,
    verify_per_sequence_s=90e-6,
    verify_per_logit_s=1.5e-9,
)
RECORD: dict[str, Any] = {
    "preset": "small",
    "dtype": "bf16",
    "device": "cpu",
    "context_tokens": 128,
    "environment": {"cpu": "a machine made of constants", "host_id": "abc", "versions": {"torch": "0"}},
}


def true_calibration() -> Calibration:
    """The constants as a calibration."""
    return constants_only(TRUE_VALUES, FORM, setting=SETTING, sampler=TRUE_SAMPLER)


def all_jobs() -> list[Job]:
    """Components and end-to-end rounds of the small preset."""
    preset = SETTING.preset
    return component_jobs(preset, 128) + end_to_end_jobs(preset, 128)


def rows_of(*, repetitions: int = 10, noise: float = 0.0, seconds_per_unit: float = 1.0, seed: int = 0) -> list[Row]:
    """Rows whose times are the predictions, with log-normal noise."""
    jobs = all_jobs()
    times_s = predict_s(true_calibration(), SETTING, jobs=jobs)
    generator = np.random.default_rng(seed)
    rows: list[Row] = []
    for repetition in range(repetitions):
        for job, time_s in zip(jobs, times_s, strict=True):
            measured = float(time_s * np.exp(noise * generator.standard_normal())) / seconds_per_unit
            rows.append(
                Row(
                    job=job,
                    repetition=repetition,
                    busy_s=measured,
                    wall_s=measured,
                    probe_s=1.4e-3 / seconds_per_unit,
                    involuntary_switches=0,
                    page_faults=0,
                    steal_s=0.0,
                    elapsed_s=float(repetition),
                )
            )
    return rows
