"""Checks of the gradients of the collectives: the loss counts as averaged over the ranks."""
import torch
from checks import check
from inputs import mine, of_rank, same

import horovod.torch as hvd


def weights(rank, shape):
    """What a rank multiplies its output by, so that this is its gradient."""
    return of_rank(rank + 1, torch.float32, shape) * 0.5


def gradient(collective, shape, dtype=torch.float32):
    """The gradient that the input of a collective gets, when a rank's output is weighted by weights(rank)."""
    tensor = mine(dtype, shape).requires_grad_()
    output = collective(tensor)
    assert output.requires_grad
    output.backward(weights(hvd.rank(), output.shape).to(dtype))
    return tensor.grad


def average_of_weights(shape):
    """The average over the ranks of what they weight an output of one shape by."""
    return sum(weights(rank, shape) for rank in range(hvd.size())) / hvd.size()


@check
def the_gradient_of_allreduce_is_reduced_in_the_same_way():
    average = average_of_weights((3, 2))
    same(gradient(hvd.allreduce, (3, 2)), average)
    same(gradient(lambda x: hvd.allreduce(x, op=hvd.Sum), (3, 2)), average * hvd.size())
    same(gradient(lambda x: hvd.allreduce(x, prescale_factor=2.0, postscale_factor=4.0), (3, 2)), average * 8)
    same(gradient(lambda x: hvd.allreduce(x, average=False, name="named"), (3, 2)), average * hvd.size())
    packed = gradient(lambda x: hvd.allreduce(x, compression=hvd.Compression.fp16), (3, 2))
    same(packed.half(), average.half())  # the gradient travels as float16: its bits are what is left of a third
    same(gradient(hvd.allreduce, (3, 2), torch.bfloat16), average.to(torch.bfloat16))


@check
def gradients_that_are_expanded_or_strided_are_taken():
    tensor = mine().requires_grad_()
    hvd.allreduce(tensor).sum().backward()
    same(tensor.grad, torch.ones(3, 5))
    for collective in (lambda x: hvd.allreduce(x).t(), lambda x: hvd.allgather(x), lambda x: hvd.broadcast(x, 0),
                       lambda x: hvd.reducescatter(x), lambda x: hvd.alltoall(x.repeat(hvd.size(), 1)),
                       lambda x: hvd.grouped_allreduce([x, x * 2])[1], lambda x: hvd.grouped_allgather([x])[0],
                       lambda x: hvd.grouped_reducescatter([x])[0]):
        tensor = mine(shape=(4, 6)).requires_grad_()
        collective(tensor[:, ::2]).sum().backward()
        assert tensor.grad.shape == (4, 6) and not tensor.grad[:, 1::2].any()


@check
def the_gradient_of_a_group_is_reduced_as_a_group():
    one, two = mine().requires_grad_(), mine(torch.float64, (4,)).requires_grad_()
    outputs = hvd.grouped_allreduce([one, two], op=hvd.Sum)
    (outputs[0].sum() * 2 + outputs[1].sum() * (hvd.rank() + 1)).backward()
    same(one.grad, torch.full((3, 5), 2.0 * hvd.size()))
    same(two.grad, torch.full((4,), sum(range(1, hvd.size() + 1)), dtype=torch.float64))
    one.grad = None
    hvd.grouped_allreduce([one, two])[0].sum().backward()  # the other output is not used
    same(one.grad, torch.ones(3, 5))


@check
def the_gradient_of_allgather_is_the_average_of_this_ranks_rows():
    rows = [rank + 1 for rank in range(hvd.size())]
    first = sum(rows[:hvd.rank()])
    want = average_of_weights((sum(rows), 2))[first:first + hvd.rank() + 1]
    same(gradient(hvd.allgather, (hvd.rank() + 1, 2)), want)
    same(gradient(lambda x: hvd.grouped_allgather([x, x.detach()])[0], (hvd.rank() + 1, 2)), want)
    nothing = torch.zeros((hvd.rank(), 2), requires_grad=True)
    hvd.allgather(nothing).sum().backward()
    same(nothing.grad, torch.ones(hvd.rank(), 2))


@check
def the_gradient_of_broadcast_is_the_average_on_the_root_and_nothing_elsewhere():
    for root in range(hvd.size()):
        want = average_of_weights((3, 2)) if hvd.rank() == root else torch.zeros(3, 2)
        same(gradient(lambda x, root=root: hvd.broadcast(x, root), (3, 2)), want)


@check
def the_gradient_of_alltoall_goes_back_to_where_the_rows_came_from():
    counts = [hvd.rank() + receiver for receiver in range(hvd.size())]
    tensor = torch.ones(sum(counts), 2, requires_grad=True)
    output, received = hvd.alltoall(tensor, counts)
    assert not received.requires_grad
    (output * (hvd.rank() + 1)).sum().backward()
    same(tensor.grad, torch.cat([torch.full((count, 2), receiver + 1.0) for receiver, count in enumerate(counts)]))
    tensor = torch.ones(hvd.size() * 2, 2, requires_grad=True)
    (hvd.alltoall(tensor) * (hvd.rank() + 1)).sum().backward()
    same(tensor.grad, torch.cat([torch.full((2, 2), receiver + 1.0) for receiver in range(hvd.size())]))


@check
def rows_that_alltoall_did_not_send_have_a_gradient_of_zero():
    tensor = torch.ones(hvd.size() + 2, requires_grad=True)
    hvd.alltoall(tensor, torch.ones(hvd.size(), dtype=torch.int64))[0].sum().backward()
    same(tensor.grad, torch.cat([torch.ones(hvd.size()), torch.zeros(2)]))


@check
def the_gradient_of_reducescatter_is_gathered_and_the_given_gradient_stays():
    for op, factor in ((hvd.Average, 1.0), (hvd.Sum, float(hvd.size()))):
        tensor = mine(shape=(5, 2)).requires_grad_()
        output = hvd.reducescatter(tensor, op=op, prescale_factor=2.0, postscale_factor=0.25)
        given = torch.full(output.shape, hvd.rank() + 1.0)
        output.backward(given)
        same(given, torch.full(output.shape, hvd.rank() + 1.0))
        part, rest = divmod(5, hvd.size())
        want = torch.cat([torch.full((part + (rank < rest), 2), rank + 1.0) for rank in range(hvd.size())])
        same(tensor.grad, want * factor * 0.5)
    tensor = mine(shape=(5, 2)).requires_grad_()
    sum(output.sum() for output in hvd.grouped_reducescatter([tensor, tensor * 3], op=hvd.Sum)).backward()
    same(tensor.grad, torch.full((5, 2), 4.0 * hvd.size()))


@check
def gradients_have_gradients():
    tensor = mine(torch.float64, (3,)).requires_grad_()
    first, = torch.autograd.grad((hvd.allreduce(tensor, op=hvd.Sum) ** 2).sum(), tensor, create_graph=True)
    assert first.requires_grad
    second, = torch.autograd.grad(first.sum(), tensor)
    # each step sums over the ranks: the result, its gradient, and the gradient of that
    same(second, torch.full((3,), 2.0 * hvd.size() ** 2, dtype=torch.float64))


@check
def nothing_is_recorded_without_gradients():
    with torch.no_grad():
        assert not hvd.allreduce(mine().requires_grad_()).requires_grad
    assert not hvd.allreduce(mine()).requires_grad
    assert hvd.allgather(mine().requires_grad_()).grad_fn is not None
    assert hvd.allreduce(mine().requires_grad_()).grad_fn is not None


@check
def gradients_stay_in_the_process_set():
    pair = hvd.add_process_set([0, hvd.size() - 1]) if hvd.size() > 2 else hvd.global_process_set
    if pair.included():
        tensor = mine(shape=(4, 2)).requires_grad_()
        for collective in (hvd.allreduce, hvd.allgather, hvd.reducescatter):
            tensor.grad = None
            collective(tensor, process_set=pair).sum().backward()
            same(tensor.grad, torch.ones(4, 2))
        tensor.grad = None
        hvd.alltoall(tensor, process_set=pair).sum().backward()
        same(tensor.grad, torch.ones(4, 2))
        tensor.grad = None
        hvd.broadcast(tensor, hvd.size() - 1, process_set=pair).sum().backward()
        same(tensor.grad, torch.full((4, 2), float(hvd.rank() == hvd.size() - 1)))
    assert hvd.remove_process_set(pair) is (hvd.size() > 2)
