"""Checks of the operations' kernels, by the functions that TensorFlow makes of them."""
import concurrent.futures

import numpy
import tensorflow as tf
from checks import check, only_the_last_refuses, raises

import horovod.numpy
from horovod.tensorflow import library

ops = library.ops
NO_FACTORS = {"prescale_factor": 1.0, "postscale_factor": 1.0}
SUM = {"reduce_op": horovod.numpy.Sum, **NO_FACTORS}
WAYS = ({"blocking": True}, {"blocking": False})  # in the caller's thread, or by the completion thread


def rank():
    return horovod.numpy.rank()


def size():
    return horovod.numpy.size()


def same(tensor, expected):
    """Fails unless a tensor has the shape and the values."""
    assert tuple(tensor.shape) == numpy.shape(expected), (tensor.shape, numpy.shape(expected))
    assert (numpy.asarray(tensor) == numpy.asarray(expected)).all(), (tensor, expected)


@check
def kernels_that_wait_and_those_that_do_not_have_the_same_results():
    mine = tf.fill([2, 3], float(rank() + 1))
    total = numpy.full([2, 3], size() * (size() + 1) / 2)
    for way in WAYS:
        same(ops.horovod_allreduce(mine, tensor_name="kernel", **SUM, **way), total)
        same(ops.horovod_broadcast(mine, root_rank=size() - 1, tensor_name="kernel", **way), numpy.full([2, 3], size()))
        rows = ops.horovod_allgather(tf.fill([rank(), 2], rank()), tensor_name="kernel", **way)
        same(rows, [[one, one] for one in range(size()) for _ in range(one)] or numpy.empty([0, 2]))
        same(ops.horovod_reducescatter(tf.ones([size() + 1, 2]), tensor_name="kernel", **SUM, **way),
             numpy.full([1 + (rank() == 0), 2], size()))
        sent, counts = ops.horovod_alltoall(tf.fill([size()], rank()), [1] * size(), tensor_name="kernel", **way)
        same(sent, range(size()))
        same(counts, [1] * size())
        group = ops.horovod_grouped_allreduce([mine, mine + 1, mine[0]], tensor_name="kernels", **SUM, **way)
        for result, expected in zip(group, (total, total + size(), total[0])):
            same(result, expected)
        for result in ops.horovod_grouped_allgather([mine, mine], tensor_name="kernels", **way):
            same(result, numpy.repeat(numpy.arange(size()) + 1.0, 2)[:, None] * numpy.ones(3))
        for result in ops.horovod_grouped_reducescatter([tf.ones([size(), 1]), tf.ones([size(), 2])], tensor_name="kernels", **SUM, **way):
            same(result, numpy.full([1, result.shape[1]], size()))


@check
def what_others_hold_is_not_written_to():
    held = tf.constant([1.0, 2.0])
    variable = tf.Variable([1.0, 2.0])

    @tf.function
    def reduce():
        read = variable.read_value()
        temporary = read * 3
        results = [library.independent(ops.horovod_allreduce(tensor, tensor_name=f"held.{i}", **SUM))
                   for i, tensor in enumerate((held, read, temporary))]
        return [*results, read + 0]

    for _ in range(3):
        first, second, third, read = reduce()
        same(held, [1, 2])
        same(variable, [1, 2])
        same(read, [1, 2])
        same(first, numpy.array([1, 2]) * size())
        same(second, numpy.array([1, 2]) * size())
        same(third, numpy.array([3, 6]) * size())


@check
def tensors_without_elements_or_dimensions_pass():
    for way in WAYS:
        same(ops.horovod_allreduce(tf.constant(2.0), **SUM, **way), 2.0 * size())
        same(ops.horovod_allreduce(tf.zeros([0, 4]), **SUM, **way), numpy.empty([0, 4]))
        same(ops.horovod_allgather(tf.zeros([0, 4]), **way), numpy.empty([0, 4]))
        same(ops.horovod_allgather(tf.zeros([1, 0]), **way), numpy.empty([size(), 0]))
        same(ops.horovod_broadcast(tf.zeros([0]), root_rank=0, **way), numpy.empty([0]))
        same(ops.horovod_reducescatter(tf.zeros([0, 2]), **SUM, **way), numpy.empty([0, 2]))
        sent, counts = ops.horovod_alltoall(tf.zeros([0, 2]), [0] * size(), **way)
        same(sent, numpy.empty([0, 2]))
        same(counts, [0] * size())


@check
def a_factor_of_zero_makes_zeros_even_of_infinity():
    for way in WAYS:
        for factors in ({"prescale_factor": 0.0, "postscale_factor": 1.0}, {"prescale_factor": 1.0, "postscale_factor": 0.0}):
            infinite = tf.fill([size(), 2], numpy.inf)
            same(ops.horovod_allreduce(infinite, reduce_op=horovod.numpy.Sum, **factors, **way), numpy.zeros([size(), 2]))
            same(ops.horovod_reducescatter(infinite, reduce_op=horovod.numpy.Sum, **factors, **way), numpy.zeros([1, 2]))
            assert numpy.isinf(infinite.numpy()).all()


@check
def equal_parts_are_exchanged_without_splits():
    sent, counts = ops.horovod_alltoall(tf.range(2 * size()) + 100 * rank(), tf.constant([], tf.int32), blocking=True)
    same(sent, [100 * one + 2 * rank() + i for one in range(size()) for i in range(2)])
    same(counts, [2] * size())


@check
def a_tensor_of_too_many_dimensions_fails_on_all_ranks():
    for way in WAYS:
        if size() > 1:
            refused_or_told(lambda n, way=way: ops.horovod_allreduce(tf.zeros([1] * n), tensor_name="deep", **SUM, **way),
                            "at most 16 dimensions", "deep")
        assert "16 dimensions" in raises(tf.errors.InvalidArgumentError, ops.horovod_allreduce, tf.zeros([1] * 17), **SUM, **way)
        same(ops.horovod_allreduce(tf.ones([1] * 16), tensor_name="deep", **SUM, **way), numpy.full([1] * 16, size()))


def refused_or_told(call, words, name):
    """The last rank makes a call with 17 dimensions, which it refuses; the others, with 16, hear of it."""
    last = size() - 1
    if rank() == last:
        text = raises(tf.errors.InvalidArgumentError, call, 17)
    else:
        text = raises(tf.errors.FailedPreconditionError, call, 16)
        assert f"Rank {last} " in text and f" refused tensor {name}" in text, text
    horovod.numpy.barrier()
    assert words in text, text


@check
def splits_that_are_no_vector_fail_on_all_ranks():
    bad = tf.ones([1, size()], tf.int32)
    for way in WAYS:
        if rank() == size() - 1:
            text = raises(tf.errors.InvalidArgumentError, ops.horovod_alltoall, tf.zeros([size()]), bad, tensor_name="split", **way)
        else:
            text = raises(tf.errors.FailedPreconditionError, ops.horovod_alltoall, tf.zeros([size()]), [1] * size(), tensor_name="split",
                          **way)
        assert "splits to be a vector" in text, text
        horovod.numpy.barrier()


@check
def a_single_element_has_no_rows_to_scatter():
    for way in WAYS:
        text = raises(tf.errors.InvalidArgumentError, ops.horovod_reducescatter, tf.constant(1.0), tensor_name="rows", **SUM, **way)
        assert "reducescatter needs a tensor with rows" in text, text
        horovod.numpy.barrier()


@check
def what_a_rank_refuses_in_another_way_reaches_kernels():
    def refuse():
        horovod.numpy.allreduce(numpy.zeros(3, dtype="complex64"), name="other", op=horovod.numpy.Sum)

    if size() == 1:
        raises((ValueError, TypeError), refuse)
        return

    def reduce():
        try:
            ops.horovod_allreduce(tf.zeros([3]), tensor_name="allreduce.other", **SUM)
        except tf.errors.FailedPreconditionError as error:
            raise horovod.numpy.HorovodInternalError(str(error)) from error
    only_the_last_refuses("arrays of the format Zf", "allreduce.other", refuse, reduce)


@check
def errors_have_the_classes_of_their_statuses():
    for way in WAYS:
        if size() > 1:
            text = raises(tf.errors.FailedPreconditionError, ops.horovod_allreduce, tf.ones([rank() + 1]), tensor_name="shape", **SUM, **way)
            assert "Mismatched ALLREDUCE tensor shapes" in text, text
        assert "Process set" in raises(tf.errors.OpError, ops.horovod_allreduce,
                                       tf.ones([1]), process_set_id=4711, **SUM, **way)
        text = raises(tf.errors.InvalidArgumentError, ops.horovod_allreduce, tf.ones([1]), tensor_name="x" * 1024, **SUM, **way)
        assert "at most 1,023 bytes" in text, text
    assert "process set" in raises(tf.errors.InvalidArgumentError, ops.horovod_size, process_set_id=4711)
    same(ops.horovod_process_set_included(process_set_id=4711), -3)  # an error is a result, as in Horovod


@check
def numbers_of_the_job_are_those_of_the_runtime():
    same(ops.horovod_rank(), rank())
    same(ops.horovod_size(), size())
    same(ops.horovod_local_rank(), horovod.numpy.local_rank())
    same(ops.horovod_local_size(), horovod.numpy.local_size())
    same(ops.horovod_process_set_included(), 1)


@check
def members_alone_are_in_a_set():
    if size() == 1:
        return
    only = horovod.numpy.add_process_set([0])
    number = only.process_set_id
    same(ops.horovod_process_set_included(process_set_id=number), int(rank() == 0))
    same(ops.horovod_size(process_set_id=number), 1)
    if rank() == 0:
        same(ops.horovod_allreduce(tf.ones([2]), process_set_id=number, **SUM), [1, 1])
    else:
        raises((tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError), ops.horovod_allreduce, tf.ones([2]),
               process_set_id=number, **SUM)
        raises((tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError), ops.horovod_reducescatter, tf.ones([2]),
               process_set_id=number, **SUM)
    assert horovod.numpy.remove_process_set(only)


@check
def variables_in_place_are_refused_with_the_way_that_works():
    variable = tf.Variable([1.0])
    text = raises(tf.errors.UnimplementedError, ops.horovod_broadcast_inplace_resource, [variable.handle], root_rank=0,
                  variable_names=["v"])
    assert "hvd.broadcast_variables" in text, text


@check
def shapes_of_outputs_are_derived():
    shapes = {}

    @tf.function(input_signature=[tf.TensorSpec([None, 3]), tf.TensorSpec(None)])
    def trace(rows, anything):
        shapes["gather"] = library.independent(ops.horovod_allgather(rows)).shape
        shapes["scatter"] = library.independent(ops.horovod_reducescatter(rows, **SUM)).shape
        sent, counts = library.independent(ops.horovod_alltoall(rows, []))
        shapes["exchange"], shapes["counts"] = sent.shape, counts.shape
        shapes["reduce"] = library.independent(ops.horovod_allreduce(rows, **SUM)).shape
        shapes["group"] = [one.shape for one in library.independent(ops.horovod_grouped_allgather([rows, tf.zeros([2, 5])]))]
        shapes["any"] = library.independent(ops.horovod_allgather(anything)).shape
        shapes["rank"] = ops.horovod_rank().shape
        assert "rank" in raises(ValueError, ops.horovod_allgather, tf.constant(1.0))

    trace.get_concrete_function()
    expected = {"gather": [None, 3], "scatter": [None, 3], "exchange": [None, 3], "counts": [None], "reduce": [None, 3], "rank": []}
    for name, shape in expected.items():
        assert shapes[name].as_list() == shape, (name, shapes[name])
    assert [shape.as_list() for shape in shapes["group"]] == [[None, 3], [None, 5]], shapes
    assert shapes["any"].rank is None


@check
def graphs_that_lack_the_attributes_of_this_library_load():
    graph = tf.Graph()
    with graph.as_default():
        sent = tf.compat.v1.placeholder(tf.float32, [2], name="sent")
        ops.horovod_allreduce(sent, name="scope/reduced", ignore_name_scope=True, **SUM)
    saved = graph.as_graph_def()
    for node in saved.node:
        for name in ("tensor_name", "blocking"):
            node.attr.pop(name, None)
    assert all("blocking" not in node.attr for node in saved.node)
    loaded = tf.Graph()
    with loaded.as_default():
        tf.import_graph_def(saved, name=f"of_rank_{rank()}")  # the scope does not count
        with tf.compat.v1.Session() as session:
            prefix = f"of_rank_{rank()}"
            result = session.run(f"{prefix}/scope/reduced:0", {f"{prefix}/sent:0": [1.0, rank()]})
    same(result, [size(), size() * (size() - 1) / 2])


@check
def threads_call_kernels_at_once():
    def reduce(thread):
        for step in range(20):
            for way in WAYS:
                result = ops.horovod_allreduce(tf.fill([100], float(thread + step)), tensor_name=f"thread.{thread}", **SUM, **way)
                same(result, numpy.full([100], float(thread + step) * size()))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(reduce, thread) for thread in range(4)]:
            done.result()


@check
def graphs_go_on_while_others_of_their_collectives_are_missing():
    """Each rank's first collective ends only after those that a rank submits because of the results of others."""
    @tf.function
    def chain(value):
        names = [f"chain.{i}" for i in range(16)]
        results = {}
        for name in names if rank() % 2 else reversed(names):
            once = library.independent(ops.horovod_allreduce(value, tensor_name=name, **SUM))
            results[name] = library.independent(ops.horovod_allreduce(once + 1, tensor_name=f"{name}.again", **SUM))
        return [results[name] for name in names]

    for _ in range(5):
        for result in chain(tf.ones([10])):
            same(result, numpy.full([10], (size() + 1) * size()))
