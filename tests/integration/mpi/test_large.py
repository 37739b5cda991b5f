"""A tensor of more than 2^31 elements for real: two ranks, 2 GiB each, and what the transports need beside."""
import os

import pytest

from test_mpi import BUILD, assert_ok, runtime

NEEDED_GIB = 12


def available_gib():
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("MemAvailable:")) / 2 ** 20


@pytest.mark.skipif("san" in BUILD.name, reason="sanitizers take several times the memory")
@pytest.mark.skipif(available_gib() < NEEDED_GIB, reason=f"needs {NEEDED_GIB} GiB of available memory")
def test_more_than_2_to_the_31_elements_are_added_up():
    assert_ok(runtime(2, "large", OMPI_MCA_btl_vader_single_copy_mechanism="none"))
