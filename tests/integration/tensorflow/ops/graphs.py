"""Checks of the collectives in tf.function and in graphs of TensorFlow 1."""
import threading

import numpy
import tensorflow as tf
from checks import check, needs_adasum, raises
from tensors import ALL, LAST, close, mine, numbers, of_all, of_rank, own_set, remove, same, slices, total

import horovod.tensorflow as hvd
from horovod.tensorflow import mpi_ops


@check
def a_function_has_every_collective():
    size = hvd.size()

    @tf.function
    def everything(x, rows):
        return {"allreduce": hvd.allreduce(x, op=hvd.Sum), "average": hvd.allreduce(x, name="mean", ignore_name_scope=True),
                "grouped": hvd.grouped_allreduce([x, tf.cast(x, tf.int32)], op=hvd.Sum, device_dense=LAST),
                "allgather": hvd.allgather(rows), "gathered": hvd.grouped_allgather([rows, x], ignore_name_scope=True),
                "broadcast": hvd.broadcast(x, size - 1), "alltoall": hvd.alltoall(tf.range(size) + size * hvd.rank()),
                "splits": hvd.alltoall(x, [2] + [0] * (size - 1)), "scattered": hvd.reducescatter(tf.ones([size, 2]), op=hvd.Sum),
                "both": hvd.grouped_reducescatter([tf.ones([size, 2])] * 2, op=hvd.Sum), "max": hvd.allreduce(x, op=hvd.Max)}

    for _ in range(3):
        got = everything(mine(), mine(tf.int32, (hvd.rank() + 1, 2)))
        same(got["allreduce"], total())
        same(got["average"], of_all().mean(0))
        same(got["grouped"][0], total())
        same(got["grouped"][1], total(), tf.int32)
        rows = numpy.concatenate([numbers(of_rank(rank, shape=(rank + 1, 2))) for rank in range(size)])
        same(got["allgather"], rows, tf.int32)
        same(got["gathered"][0], rows, tf.int32)
        same(got["gathered"][1], numpy.concatenate(list(of_all())))
        same(got["broadcast"], of_rank(size - 1))
        same(got["alltoall"], numpy.arange(size) * size + hvd.rank())
        same(got["splits"][1], [2 * (hvd.rank() == 0)] * size)
        same(got["scattered"], numpy.ones([1, 2]) * size)
        same(got["both"][1], numpy.ones([1, 2]) * size)
        same(got["max"], of_all().max(0))


@check
def shapes_are_known_as_far_as_they_can_be():
    shapes = {}

    @tf.function
    def look(x):
        shapes.update(allreduce=hvd.allreduce(x).shape, group=hvd.grouped_allreduce([x])[0].shape, broadcast=hvd.broadcast(x, 0).shape,
                      allgather=hvd.allgather(x).shape, scatter=hvd.reducescatter(x).shape, alltoall=hvd.alltoall(x).shape,
                      slices=hvd.allreduce(slices([1])).values.shape)

    look(mine(shape=(hvd.size(), 3)))
    assert all(shapes[name].as_list() == [hvd.size(), 3] for name in ("allreduce", "group", "broadcast")), shapes
    assert all(shapes[name].as_list() == [None, 3] for name in ("allgather", "scatter", "alltoall")), shapes
    assert shapes["slices"].as_list() == [None, 2], shapes


@check
def every_type_passes_through_a_graph():
    @tf.function
    def everywhere(x):
        return hvd.broadcast(x, 0), hvd.allgather(x), hvd.allreduce(x, op=hvd.Max)

    for dtype in ALL:
        root, rows, largest = everywhere(mine(dtype))
        same(root, of_rank(0, dtype), dtype)
        same(rows, numpy.concatenate(list(of_all(dtype))), dtype)
        same(largest, of_all(dtype).max(0), dtype)


@check
def the_order_of_collectives_in_a_function_may_differ():
    """64 collectives, in the opposite order on every second rank, of which this process runs few at once."""
    order = range(64) if hvd.rank() % 2 else reversed(range(64))

    @tf.function
    def many(x):
        results = {}
        for i in order:
            results[i] = hvd.allreduce(x + i, op=hvd.Sum, name=f"one_of_64.{i}")
        return [results[i] for i in range(64)]

    for _ in range(10):
        for i, result in enumerate(many(mine())):
            same(result, total() + i * hvd.size())


@check
def equal_collectives_and_unused_ones_run():
    """No rank waits for another that has left out what its program does not use, or what it has twice."""
    @tf.function
    def step(x):
        first, second = (hvd.allreduce(x, op=hvd.Sum, name=f"equal.{place}") for place in range(2))
        unused = hvd.allreduce(x * 2, name="unused")
        hvd.allgather(x, name="unused too")
        hvd.grouped_allreduce([x, x], name="unused group")
        if hvd.rank() == 0:
            return first + second + 0 * unused
        return first

    for _ in range(3):
        same(step(mine()), total() * (2 if hvd.rank() == 0 else 1))


@check
def functions_run_in_two_threads_at_once():
    """Both have tensors of the same names, and the ranks need not call them in the same order."""
    wrong = []

    @tf.function
    def first(x):
        return hvd.allreduce(x, op=hvd.Sum), hvd.grouped_allreduce([x, x + 1], op=hvd.Sum)

    @tf.function
    def second(x):
        return hvd.allreduce(x, op=hvd.Sum), hvd.grouped_allreduce([x, x + 1], op=hvd.Sum)

    def work(function, factor):
        for _ in range(20):
            one, group = function(mine() * factor)
            if (numbers(one) != total() * factor).any() or (numbers(group[1]) != total() * factor + hvd.size()).any():
                wrong.append((function, one, group))

    threads = [threading.Thread(target=work, args=pair) for pair in ((first, 1.0), (second, 3.0))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


@check
def collectives_run_in_loops_and_branches():
    @tf.function
    def loop(x):
        for _ in tf.range(5):
            x = hvd.allreduce(x) + 1
        return tf.cond(tf.reduce_sum(x) > 0, lambda: hvd.allreduce(x, op=hvd.Sum), lambda: x)

    close(loop(mine()), (of_all().mean(0) + 5) * hvd.size())


@check
def names_come_from_nodes_scopes_and_functions():
    names = []

    @tf.function
    def named(x):
        with tf.name_scope("scope"):
            names.extend([hvd.allreduce(x, name="given").op.name, hvd.allreduce(x, name="given").op.name, hvd.allreduce(x).op.name,
                          hvd.grouped_allreduce([x, x], name="some")[0].op.name, hvd.broadcast(x, 0).op.name])
        return x

    named(mine())
    assert names[:2] == ["scope/given", "scope/given_1"] and names[3] == "scope/some", names
    assert names[2] == "scope/HorovodAllreduce_named_x_0" and names[4] == "scope/HorovodBroadcast_named_x_0", names

    @tf.function
    def scoped(x):
        with tf.name_scope(f"of_rank_{hvd.rank()}"):
            return hvd.allreduce(x, op=hvd.Sum, name="below", ignore_name_scope=True)

    same(scoped(mine()), total())
    if hvd.size() > 1:
        @tf.function
        def mismatched(x):
            return hvd.allreduce(tf.ones([hvd.rank() + 1]) + x, name="lengths")

        text = raises(tf.errors.FailedPreconditionError, mismatched, 1.0)
        assert "Mismatched ALLREDUCE tensor shapes" in text and "tensor lengths:" in text, text


@check
def what_a_rank_refuses_while_it_traces_the_others_get():
    if hvd.size() == 1:
        return
    last = hvd.rank() == hvd.size() - 1

    @tf.function
    def refused(x):
        return hvd.allreduce(x, name="traced", op=hvd.Sum)

    if last:
        assert "complex64 is not supported" in raises(ValueError, refused, tf.complex(1.0, 1.0))
    else:
        text = raises(tf.errors.FailedPreconditionError, refused, 1.0)
        assert f"Rank {hvd.size() - 1} " in text and "complex64" in text, text
    assert float(refused(1.0)) == hvd.size()

    @tf.function
    def refused_group(x):
        return hvd.grouped_allreduce([tf.constant(1.0), x], name="traced")

    @tf.function
    def empty_group(x):
        return hvd.grouped_allgather([x] if tf.is_tensor(x) else [], name="gathered")

    for function, bad, words in ((refused_group, tf.complex(1.0, 1.0), "complex64"), (empty_group, None, "at least one")):
        if last:
            assert words in raises(ValueError, function, bad)
        else:
            text = raises(tf.errors.FailedPreconditionError, function, tf.ones([1]) if bad is None else 1.0)
            assert words in text and ("Mismatched number" in text) == (bad is None), text


@check
def variables_are_broadcast_in_a_function():
    variables = [tf.Variable(mine()), tf.Variable(mine(tf.int64))]

    @tf.function
    def share():
        hvd.broadcast_variables(variables, hvd.size() - 1)

    share()
    for variable in variables:
        same(variable.read_value(), of_rank(hvd.size() - 1))


@check
def a_set_of_ranks_reduces_in_a_graph():
    sets, own = own_set()

    @tf.function
    def alone(x):
        return (hvd.allreduce(x, process_set=own), hvd.grouped_allreduce([x], process_set=own)[0], hvd.allgather(x, process_set=own),
                hvd.broadcast(x, hvd.rank(), process_set=own), hvd.alltoall(x, process_set=own), hvd.reducescatter(x, process_set=own),
                hvd.allreduce(slices([hvd.rank()]), process_set=own).values)

    *results, values = alone(mine())
    for result in results:
        same(result, mine())
    same(values, numpy.ones([1, 2]))
    assert "is not registered" in raises(ValueError, tf.function(lambda: hvd.allreduce(1.0, process_set=hvd.ProcessSet([0]))))
    remove(sets)


@check
def who_joins_in_a_function_takes_part_with_zeros():
    @tf.function
    def leave():
        return hvd.join()

    @tf.function
    def go_on(x):
        return hvd.allreduce(x, op=hvd.Sum, name="rank 0 has joined")

    if hvd.rank():
        same(go_on(mine()), total() - numbers(of_rank(0)))
    assert 0 <= int(leave()) < hvd.size()


@check
def adasum_runs_in_a_function():
    needs_adasum()
    close(tf.function(lambda x: hvd.allreduce(x, op=hvd.Adasum))(tf.one_hot(hvd.rank(), hvd.size())), numpy.ones(hvd.size()))


@check
def a_saved_function_reduces_when_it_is_loaded():
    import os  # pylint: disable=import-outside-toplevel
    import pathlib  # pylint: disable=import-outside-toplevel

    class Module(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([2, 3])])
        def reduce(self, x):
            return hvd.allreduce(x, op=hvd.Sum), hvd.grouped_allreduce([x, x], op=hvd.Sum)

    path = str(pathlib.Path(os.environ["CHECK_RESULTS"], f"saved.{hvd.rank()}"))
    tf.saved_model.save(Module(), path)
    one, group = tf.saved_model.load(path).reduce(mine())
    same(one, total())
    same(group[1], total())


@check
def a_graph_of_tensorflow_1_runs_in_a_session():
    fed, sums = mine().numpy(), total()
    with tf.Graph().as_default(), tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1)) as session:
        place = tf.compat.v1.placeholder(tf.float32, [2, 3], name="fed")
        results = [hvd.allreduce(place + i, op=hvd.Sum, name=f"fetched.{i}") for i in range(16)]
        order = results if hvd.rank() % 2 else results[::-1]
        fetched = session.run(order, {place: fed})
        for i, value in enumerate(fetched if hvd.rank() % 2 else fetched[::-1]):
            assert (value == sums + i * hvd.size()).all(), (i, value)
        gathered, counts = session.run(hvd.alltoall(place, [2] + [0] * (hvd.size() - 1)), {place: fed})
        assert counts.tolist() == [2 * (hvd.rank() == 0)] * hvd.size() and len(gathered) == sum(counts)
        assert session.run(hvd.size_op()) == hvd.size() and session.run(hvd.rank_op(name="who")) == hvd.rank()
        reduced = session.run(hvd.allreduce(slices([hvd.rank()]), op=hvd.Sum, device_sparse=LAST))
        assert sorted(reduced.indices) == list(range(hvd.size()))
        assert session.run(hvd.join()) in range(hvd.size())
        if hvd.size() > 1:
            text = raises(tf.errors.FailedPreconditionError, session.run, hvd.allreduce(tf.ones([1 + hvd.rank()]), name="lengths"))
            assert "Mismatched ALLREDUCE tensor shapes" in text, text


@check
def variables_of_graphs_get_the_values_of_the_root():
    root = hvd.size() - 1
    types = (tf.float32, tf.int64, tf.float64, tf.bool)
    own, expected = ([numbers(of_rank(rank, dtype)) for dtype in types] for rank in (hvd.rank(), root))
    for is_resource in (True, False):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            variables = [tf.compat.v1.get_variable(f"v{i}", initializer=tf.cast(values, dtype), use_resource=is_resource)
                         for i, (values, dtype) in enumerate(zip(own, types))]
            everything = [hvd.broadcast_variables(variables, root, inplace=True), hvd.broadcast_(variables, root, name="returned"),
                          hvd.broadcast_global_variables(root_rank=root)]
            for run in everything:
                session.run(tf.compat.v1.global_variables_initializer())
                session.run(run)
                for values, value in zip(expected, session.run(variables)):
                    assert (value == values).all(), (value, values)
    assert "needs a graph" in raises(RuntimeError, hvd.broadcast_global_variables, 0)


@check
def objects_do_not_need_a_session():
    with tf.Graph().as_default():
        assert hvd.broadcast_object(hvd.rank(), root_rank=hvd.size() - 1) == hvd.size() - 1
        assert hvd.allgather_object(hvd.rank()) == list(range(hvd.size()))


@check
def a_function_has_no_name_of_its_own_outside():
    assert mpi_ops.function_name() == ""
