"""Checks of allreduce in all its forms."""
import gc
import threading
import warnings
import weakref

import torch
from checks import check, needs_adasum, raises
from inputs import ALL, FLOATS, NUMBERS, OPS, mine, of_rank, reduced, same

import horovod.torch as hvd
from horovod.torch.compression import Compressor


@check
def every_type_is_reduced_by_every_operation():
    for dtype in ALL:
        for name, op in OPS.items():
            if dtype == torch.bool and name == "average":
                continue
            same(hvd.allreduce(mine(dtype), op=op, name=f"{dtype}.{name}"), reduced(name, dtype))
            same(hvd.allreduce_(mine(dtype), op=op, name=f"{dtype}.{name}_"), reduced(name, dtype))


@check
def the_reduction_is_an_average_unless_something_else_is_asked_for():
    same(hvd.allreduce(mine()), reduced("average"))
    same(hvd.allreduce_(mine()), reduced("average"))
    same(hvd.synchronize(hvd.allreduce_async(mine())), reduced("average"))
    same(hvd.synchronize(hvd.allreduce_async_(mine())), reduced("average"))
    same(hvd.grouped_allreduce([mine()])[0], reduced("average"))


@check
def average_is_deprecated_and_still_chooses_between_average_and_sum():
    for function in (hvd.allreduce, hvd.allreduce_):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            same(function(mine(), average=True), reduced("average"))
            same(function(mine(), average=False), reduced("sum"))
            same(function(mine(), False), reduced("sum"))
        assert any(issubclass(warning.category, DeprecationWarning) for warning in seen), seen
    text = raises(ValueError, hvd.allreduce, mine(), average=True, op=hvd.Sum)
    assert text == "The op parameter supersedes average. Please provide only one of them.", text


@check
def the_input_stays_as_it_was_and_the_result_is_new_memory():
    tensor = mine()
    result = hvd.allreduce(tensor, op=hvd.Sum)
    same(tensor, mine())
    assert result.data_ptr() != tensor.data_ptr()
    result = hvd.synchronize(hvd.allreduce_async(tensor, op=hvd.Sum))
    assert result.data_ptr() != tensor.data_ptr() and not result.requires_grad


@check
def in_place_forms_change_and_return_the_tensor_that_was_given():
    tensor = mine()
    assert hvd.allreduce_(tensor, op=hvd.Sum) is tensor
    same(tensor, reduced("sum"))
    handle = hvd.allreduce_async_(tensor, op=hvd.Max, name="in place")
    assert hvd.synchronize(handle) is tensor
    tensors = [mine(), mine(torch.float64)]
    results = hvd.grouped_allreduce_(tensors, op=hvd.Sum)
    assert isinstance(results, tuple) and all(one is other for one, other in zip(results, tensors))
    same(tensors[1], reduced("sum", torch.float64))


@check
def parameters_that_require_gradients_are_reduced_in_place():
    parameter = torch.nn.Parameter(mine())
    assert hvd.allreduce_(parameter, op=hvd.Sum) is parameter and parameter.requires_grad and parameter.is_leaf
    same(parameter.detach(), reduced("sum"))
    strided = torch.nn.Parameter(mine(shape=(5, 3)).t())
    hvd.allreduce_(strided, op=hvd.Sum)
    same(strided.detach(), reduced("sum", shape=(5, 3)).t())


@check
def handles_may_be_synchronized_in_any_order():
    tensors = [of_rank(hvd.rank() + i) for i in range(20)]
    handles = [hvd.allreduce_async_(tensor, op=hvd.Sum, name=f"order.{i}") for i, tensor in enumerate(tensors)]
    for i in reversed(range(20)):
        same(hvd.synchronize(handles[i]), sum(of_rank(rank + i) for rank in range(hvd.size())))


@check
def poll_says_when_synchronize_would_return_at_once():
    handle = hvd.allreduce_async(mine(), op=hvd.Sum, name="polled")
    while not hvd.poll(handle):
        pass
    same(hvd.synchronize(handle), reduced("sum"))
    raises(ValueError, hvd.poll, handle)
    assert hvd.synchronize(handle) is None


@check
def factors_apply_to_every_type():
    for dtype in NUMBERS:
        result = hvd.allreduce(mine(dtype), op=hvd.Sum, prescale_factor=2.0, postscale_factor=3.0)
        same(result, (reduced("sum", torch.float64) * 6).to(dtype))
    same(hvd.allreduce_(mine(), prescale_factor=0.5), reduced("average") * 0.5)
    result = hvd.grouped_allreduce([mine(), mine(torch.float64)], op=hvd.Sum, postscale_factor=0.25)
    same(result[1], reduced("sum", torch.float64) * 0.25)


@check
def a_factor_of_zero_gives_zeros():
    for dtype in ALL:
        same(hvd.allreduce(mine(dtype), op=hvd.Sum, prescale_factor=0.0), torch.zeros(3, 5, dtype=dtype))
    tensor = mine()
    hvd.allreduce_(tensor, postscale_factor=0)
    same(tensor, torch.zeros(3, 5))
    same(hvd.grouped_allreduce_([mine()], op=hvd.Sum, prescale_factor=0)[0], torch.zeros(3, 5))


@check
def tensors_that_are_not_contiguous_are_reduced():
    same(hvd.allreduce(mine(shape=(5, 3)).t(), op=hvd.Sum), reduced("sum", shape=(5, 3)).t())
    same(hvd.allreduce(mine(shape=(5,)).expand(4, 5), op=hvd.Sum), reduced("sum", shape=(5,)).expand(4, 5))
    images = mine(shape=(2, 3, 4, 5)).to(memory_format=torch.channels_last)
    same(hvd.allreduce(images, op=hvd.Sum), reduced("sum", shape=(2, 3, 4, 5)))
    assert hvd.allreduce_(images, op=hvd.Sum).is_contiguous(memory_format=torch.channels_last)
    same(images, reduced("sum", shape=(2, 3, 4, 5)))


@check
def strides_that_differ_between_ranks_do_not_mix_up_elements():
    tensor = mine(shape=(3, 3, 3, 3))
    if hvd.rank() % 2:
        tensor = tensor.to(memory_format=torch.channels_last)
    same(hvd.allreduce_(tensor, op=hvd.Sum), reduced("sum", shape=(3, 3, 3, 3)))


@check
def an_in_place_reduction_of_a_part_leaves_the_rest_alone():
    whole = torch.full((4, 6), 7.0)
    part = whole[1:3, ::2]
    part.copy_(mine(shape=(2, 3)))
    assert hvd.allreduce_(part, op=hvd.Sum) is part
    want = torch.full((4, 6), 7.0)
    want[1:3, ::2] = reduced("sum", shape=(2, 3))
    same(whole, want)


@check
def empty_and_single_element_tensors_are_reduced():
    for shape in ((0,), (3, 0, 2)):
        for dtype in (torch.float32, torch.bfloat16, torch.bool):
            same(hvd.allreduce(torch.zeros(shape, dtype=dtype), op=hvd.Sum), torch.zeros(shape, dtype=dtype))
            hvd.allreduce_(torch.zeros(shape, dtype=dtype), op=hvd.Sum)
    same(hvd.allreduce(torch.tensor(hvd.rank() + 1.0), op=hvd.Max), torch.tensor(float(hvd.size())))
    same(hvd.allreduce(torch.tensor([hvd.rank()]), op=hvd.Max), torch.tensor([hvd.size() - 1]))


@check
def groups_are_reduced_together_whatever_their_types_and_strides():
    tensors = [mine(), mine(torch.int64, (7,)), mine(torch.bfloat16, (2, 3)).t(), torch.zeros(0)]
    want = [reduced("sum"), reduced("sum", torch.int64, (7,)), reduced("sum", torch.bfloat16, (2, 3)).t(),
            torch.zeros(0)]
    results = hvd.grouped_allreduce(tensors, op=hvd.Sum, name="group")
    assert isinstance(results, list)
    for one, other in zip(results, want, strict=True):
        same(one, other)
    results = hvd.synchronize(hvd.grouped_allreduce_async(iter(tensors), op=hvd.Sum, name="group"))
    for one, other in zip(results, want, strict=True):
        same(one, other)
    handle = hvd.grouped_allreduce_async_(tensors, op=hvd.Sum, name="group")
    for one, tensor, other in zip(hvd.synchronize(handle), tensors, want, strict=True):
        assert one is tensor
        same(one, other)
    assert hvd.synchronize(handle) is None


@check
def a_group_needs_a_tensor():
    for function in (hvd.grouped_allreduce, hvd.grouped_allreduce_, hvd.grouped_allreduce_async,
                     hvd.grouped_allgather, hvd.grouped_reducescatter):
        raises(ValueError, function, [])


@check
def compression_sends_half_and_returns_the_type_that_was_given():
    for compression in (hvd.Compression.none, hvd.Compression.fp16, hvd.Compression.bf16):
        for dtype in FLOATS + [torch.int32]:
            same(hvd.allreduce(mine(dtype), op=hvd.Sum, compression=compression), reduced("sum", dtype))
        results = hvd.grouped_allreduce([mine(), mine(torch.int64)], op=hvd.Sum, compression=compression)
        same(results[0], reduced("sum"))
        same(results[1], reduced("sum", torch.int64))
    sent, context = hvd.Compression.fp16.compress(torch.ones(2, dtype=torch.float64))
    assert sent.dtype == torch.float16 and hvd.Compression.fp16.decompress(sent, context).dtype == torch.float64


@check
def a_compressor_of_ones_own_says_what_it_has_to_do_and_is_used():
    for method, arguments in ((Compressor.compress, (mine(),)), (Compressor.decompress, (mine(), None))):
        raises(NotImplementedError, method, *arguments)

    class Doubled(Compressor):
        """Sends twice the values, as integers."""

        @staticmethod
        def compress(tensor):
            return (tensor * 2).to(torch.int32), tensor.dtype

        @staticmethod
        def decompress(tensor, ctx):
            return (tensor / 2).to(ctx)

    same(hvd.allreduce(mine(), op=hvd.Sum, compression=Doubled), reduced("sum"))
    same(hvd.grouped_allreduce([mine()], op=hvd.Sum, compression=Doubled)[0], reduced("sum"))
    same(hvd.reducescatter(mine(shape=(hvd.size(), 2)), op=hvd.Sum, compression=Doubled),
         reduced("sum", shape=(hvd.size(), 2))[hvd.rank():hvd.rank() + 1])


@check
def adasum_adds_what_is_orthogonal_and_averages_what_is_parallel():
    needs_adasum()
    apart = torch.zeros(hvd.size() + 1)
    apart[hvd.rank()] = 2.0
    want = torch.full((hvd.size() + 1,), 2.0)
    want[-1] = 0.0
    same(hvd.allreduce(apart, op=hvd.Adasum), want)
    same(hvd.allreduce_(torch.full((5,), 3.0), op=hvd.Adasum), torch.full((5,), 3.0))


@check
def tensors_without_other_references_live_until_they_are_synchronized():
    handle = hvd.allreduce_async(mine(shape=(1000,)) * 1, op=hvd.Sum, name="short-lived")
    gc.collect()
    for _ in range(5):
        torch.full((1000,), -1.0)
    same(hvd.synchronize(handle), reduced("sum", shape=(1000,)))
    tensor = mine()
    watcher = weakref.ref(tensor)
    hvd.synchronize(hvd.allreduce_async_(tensor))
    del tensor
    gc.collect()
    assert watcher() is None, "a synchronized tensor is still held"


@check
def threads_may_reduce_at_the_same_time():
    failures = []

    def reduce(thread):
        try:
            for step in range(10):
                same(hvd.allreduce(mine(), op=hvd.Sum, name=f"thread.{thread}.{step}"), reduced("sum"))
        except Exception as error:  # told to the main thread
            failures.append(error)

    threads = [threading.Thread(target=reduce, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


@check
def other_threads_run_while_one_waits():
    results = []
    waiting = threading.Thread(target=lambda: results.append(hvd.allreduce(mine(), op=hvd.Sum, name="held back")))
    if hvd.rank() == 0:
        waiting.start()
    hvd.allreduce(mine(), name="let it go")  # the others begin "held back" only after this
    if hvd.rank() != 0:
        waiting.start()
    waiting.join()
    same(results[0], reduced("sum"))
