"""Checks of init and shutdown with PyTorch: what is left of a job that has ended, and who is in the next."""
from checks import check, raises
from errors import the_job_goes_on
from inputs import mine

import horovod.torch as hvd
from horovod.common.basics import HorovodBasics


@check
def handles_of_a_job_that_has_ended_are_forgotten_with_the_next():
    tensor, size = mine(), hvd.size()
    done = hvd.allreduce_async(tensor, op=hvd.Sum)
    pending = hvd.allreduce_async(mine(), name=f"of rank {hvd.rank()}") if hvd.size() > 1 else done
    hvd.barrier()
    hvd.shutdown()
    assert hvd.is_initialized() is False
    if size > 1:
        assert "shut down" in raises(hvd.HorovodInternalError, hvd.synchronize, pending)
    for call in (hvd.rank, hvd.size, hvd.join, hvd.barrier, lambda: hvd.allreduce(tensor)):
        assert raises((ValueError, hvd.HorovodInternalError), call) == "Horovod has not been initialized; use hvd.init()."
    hvd.init(process_sets="dynamic")
    assert hvd.synchronize(done) is None
    assert "was not created or has been cleared" in raises(ValueError, hvd.poll, done)
    the_job_goes_on()


@check
def a_job_may_be_that_of_a_list_of_ranks():
    rank, size = hvd.rank(), hvd.size()
    hvd.barrier()
    raises(TypeError, hvd.shutdown, 1)
    raises(TypeError, hvd.shutdown, at_once=True)
    hvd.shutdown()
    for wrong in ([size], [0, 0], [-1]):
        text = raises(ValueError, hvd.init, comm=wrong)
        assert text.startswith("Horovod initialization failed. Please check log messages above for a more descriptive error.")
    hvd.init(list(range(size)), process_sets="dynamic")
    assert (hvd.rank(), hvd.size()) == (rank, size)
    the_job_goes_on()


@check
def there_is_one_job_whichever_module_is_asked():
    basics = HorovodBasics(__file__, "mpi_lib_v2")
    assert (basics.rank(), basics.size(), basics.is_initialized()) == (hvd.rank(), hvd.size(), True)
    basics.init()
    the_job_goes_on()
