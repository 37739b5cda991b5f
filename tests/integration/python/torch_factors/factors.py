"""Checks of the bits that factors and averages give, in every form of every reduction."""
import oracle
import torch
from checks import check
from oracle import FLOATS, INTEGERS, same_bits

import horovod.torch as hvd

PAIRS = [(1.0, 1.0), (1 / 3, 1.0), (1.0, 1 / 3), (0.1, 0.7), (1 / 7, 7.0), (1.0, 3.0), (-0.3, 1.0), (2.0, 0.5), (1, 5)]
BEYOND = [(1e-50, 1.0), (1.0, 1e39), (1e-42, 1e30), (3.0, 4.1e-44), (1 + 2**-30, 1.0), (1.0, 1 - 2**-40)]  # of float32
SHAPES = [(1,), (9, 113)]
LARGE = (4, 9001)


def inputs(dtype, shape, salt=0):
    """The inputs of all ranks."""
    return [oracle.of_rank(rank, hvd.size(), dtype, shape, salt) for rank in range(hvd.size())]


def mine_of(tensor):
    """This rank's rows of a result that was scattered."""
    rows, size, rank = tensor.shape[0], hvd.size(), hvd.rank()
    begin = rank * (rows // size) + min(rank, rows % size)
    return tensor[begin:begin + rows // size + (rank < rows % size)]


def factors(before, after):
    """The keywords."""
    return {"prescale_factor": before, "postscale_factor": after}


def each_case(dtypes, pairs, shapes):
    """(type, inputs of all ranks, op, keywords, the result that must be)."""
    for dtype in dtypes:
        for shape in shapes:
            tensors = inputs(dtype, shape)
            for op in (hvd.Sum, hvd.Average):
                for before, after in pairs:
                    yield dtype, tensors, op, factors(before, after), oracle.reduced(tensors, op == hvd.Average, before, after)


def every_form_gives(want, tensors, op, keywords):
    """All forms of the reductions of one tensor."""
    tensor = tensors[hvd.rank()]
    same_bits(hvd.allreduce(tensor, op=op, name="one", **keywords), want)
    same_bits(hvd.synchronize(hvd.allreduce_async(tensor, op=op, name="one.async", **keywords)), want)
    same_bits(hvd.allreduce_(tensor.clone(), op=op, name="in.place", **keywords), want)
    same_bits(hvd.synchronize(hvd.allreduce_async_(tensor.clone(), op=op, name="in.place.async", **keywords)), want)
    same_bits(hvd.reducescatter(tensor, op=op, name="part", **keywords), mine_of(want))
    same_bits(hvd.synchronize(hvd.reducescatter_async(tensor, op=op, name="part.async", **keywords)), mine_of(want))


@check
def floating_point_is_multiplied_by_the_factor_rounded_to_its_type():
    for _, tensors, op, keywords, want in [*each_case(FLOATS, PAIRS, SHAPES), *each_case(FLOATS, PAIRS[1:4], [LARGE])]:
        every_form_gives(want, tensors, op, keywords)


@check
def factors_that_float32_does_not_hold_are_rounded_all_the_same():
    for _, tensors, op, keywords, want in each_case([torch.float16, torch.bfloat16, torch.float32], BEYOND, [(9, 113)]):
        if not torch.isnan(want.float()).any():  # a NaN is always the same one here
            every_form_gives(want, tensors, op, keywords)


@check
def integers_are_multiplied_as_float64_and_cut_off():
    pairs = [(1.0, 1.0), (0.5, 1.0), (1.0, 0.5), (1 / 3, 3.0), (1.5, 1 / 3), (1, 2)]
    for _, tensors, op, keywords, want in each_case(INTEGERS, pairs, [(3, 5), (9, 113)]):
        every_form_gives(want, tensors, op, keywords)


@check
def an_average_of_integers_without_a_factor_is_exact():
    for dtype in (torch.int32, torch.int64):
        most = torch.iinfo(dtype).max // hvd.size()
        tensor = torch.tensor([most, -most, most - 1, 1 - most, 1, 0], dtype=dtype)
        same_bits(hvd.allreduce(tensor, op=hvd.Average, name=f"exact.{dtype}"), tensor)


@check
def what_is_fused_has_the_bits_of_what_is_not():
    for dtype in FLOATS + [torch.int32]:
        for before, after in PAIRS[:5]:
            many = [inputs(dtype, (n % 97 + 1, 3), n) for n in range(0, 400, 33)]
            want = [oracle.reduced(tensors, True, before, after) for tensors in many]
            mine = [tensors[hvd.rank()] for tensors in many]
            handles = [hvd.allreduce_async(tensor, name=f"fused.{i}", **factors(before, after))
                       for i, tensor in enumerate(mine)]
            scattered = [hvd.reducescatter_async(tensor, name=f"scattered.{i}", **factors(before, after))
                         for i, tensor in enumerate(mine)]
            for handle, part, one in zip(handles, scattered, want):
                same_bits(hvd.synchronize(handle), one)
                same_bits(hvd.synchronize(part), mine_of(one))


@check
def groups_have_the_bits_of_their_tensors_alone():
    for before, after in PAIRS:
        many = [inputs(dtype, shape, 5) for dtype in FLOATS + [torch.int64] for shape in ((7,), (6, 211))]
        mine = [tensors[hvd.rank()] for tensors in many]
        for op in (hvd.Sum, hvd.Average):
            keywords = {"op": op, **factors(before, after)}
            want = [oracle.reduced(tensors, op == hvd.Average, before, after) for tensors in many]
            for function in (hvd.grouped_allreduce, lambda *a, **k: hvd.synchronize(hvd.grouped_allreduce_async(*a, **k)),
                             lambda tensors, **k: hvd.grouped_allreduce_([t.clone() for t in tensors], **k)):
                for one, other in zip(function(mine, name="group", **keywords), want, strict=True):
                    same_bits(one, other)
            for function in (hvd.grouped_reducescatter,
                             lambda *a, **k: hvd.synchronize(hvd.grouped_reducescatter_async(*a, **k))):
                for one, other in zip(function(mine, name="parts", **keywords), want, strict=True):
                    same_bits(one, mine_of(other))


@check
def minimum_maximum_and_product_are_scaled_likewise():
    for dtype in FLOATS:
        tensors = [tensor.abs() + 1 for tensor in inputs(dtype, (5, 31))]
        for op, of_two in ((hvd.Min, torch.minimum), (hvd.Max, torch.maximum)):
            want = oracle.scaled(tensors[0], 1 / 3)
            for tensor in tensors[1:]:
                want = of_two(want, oracle.scaled(tensor, 1 / 3))
            result = hvd.allreduce(tensors[hvd.rank()], op=op, name="extreme", **factors(1 / 3, 0.7))
            same_bits(result, oracle.scaled(want, 0.7))
        powers = [torch.full((33,), 2.0 ** rank, dtype=dtype) for rank in range(hvd.size())]
        want = oracle.scaled(torch.full((33,), 2.0 ** sum(range(hvd.size())), dtype=dtype), 1 / 3)
        same_bits(hvd.allreduce(powers[hvd.rank()], op=hvd.Product, name="product", **factors(1.0, 1 / 3)), want)


@check
def adasum_is_that_of_scaled_inputs_and_its_result_is_scaled():
    if hvd.size() == 3:
        return
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        tensor = inputs(dtype, (6, 77))[hvd.rank()]
        want = hvd.allreduce(oracle.scaled(tensor, 1 / 3), op=hvd.Adasum, name="adasum")
        same_bits(hvd.allreduce(tensor, op=hvd.Adasum, name="adasum", **factors(1 / 3, 0.7)), oracle.scaled(want, 0.7))


def gradients_of(values, **options):
    """What a DistributedOptimizer makes of gradients."""
    parameters = [torch.nn.Parameter(torch.zeros_like(value)) for value in values]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0), **options)
    sum((parameter * value).sum() for parameter, value in zip(parameters, values)).backward()
    optimizer.synchronize()
    return [parameter.grad for parameter in parameters]


@check
def a_predivided_average_of_gradients_has_the_bits_of_its_two_factors():
    for dtype in (torch.float32, torch.float64):
        many = [inputs(dtype, shape, 9) for shape in ((5,), (31, 7))]
        mine = [tensors[hvd.rank()] for tensors in many]
        for divisor in (1.0, 3.0, 0.7, float(hvd.size())):
            want = [oracle.reduced(tensors, True, 1.0 / divisor, divisor) for tensors in many]
            if hvd.size() == 1:
                want = mine  # nothing is exchanged
            for groups in (None, 1):
                got = gradients_of(mine, gradient_predivide_factor=divisor, groups=groups)
                for one, other in zip(got, want):
                    same_bits(one, other)


@check
def compressed_tensors_are_scaled_as_what_they_are_sent_as():
    for compression, dtype in ((hvd.Compression.fp16, torch.float16), (hvd.Compression.bf16, torch.bfloat16)):
        tensors = [tensor.to(dtype) for tensor in inputs(torch.float32, (5, 91))]
        want = oracle.reduced(tensors, True, 1 / 3, 0.7).float()
        mine = inputs(torch.float32, (5, 91))[hvd.rank()]
        same_bits(hvd.allreduce(mine, compression=compression, name="narrow", **factors(1 / 3, 0.7)), want)


@check
def the_gradient_of_a_reducescatter_is_multiplied_by_one_factor_after_the_other():
    rows = 3 * hvd.size()
    for function in (hvd.reducescatter, lambda x, **k: hvd.grouped_reducescatter([x], **k)[0]):
        for dtype in FLOATS:
            tensor = inputs(dtype, (rows, 5))[hvd.rank()].requires_grad_()
            slopes = inputs(dtype, (3, 5), 3)
            function(tensor, op=hvd.Sum, name="slope", **factors(0.1, 0.7)).backward(slopes[hvd.rank()])
            want = torch.cat([slope * hvd.size() * 0.1 * 0.7 for slope in slopes])
            same_bits(tensor.grad, want)
