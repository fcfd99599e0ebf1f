"""FLOPs of a step against the closed forms of the literature, and of the two ways in which jobs are described."""

import pytest

from models.compute.model_flops import model_flops
from models.compute.presets import PRESETS
from models.workload.training.iteration import PRESETS as SIMPLE
from models.workload.training.job import TrainingJob


def test_a_dense_gpt_takes_what_narayanan_says():
    """96 b s l h^2 (1 + s / 6h + V / 16 l h) with recompute (Narayanan et al. 2021, equation 2): 72 without."""
    shape, b = PRESETS["gpt3-175b"], 3
    s, n, h, v = shape.sequence, shape.layers, shape.hidden, shape.vocabulary
    assert model_flops(shape, b) == pytest.approx(72 * b * s * n * h**2 * (1 + s / (6 * h) + v / (12 * n * h)))


@pytest.mark.parametrize("name", ["llama3-8b", "llama2-70b", "mixtral-8x7b", "deepseek-v3"])
def test_it_is_six_flops_per_active_parameter_and_token_besides_attention(name):
    shape = PRESETS[name]
    scores = 6 * shape.sequence * shape.layers * shape.heads * (shape.d_query + shape.d_value) * shape.sequence
    embedding = 0 if shape.tied_embeddings else shape.vocabulary * shape.hidden  # is looked up, not multiplied
    expected = 6 * shape.sequence * (shape.active_parameters() - embedding)
    assert model_flops(shape, 1) - scores == pytest.approx(expected, rel=2e-3)  # norms and biases are no products


def test_the_simple_job_counts_alike():
    """The same model and batch through the job without a GPU type."""
    simple, shape = SIMPLE["gpt-175b"], PRESETS["gpt-175b"]
    job = TrainingJob(simple, tp=8, dp=16, pp=8, microbatch=2, n_microbatch=5)
    assert job.model_flops() == model_flops(shape, 16 * 5 * 2)


def test_without_communication_the_simple_job_computes_for_that_long():
    """Compute time of all GPUs times their rate is the step's FLOPs."""
    job = TrainingJob(SIMPLE["gpt-7b"], tp=1, dp=1, pp=4, n_microbatch=3)
    busy_ps = 3 * job.microbatches * sum(job.forward_ps(stage) for stage in range(job.pp))
    assert busy_ps * job.flops_per_s / 1e12 == pytest.approx(job.model_flops(), rel=1e-9)
