"""Checks of the collectives, eagerly."""
import numpy
import tensorflow as tf
from checks import check, needs_adasum, only_the_last_refuses, raises
from tensors import ALL, FLOATS, LAST, NUMBERS, close, mine, numbers, of_all, of_rank, own_set, remove, same, total

import horovod.numpy
import horovod.tensorflow as hvd
from horovod.common.exceptions import HorovodInternalError
from horovod.tensorflow import mpi_ops


@check
def reductions_are_new_tensors_of_every_type():
    for dtype in NUMBERS:
        sent = mine(dtype)
        same(hvd.allreduce(sent, op=hvd.Sum, name=f"sum.{dtype.name}"), total(dtype), dtype)
        same(sent, mine(dtype))
        same(hvd.allreduce(mine(dtype), op=hvd.Max), of_all(dtype).max(0), dtype)
    same(hvd.allreduce(mine(tf.bool), op=hvd.Min), mine(tf.bool), tf.bool)
    same(hvd.allreduce(mine(), op=hvd.Min), of_all().min(0))
    same(hvd.allreduce(mine(), op=hvd.Product), of_all().prod(0))
    same(hvd.allreduce(mine()), of_all().mean(0), tf.float32)
    same(hvd.allreduce(mine(), average=False), total())
    same(hvd.allreduce(mine(), average=True, device_dense=LAST, device_sparse=LAST, ignore_name_scope=True), of_all().mean(0))
    close(hvd.allreduce(mine(), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0), 2 * total())
    same(hvd.allreduce(mine(), op=hvd.Sum, prescale_factor=0.0), 0 * total())
    same(hvd.allreduce(mine(), op=hvd.Sum, postscale_factor=0.0), 0 * total())


@check
def numbers_arrays_variables_scalars_and_nothing_are_reduced_too():
    same(hvd.allreduce(3.0, op=hvd.Sum), 3.0 * hvd.size())
    same(hvd.allreduce([1.0, 2.0], op=hvd.Sum), numpy.array([1.0, 2.0]) * hvd.size())
    same(hvd.allreduce(mine().numpy(), op=hvd.Sum), total())
    same(hvd.allreduce(tf.Variable(mine()), op=hvd.Sum), total())
    same(hvd.allreduce(tf.zeros([0, 3]), op=hvd.Sum), numpy.zeros([0, 3]))
    same(hvd.grouped_allreduce([1.0, tf.Variable(mine()), mine().numpy(), tf.zeros([0])], op=hvd.Sum)[1], total())
    same(hvd.allgather(numpy.ones([1, 2])), numpy.ones([hvd.size(), 2]))
    same(hvd.broadcast(mine(shape=()), 0), of_rank(0, shape=()))
    layer = tf.keras.layers.Dense(2, kernel_initializer="ones", use_bias=False)
    layer.build((None, 3))
    weight = layer.trainable_weights[0]  # a variable of Keras
    for compression in (hvd.Compression.none, hvd.Compression.fp16):
        same(hvd.allreduce(weight, op=hvd.Sum, compression=compression), numpy.full([3, 2], hvd.size()))
        same(hvd.grouped_allreduce([weight], op=hvd.Sum, compression=compression)[0], numpy.full([3, 2], hvd.size()))
    same(hvd.allgather(weight), numpy.ones([3 * hvd.size(), 2]))
    same(hvd.broadcast(weight, 0), numpy.ones([3, 2]))


@check
def they_are_sent_in_half_precision():
    for compression, tolerance in ((hvd.Compression.fp16, 1e-2), (hvd.Compression.bf16, 1e-1)):
        for dtype in FLOATS:
            result = hvd.allreduce(mine(dtype), op=hvd.Sum, compression=compression)
            assert result.dtype == dtype
            close(result, total(dtype), tolerance * hvd.size())
        third = tf.constant(1 / 3, tf.float64)
        assert abs(float(hvd.allreduce(third, compression=compression)) - 1 / 3) > 1e-6, "nothing was rounded"
        same(hvd.allreduce(mine(tf.int32), op=hvd.Sum, compression=compression), total(tf.int32), tf.int32)
        results = hvd.grouped_allreduce([mine(), mine(tf.int64)], op=hvd.Sum, compression=compression)
        close(results[0], total(), tolerance * hvd.size())
        same(results[1], total(tf.int64), tf.int64)
        rows = hvd.reducescatter(mine(shape=(hvd.size(), 2)), compression=compression, op=hvd.Sum)
        close(rows, total(shape=(hvd.size(), 2))[hvd.rank():hvd.rank() + 1], tolerance * hvd.size())
        rows, = hvd.grouped_reducescatter([mine(shape=(hvd.size(), 2))], compression=compression, op=hvd.Sum)
        close(rows, total(shape=(hvd.size(), 2))[hvd.rank():hvd.rank() + 1], tolerance * hvd.size())


@check
def compressors_convert_floating_point_alone():
    from horovod.tensorflow.compression import Compressor, FP16Compressor, NoneCompressor  # pylint: disable=import-outside-toplevel
    tensor = mine(tf.float64)
    assert NoneCompressor.compress(tensor) == (tensor, None) and NoneCompressor.decompress(tensor, "any") is tensor
    sent, own = FP16Compressor.compress(tensor)
    assert sent.dtype == tf.float16 and FP16Compressor.decompress(sent, own).dtype == tf.float64
    whole = mine(tf.int32)
    sent, own = FP16Compressor.compress(whole)
    assert sent is whole and FP16Compressor.decompress(sent, own) is whole
    assert raises(NotImplementedError, Compressor.compress, tensor) == ""
    assert raises(NotImplementedError, Compressor.decompress, tensor, None) == ""


@check
def groups_complete_together_whatever_their_types():
    tensors = [mine(), mine(tf.int64, (4,)), mine(tf.float32, (1,)), mine(tf.bfloat16)]
    sums = [total(), total(tf.int64, (4,)), total(tf.float32, (1,)), total(tf.bfloat16)]
    for name in ("group", None, "group"):
        results = hvd.grouped_allreduce(tensors, op=hvd.Sum, name=name)
        assert isinstance(results, list)
        for result, expected, sent in zip(results, sums, tensors):
            same(result, expected, sent.dtype)
    for count in (1, 3, 300):
        for result in hvd.grouped_allreduce([mine()] * count, op=hvd.Sum):
            same(result, total())
    result, = hvd.grouped_allreduce([mine()], average=False, prescale_factor=2.0, postscale_factor=2.0, device_dense=LAST,
                                    device_sparse=LAST, ignore_name_scope=True)
    same(result, 4 * total())
    same(hvd.grouped_allreduce(one for one in [mine()])[0], of_all().mean(0))
    assert hvd.grouped_allreduce([]) == [] and hvd.grouped_allreduce(()) == () and hvd.grouped_reducescatter([]) == []


@check
def rows_are_gathered_of_every_type_and_of_ranks_without_any():
    for dtype in ALL:
        same(hvd.allgather(mine(dtype, (hvd.rank() + 1, 2)), name=f"rows.{dtype.name}", ignore_name_scope=True),
             numpy.concatenate([numbers(of_rank(rank, dtype, (rank + 1, 2))) for rank in range(hvd.size())]), dtype)
    same(hvd.allgather(mine(shape=(hvd.rank(), 2))),
         numpy.concatenate([numbers(of_rank(rank, shape=(rank, 2))) for rank in range(hvd.size())]))
    same(hvd.allgather(tf.zeros([0, 2])), numpy.zeros([0, 2]))
    first, second = hvd.grouped_allgather([mine(), mine(tf.int32, (hvd.rank(),))], name="gathered", ignore_name_scope=True)
    same(first, numpy.concatenate(list(of_all())))
    same(second, numpy.concatenate([numbers(of_rank(rank, shape=(rank,))) for rank in range(hvd.size())]), tf.int32)


@check
def everyone_gets_the_values_of_any_root():
    for root in range(hvd.size()):
        for dtype in ALL:
            sent = mine(dtype)
            same(hvd.broadcast(sent, root, name=f"root.{dtype.name}", ignore_name_scope=True), of_rank(root, dtype), dtype)
            same(sent, mine(dtype))


@check
def variables_get_the_values_of_the_root():
    root = hvd.size() - 1
    for inplace in (False, True):
        variables = [tf.Variable(mine(dtype)) for dtype in ALL]
        assert hvd.broadcast_variables(variables, root_rank=root, inplace=inplace) is None
        for variable, dtype in zip(variables, ALL):
            same(variable.read_value(), of_rank(root, dtype))
    variables = [tf.Variable(mine()), tf.Variable(mine(tf.int64, (1,)))]
    for result, variable in zip(hvd.broadcast_(variables, root, name="in place"), variables):
        same(result, numbers(variable))
    same(variables[0].read_value(), of_rank(root))
    hvd.broadcast_variables([], 0)
    assert "takes variables, not EagerTensor" in raises(ValueError, hvd.broadcast_variables, [mine()], 0)


@check
def rows_are_exchanged_with_and_without_splits():
    size = hvd.size()
    received = hvd.alltoall(mine(shape=(size, 2)), name="equal", ignore_name_scope=True)
    same(received, of_all(shape=(size, 2))[:, hvd.rank()])
    splits = [rank + 1 for rank in range(size)]  # so many rows to each
    begin = sum(splits[:hvd.rank()])
    expected = numpy.concatenate(list(of_all(shape=(sum(splits), 2))[:, begin:begin + hvd.rank() + 1]))
    for dtype in ALL:
        rows, counts = hvd.alltoall(mine(dtype, (sum(splits), 2)), splits)
        same(rows, expected if dtype != tf.bool else numpy.ones_like(expected), dtype)
        same(counts, [hvd.rank() + 1] * size, tf.int32)
    for given in (tf.constant(splits), tf.constant(splits, tf.int64), numpy.array(splits)):
        same(hvd.alltoall(mine(shape=(sum(splits), 2)), given)[0], expected)
    rows, counts = hvd.alltoall(mine(shape=(0, 2)), [0] * size)
    same(rows, numpy.zeros([0, 2]))
    assert "integers" in raises(ValueError, hvd.alltoall, mine(shape=(size, 2)), tf.ones((size,)), name="floats")


@check
def rows_are_reduced_and_scattered():
    size = hvd.size()
    part = slice(2 * hvd.rank(), 2 * hvd.rank() + 2)
    shape = (2 * size, 3)
    for dtype in NUMBERS:
        same(hvd.reducescatter(mine(dtype, shape), op=hvd.Sum, name=f"scattered.{dtype.name}", device_dense=LAST, ignore_name_scope=True),
             total(dtype, shape)[part], dtype)
    same(hvd.reducescatter(mine(shape=shape)), of_all(shape=shape).mean(0)[part])
    close(hvd.reducescatter(mine(shape=shape), op=hvd.Sum, prescale_factor=2.0, postscale_factor=2.0), 4 * total(shape=shape)[part])
    results = hvd.grouped_reducescatter([mine(shape=shape), mine(tf.float64, shape)], op=hvd.Sum, device_dense=LAST, prescale_factor=2.0,
                                        postscale_factor=2.0)
    close(results[0], 4 * total(shape=shape)[part])
    close(results[1], 4 * total(shape=shape)[part])
    uneven = hvd.reducescatter(mine(shape=(size + 1, 2)), op=hvd.Sum)  # the first rank gets one row more
    same(uneven, total(shape=(size + 1, 2))[0:2] if hvd.rank() == 0 else total(shape=(size + 1, 2))[hvd.rank() + 1:hvd.rank() + 2])


@check
def a_set_of_ranks_reduces_among_itself():
    sets, own = own_set()
    same(hvd.allreduce(mine(), process_set=own), mine())
    same(hvd.allgather(mine(), process_set=own), mine())
    same(hvd.reducescatter(mine(), process_set=own), mine())
    same(hvd.broadcast(mine(), hvd.rank(), process_set=own), mine())
    for function in (hvd.grouped_allreduce, hvd.grouped_allgather, hvd.grouped_reducescatter):
        same(function([mine()], process_set=own)[0], mine())
    rows, counts = hvd.alltoall(mine(), [2], process_set=own)
    same(rows, mine())
    same(counts, [2])
    variable = tf.Variable(mine())
    hvd.broadcast_variables([variable], hvd.rank(), process_set=own)
    hvd.broadcast_([variable], hvd.rank(), process_set=own)
    same(variable.read_value(), mine())
    assert hvd.broadcast_object(hvd.rank(), hvd.rank(), process_set=own) == hvd.rank()
    assert hvd.broadcast_object_fn(hvd.rank(), process_set=own)(hvd.rank()) == hvd.rank()
    assert hvd.allgather_object(hvd.rank(), process_set=own) == [hvd.rank()]
    assert int(hvd.size_op(process_set_id=own.process_set_id)) == 1
    if sets:
        other = sets[(hvd.rank() + 1) % len(sets)]
        assert int(hvd.process_set_included_op(other.process_set_id)) == 0
        assert hvd.mpi_ops._basics._get_process_set_ids_and_ranks()[other.process_set_id] == other.ranks
    assert int(hvd.process_set_included_op(own.process_set_id, name="included")) == 1
    remove(sets)


@check
def a_process_set_has_to_be_registered():
    unknown = hvd.ProcessSet([0])
    for function in (hvd.allreduce, hvd.allgather, hvd.reducescatter, hvd.alltoall):
        assert "is not registered" in raises(ValueError, function, mine(), process_set=unknown)
    for function in (hvd.grouped_allreduce, hvd.grouped_allgather, hvd.grouped_reducescatter):
        assert "is not registered" in raises(ValueError, function, [mine()], process_set=unknown)
    assert "is not registered" in raises(ValueError, hvd.broadcast, mine(), 0, process_set=unknown)
    for function in (hvd.broadcast_, hvd.broadcast_variables):
        assert "is not registered" in raises(ValueError, function, [tf.Variable(mine())], 0, process_set=unknown)
    for function in (hvd.broadcast_object, hvd.allgather_object, hvd.broadcast_object_fn(process_set=unknown)):
        assert "is not registered" in raises(ValueError, lambda function=function: function(
            1, **({} if "of_root" in str(function) else {"process_set": unknown})))
    assert "is not registered" in raises(ValueError, hvd.remove_process_set, unknown)
    if hvd.size() == 1:
        raises(ValueError, hvd.add_process_set, [0])  # the global set has these ranks
    assert "no process set" in raises(tf.errors.InvalidArgumentError, hvd.size_op, process_set_id=12345)
    for number in (12345, -1, 1 << 40):
        assert int(hvd.process_set_included_op(number)) == -3  # HOROVOD_PROCESS_SET_ERROR_UNKNOWN_SET


@check
def a_set_can_be_all_but_one_rank():
    others = hvd.ProcessSet(range(max(1, hvd.size() - 1)))
    if hvd.size() == 1:
        others = hvd.global_process_set
    else:
        hvd.add_process_set(others)
    if others.included():
        same(hvd.allreduce(mine(), op=hvd.Sum, process_set=others), of_all()[:others.size()].sum(0))
        same(hvd.allreduce(mine(), process_set=others), of_all()[:others.size()].mean(0))
    hvd.allreduce(mine(), name="meanwhile")
    if hvd.size() > 1:
        hvd.remove_process_set(others)


@check
def average_and_op_exclude_each_other():
    choose = hvd.handle_average_backwards_compatibility
    assert (choose(None, None), choose(hvd.Max, None), choose(None, True), choose(None, False)) == (
        hvd.Average, hvd.Max, hvd.Average, hvd.Sum)
    for function, tensors in ((hvd.allreduce, mine()), (hvd.grouped_allreduce, [mine()])):
        assert "supersedes average" in raises(ValueError, function, tensors, average=True, op=hvd.Sum)


@check
def adasum_of_equal_tensors_is_that_tensor():
    needs_adasum()
    close(hvd.allreduce(tf.ones([4]), op=hvd.Adasum), numpy.ones(4))
    for result in hvd.grouped_allreduce([tf.ones([4]), tf.ones([2], tf.float64)], op=hvd.Adasum):
        close(result, numpy.ones(result.shape))
    unit = tf.one_hot(hvd.rank(), hvd.size())
    close(hvd.allreduce(unit, op=hvd.Adasum), numpy.ones(hvd.size()))


@check
def it_says_how_many_ranks_adasum_needs():
    from horovod.tensorflow import reductions  # pylint: disable=import-outside-toplevel

    class Three:
        @staticmethod
        def size():
            return 3

    assert "not 3" in raises(NotImplementedError, reductions.check_adasum, Three)
    assert [n for n in range(9) if hvd.check_num_rank_power_of_2(n)] == [1, 2, 4, 8]


@check
def adasum_works_in_a_process_set():
    """Vectors that are orthogonal add up."""
    if hvd.size() < 3:
        return
    ends = hvd.add_process_set([0, hvd.size() - 1])
    if ends.included():
        own = tf.one_hot(hvd.rank(), hvd.size())
        for call in (hvd.allreduce, tf.function(hvd.allreduce), tf.function(hvd.allreduce, jit_compile=True)):
            close(call(own, op=hvd.Adasum, process_set=ends), [1] + [0] * (hvd.size() - 2) + [1])
    assert hvd.remove_process_set(ends)


@check
def what_one_rank_refuses_the_others_get_with_its_reason():
    def refuses(words, name, bad, good, is_mismatch=False):
        """only_the_last_refuses for exceptions of TensorFlow on the other ranks."""
        def heard():
            try:
                good()
            except tf.errors.OpError as error:
                assert ("Mismatched" in str(error)) == is_mismatch, error
                raise horovod.numpy.HorovodInternalError(str(error)) from error

        only_the_last_refuses(words, name, bad, heard if hvd.size() > 1 else good)

    complex_one = tf.complex(mine(), mine())
    for bad, words in ((object(), "a tf.Tensor is needed"), (complex_one, "Tensor type complex64 is not supported"),
                       (tf.constant("words"), "hvd.broadcast_object()")):
        refuses(words, "allreduce.x", lambda bad=bad: hvd.allreduce(bad, name="x"), lambda: hvd.allreduce(mine(), name="x"))
        refuses(words, "broadcast.x", lambda bad=bad: hvd.broadcast(bad, 0, "x"), lambda: hvd.broadcast(mine(), 0, "x"))
        refuses(words, "allgather.x", lambda bad=bad: hvd.allgather(bad, "x"), lambda: hvd.allgather(mine(), "x"))
        refuses(words, "alltoall.x", lambda bad=bad: hvd.alltoall(bad, name="x"),
                lambda: hvd.alltoall(mine(shape=(hvd.size(), 2)), name="x"))
        refuses(words, "reducescatter.x", lambda bad=bad: hvd.reducescatter(bad, name="x"), lambda: hvd.reducescatter(mine(), name="x"))
        refuses(f"tensor 2 of 2: Tensor type" if hvd.size() > 1 and hvd.rank() < hvd.size() - 1 else words, "grouped_allreduce.x_1of2",
                lambda bad=bad: hvd.grouped_allreduce([mine(), bad], name="x"), lambda: hvd.grouped_allreduce([mine(), mine()], name="x"))
        refuses(words, "grouped_allreduce.x_1of0", lambda bad=bad: hvd.grouped_allreduce([mine(), mine(tf.int32), bad], name="x"),
                lambda: hvd.grouped_allreduce([mine()] * 3, name="x"), is_mismatch=True)
    refuses("a tf.Tensor is needed", "allreduce.y", lambda: hvd.allreduce(object(), name="y", compression=hvd.Compression.fp16),
            lambda: hvd.allreduce(mine(), name="y"))
    refuses("supersedes average", "allreduce.z", lambda: hvd.allreduce(mine(), name="z", average=True, op=hvd.Sum),
            lambda: hvd.allreduce(mine(), name="z"))
    refuses("integers", "alltoall.z", lambda: hvd.alltoall(mine(), tf.ones([hvd.size()]), name="z"),
            lambda: hvd.alltoall(mine(shape=(hvd.size(), 2)), name="z"))
    refuses("takes variables", "broadcast.broadcast_variables.0", lambda: hvd.broadcast_variables([1], 0),
            lambda: hvd.broadcast_variables([tf.Variable(1.0)], 0))
    refuses("one kind", "broadcast.mixed.0", lambda: hvd.broadcast_([tf.Variable(1.0), 3.0], 0, name="mixed"),
            lambda: hvd.broadcast_([tf.Variable(1.0)], 0, name="mixed"))
    refuses("Expected float", "grouped_allreduce.f_1of2", lambda: hvd.grouped_allreduce([mine()] * 2, name="f", prescale_factor="1"),
            lambda: hvd.grouped_allreduce([mine()] * 2, name="f"))
    refuses("group", "grouped_allgather.g", lambda: hvd.grouped_allgather([], name="g"), lambda: hvd.grouped_allgather([mine()], name="g"),
            is_mismatch=True)
    refuses("A group is a sequence", "grouped_allgather.h", lambda: hvd.grouped_allgather(mine(), name="h"),
            lambda: hvd.grouped_allgather([mine()], name="h"), is_mismatch=True)


@check
def ranks_that_differ_get_the_runtimes_error():
    if hvd.size() == 1:
        return
    last = hvd.rank() == hvd.size() - 1
    kind = tf.errors.FailedPreconditionError
    text = raises(kind, hvd.allreduce, mine(shape=(hvd.rank() + 1,)), name="shapes")
    assert "Mismatched ALLREDUCE tensor shapes" in text and "allreduce.shapes" in text, text
    text = raises(kind, hvd.allreduce, mine(tf.float64 if last else tf.float32), name="types")
    assert "Mismatched data types" in text, text
    text = raises(kind, hvd.allreduce, mine(), op=hvd.Sum if last else hvd.Max, name="ops")
    assert "Mismatched reduction operation" in text, text
    text = raises(kind, hvd.broadcast, mine(), int(last), name="roots")
    assert "root" in text, text
    text = raises(kind, hvd.allgather, mine(shape=(2, 1 + hvd.rank())), name="rows")
    assert "Mismatched" in text, text
    text = raises(kind, hvd.grouped_allreduce, [mine()] * (2 + last), name="numbers")
    assert "Mismatched number of tensors in group" in text, text
    text = raises((kind, tf.errors.InvalidArgumentError), hvd.reducescatter, mine(), op=hvd.Max, name="max")
    assert "only supports AVERAGE and SUM" in text, text
    text = raises((kind, tf.errors.InvalidArgumentError), hvd.broadcast, mine(), hvd.size(), name="no root")
    assert "root" in text, text
    hvd.allreduce(mine(), name="shapes")  # the names are free again


@check
def objects_go_from_one_to_all_and_from_all_to_all():
    for root in range(hvd.size()):
        assert hvd.broadcast_object({"rank": hvd.rank()}, root_rank=root, name="object", session="ignored") == {"rank": root}
        assert hvd.broadcast_object_fn(root_rank=root, session="ignored", name="function")([hvd.rank()]) == [root]
    for function in (hvd.broadcast_object, hvd.broadcast_object_fn(root_rank=hvd.size())):
        options = {"root_rank": hvd.size()} if function is hvd.broadcast_object else {}
        assert "root" in raises((ValueError, HorovodInternalError), function, 1, **options)
    assert hvd.allgather_object("x" * hvd.rank(), name="objects", session="ignored") == ["x" * rank for rank in range(hvd.size())]


@check
def ranks_and_sizes_are_operations_too():
    for function, expected in ((hvd.rank_op, hvd.rank()), (hvd.size_op, hvd.size()), (hvd.local_rank_op, hvd.local_rank()),
                               (hvd.local_size_op, hvd.local_size()), (hvd.process_set_included_op, 1)):
        same(function(name="asked"), expected, tf.int32)
        same(tf.function(lambda function=function: function(name="asked"))(), expected, tf.int32)


@check
def who_joins_takes_part_with_zeros():
    if hvd.rank() == 0:
        last = hvd.join()
    else:
        same(hvd.allreduce(mine(), op=hvd.Sum, name="without rank 0"), total() - numbers(of_rank(0)))
        same(hvd.grouped_allreduce([mine(), mine()], op=hvd.Sum, name="group without rank 0")[1], total() - numbers(of_rank(0)))
        last = hvd.join()
    assert 0 <= int(last) < hvd.size() and last.dtype == tf.int32
    assert len(set(hvd.allgather_object(int(last)))) == 1


@check
def many_threads_call_at_once():
    import threading  # pylint: disable=import-outside-toplevel
    wrong = []

    def work(number):
        for step in range(20):
            result = hvd.allreduce(mine() * number, op=hvd.Sum, name=f"thread.{number}")
            if (numbers(result) != total() * number).any():
                wrong.append((number, step, result))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


@check
def names_of_calls_do_not_change_the_result():
    """Names that are no names of nodes, and long ones."""
    for name in ("x:0", "a/b", "", "_x", "Ä", "x" * 900):
        same(hvd.allreduce(mine(), op=hvd.Sum, name=name), total())
        same(tf.function(lambda name=name: hvd.allreduce(mine(), op=hvd.Sum, name=name or None))(), total())
    assert mpi_ops._node_name("_x:0") == "H_x_0"
