"""horovod.keras and horovod.tensorflow.keras: every check at 1, 2 and 4 ranks with Keras 3, and at 2 with tf_keras and Keras 2.15;
horovod.keras with PyTorch under Keras 3, at 1 and 2."""
import pytest
import variants

JOBS = [*((n, variants.KERAS_3) for n in (1, 2, 4)), (2, variants.TF_KERAS), (2, variants.KERAS_2)]
IDS = [f"{n}-{variant.name}" for n, variant in JOBS]


@pytest.mark.parametrize("n, variant", JOBS, ids=IDS)
@pytest.mark.parametrize("name", variants.checks_of("keras"))
def test_on_every_rank(name, n, variant):
    variants.assert_checked("keras", n, name, variant)


@pytest.mark.parametrize("n, variant", JOBS, ids=IDS)
def test_the_job_of_all_checks_ends_well(n, variant):
    variants.assert_ended_well("keras", n, variant)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("name", variants.checks_of("keras_torch"))
def test_on_every_rank_with_pytorch(name, n):
    variants.assert_checked("keras_torch", n, name, variants.KERAS_TORCH)


@pytest.mark.parametrize("n", [1, 2])
def test_the_job_of_all_checks_with_pytorch_ends_well(n):
    variants.assert_ended_well("keras_torch", n, variants.KERAS_TORCH)
