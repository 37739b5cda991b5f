"""horovod.tensorflow, horovod.keras and horovod.tensorflow.keras beside the tables of Horovod's interface: names, parameters, defaults
and operations, with every version; and that checks use each entry, with every parameter, at 1, 2 and 4 ranks."""
import functools

import pytest
import variants

JOBS = [("ops", variants.KERAS_3), ("keras", variants.KERAS_3)]
RANKS = [1, 2, 4]


@functools.lru_cache(maxsize=None)
def compared(variant):
    return variants.tool(variant, "interface.py", *variants.TABLES)


@functools.lru_cache(maxsize=1)
def watched():
    return variants.tool(variants.KERAS_3, "witness.py", *(table.name for table in variants.TABLES))


@functools.lru_cache(maxsize=None)
def called(n):
    """{entry: parameters} of what checks called in jobs of n ranks."""
    union = {}
    for folder, variant in JOBS:
        for entry, parameters in variants.called_in(folder, n, variant).items():
            union.setdefault(entry, set()).update(parameters)
    return union


@pytest.mark.parametrize("variant", variants.WITH_TENSORFLOW, ids=lambda variant: variant.name)
@pytest.mark.parametrize("entry", variants.ranks.entries(*variants.TABLES))
def test_the_interface_is_horovods(entry, variant):
    assert compared(variant)[entry] is None, compared(variant)[entry]


@pytest.mark.parametrize("entry", variants.ranks.used_entries(*variants.TABLES))
def test_checks_use_it_with_every_parameter_at_1_2_and_4_ranks(entry):
    for n in RANKS:
        variants.ranks.assert_used(entry, called(n), watched(), n)
