"""Checks of what is refused, with which type and text, and that the job goes on."""
import torch
from checks import check, raises
from inputs import mine, reduced, same

import horovod.torch as hvd


def the_job_goes_on():
    """Whether the next reduction works."""
    same(hvd.allreduce(mine(), op=hvd.Sum), reduced("sum"))


def fails_everywhere(text, function, *arguments, **options):
    """The call raises HorovodInternalError with the text on every rank, where there is more than one."""
    if hvd.size() == 1:
        return
    said = raises(hvd.HorovodInternalError, function, *arguments, **options)
    assert text in said, said
    the_job_goes_on()


@check
def ranks_that_disagree_about_the_shape_all_get_an_error():
    shape = (2, hvd.rank() + 1)
    fails_everywhere("Mismatched ALLREDUCE tensor shapes: One rank sent a tensor of shape", hvd.allreduce,
                     torch.ones(shape), name="shape")
    fails_everywhere("Mismatched ALLREDUCE tensor shapes", hvd.allreduce_, torch.ones(shape), name="shape")
    fails_everywhere("Mismatched BROADCAST tensor shapes", hvd.broadcast, torch.ones(shape), 0, name="shape")
    fails_everywhere("Mismatched ALLGATHER tensor shapes", hvd.allgather, torch.ones(shape), name="shape")
    fails_everywhere("Mismatched ALLTOALL tensor shapes", hvd.alltoall, torch.ones(hvd.size(), hvd.rank() + 1),
                     name="shape")
    fails_everywhere("Mismatched REDUCESCATTER tensor shapes", hvd.reducescatter, torch.ones(shape), name="shape")
    shape = (hvd.size(),) + (1,) * (1 + hvd.rank() % 2)
    for function, word in ((hvd.allgather, "ALLGATHER"), (hvd.alltoall, "ALLTOALL")):
        fails_everywhere(f"Mismatched {word} tensor shapes: One rank sent a tensor of rank ", function, torch.ones(shape),
                         name="dimensions")


@check
def ranks_that_disagree_about_the_type_all_get_an_error():
    tensor = torch.ones(4, dtype=torch.float32 if hvd.rank() % 2 else torch.float64)
    for function in (hvd.allreduce, hvd.allgather, hvd.reducescatter):
        fails_everywhere("Mismatched data types: One rank had type", function, tensor, name="type")
    fails_everywhere("Mismatched data types: One rank had type", hvd.broadcast, tensor, 0, name="type")


@check
def ranks_that_disagree_about_the_reduction_root_or_factors_all_get_an_error():
    odd = hvd.rank() % 2
    fails_everywhere("Mismatched reduction operation", hvd.allreduce, mine(), op=hvd.Sum if odd else hvd.Max, name="r")
    fails_everywhere("Mismatched reduction operation", hvd.reducescatter, mine(), op=hvd.Sum if odd else hvd.Average,
                     name="r")
    fails_everywhere("Mismatched BROADCAST root ranks", hvd.broadcast, mine(), odd, name="r")
    fails_everywhere("Mismatched prescale and/or postscale factors", hvd.allreduce, mine(), prescale_factor=1.0 + odd,
                     name="r")


@check
def one_wrong_tensor_fails_its_group():
    fails_everywhere("Mismatched", hvd.grouped_allreduce, [mine(), torch.ones(hvd.rank() + 1)], name="group")


@check
def a_failed_operation_leaves_nothing_behind():
    if hvd.size() == 1:
        return
    handle = hvd.allreduce_async(torch.ones(hvd.rank() + 1), name="fails")
    raises(hvd.HorovodInternalError, hvd.synchronize, handle)
    assert hvd.synchronize(handle) is None
    raises(ValueError, hvd.poll, handle)
    same(hvd.allreduce(mine(), op=hvd.Sum, name="fails"), reduced("sum"))


@check
def internal_errors_are_runtime_errors():
    assert issubclass(hvd.HorovodInternalError, RuntimeError)
    if hvd.size() > 1:
        raises(RuntimeError, hvd.allreduce, torch.ones(hvd.rank() + 1), name="kind")


@check
def a_name_cannot_be_pending_twice():
    if hvd.rank() != 0 or hvd.size() == 1:  # alone, the first may have ended already
        hvd.allreduce(torch.zeros(1), name="first twice")
        if hvd.size() > 1:
            hvd.allreduce(mine(), op=hvd.Sum, name="twice")
        return
    handle = hvd.allreduce_async(mine(), op=hvd.Sum, name="twice")
    text = raises(ValueError, hvd.allreduce_async, mine(), op=hvd.Sum, name="twice")
    assert "a tensor with the same name as another tensor that is currently being processed" in text, text
    hvd.allreduce(torch.zeros(1), name="first twice")
    same(hvd.synchronize(handle), reduced("sum"))


@check
def types_that_cannot_be_sent_are_named():
    for function in (hvd.allreduce, hvd.allreduce_, hvd.allgather, hvd.reducescatter, hvd.alltoall,
                     lambda x: hvd.broadcast(x, 0), lambda x: hvd.broadcast_(x, 0), lambda x: hvd.grouped_allreduce([x])):
        text = raises(ValueError, function, torch.zeros(4, dtype=torch.complex64))
        assert text == "Tensor type torch.ComplexFloatTensor is not supported. Send torch.view_as_real(tensor).", text
        text = raises(ValueError, function, torch.eye(3).to_sparse())
        assert text.startswith("Tensor type torch.sparse.FloatTensor is not supported. Use hvd.sparse_allreduce_async()"), text
    the_job_goes_on()


@check
def a_root_that_is_no_rank_is_refused():
    for root in (hvd.size(), -1):
        raises(ValueError, hvd.broadcast, mine(), root)
        raises(ValueError, hvd.broadcast_, mine(), root)
    the_job_goes_on()


@check
def gathering_needs_a_dimension():
    for function in (hvd.allgather, hvd.alltoall, hvd.reducescatter):
        text = raises((ValueError, hvd.HorovodInternalError), function, torch.tensor(1.0))
        assert "rank-zero tensor" in text, text
    the_job_goes_on()


@check
def adasum_needs_a_power_of_two():
    if hvd.size() < 4:
        return
    three = hvd.add_process_set([0, 1, 2])
    if three.included():
        text = raises(NotImplementedError, hvd.allreduce, mine(), op=hvd.Adasum, process_set=three)
        assert text == "Running Adasum with non-power of 2 ranks is not supported yet.", text
        raises(NotImplementedError, hvd.allreduce_, mine(), op=hvd.Adasum, process_set=three)
    hvd.remove_process_set(three)
    the_job_goes_on()
