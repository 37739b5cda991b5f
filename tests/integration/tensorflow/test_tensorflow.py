"""horovod.tensorflow: every check at 1, 2 and 4 ranks with TensorFlow 2.21, and at 2 with 2.15.1. One job for each."""
import pytest
import variants

JOBS = [*((n, variants.KERAS_3) for n in (1, 2, 4)), (2, variants.KERAS_2)]
IDS = [f"{n}-{variant.environment}" for n, variant in JOBS]


@pytest.mark.parametrize("n, variant", JOBS, ids=IDS)
@pytest.mark.parametrize("name", variants.checks_of("ops"))
def test_on_every_rank(name, n, variant):
    variants.assert_checked("ops", n, name, variant)


@pytest.mark.parametrize("n, variant", JOBS, ids=IDS)
def test_the_job_of_all_checks_ends_well(n, variant):
    variants.assert_ended_well("ops", n, variant)
