"""Checks of the collectives of values, and of what the modules tell about the job."""
import warnings

import numpy
import tensorflow as tf
from checks import check, raises
from networks import SIDES, close, has_legacy, number, of_tf, rank, size

from horovod.common.basics import basics


@check
def values_are_reduced_gathered_and_broadcast():
    n = size()
    for hvd, _ in SIDES:
        mean = (n + 1) / 2
        assert float(hvd.allreduce(rank() + 1.0)) == mean
        array = numpy.array([rank() + 1.0, 2.0], "float32")
        close([hvd.allreduce(array, name="values", op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5)], [[mean * n, 2.0 * n]], 1e-6)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            close([hvd.allreduce(tf.constant(array), average=False)], [[mean * n, 2.0 * n]], 1e-6)
        fine = numpy.float32(1.0 + 2.0 ** -12)
        rounded = float(hvd.allreduce(numpy.array([fine]), compression=hvd.Compression.fp16)[0])
        assert rounded == 1.0, rounded
        rows = number(hvd.allgather(numpy.full((rank() + 1, 2), rank()), name="rows"))
        assert rows.tolist() == [[place] * 2 for place in range(n) for _ in range(place + 1)]
        assert number(hvd.broadcast(array * (rank() + 1), n - 1, name="root")).tolist() == [n * n, 2.0 * n]
        table = numpy.arange(2 * n, dtype="float32").reshape(n, 2) * (rank() + 1)
        own = numpy.array([[2.0 * rank(), 2.0 * rank() + 1]])
        close([hvd.reducescatter(table)], [own * mean], 1e-5)
        close([hvd.reducescatter(table, name="part", op=hvd.Sum)], [own * mean * n], 1e-5)
    text = raises(ValueError, SIDES[1][0].allreduce, 1.0, average=True, op=SIDES[1][0].Sum)
    assert "supersedes" in text, text


@check
def global_variables_are_broadcast_in_graph_mode():
    for hvd, _ in SIDES:
        assert "broadcast_variables" in raises(RuntimeError, hvd.broadcast_global_variables, 0)
    hvd, module = of_tf()
    if not has_legacy(module):
        return  # Keras 3 has no session
    with tf.Graph().as_default():
        value = tf.compat.v1.get_variable("value", initializer=tf.constant([rank() + 1.0, 2.0]))
        session = tf.compat.v1.keras.backend.get_session()
        session.run(tf.compat.v1.global_variables_initializer())
        hvd.broadcast_global_variables(size() - 1)
        assert session.run(value).tolist() == [size(), 2.0]
        assert hvd.allreduce(numpy.array([rank() + 1.0])).tolist() == [(size() + 1) / 2]


@check
def the_modules_describe_the_job():
    for hvd, _ in SIDES:
        assert hvd.is_initialized() and (hvd.rank(), hvd.size()) == (rank(), size())
        assert 0 <= hvd.local_rank() < hvd.local_size() <= size() and 0 <= hvd.cross_rank() < hvd.cross_size()
        built = [getattr(hvd, f"{name}_built")() for name in ("mpi", "gloo", "nccl", "ddl", "ccl", "cuda", "rocm")]
        assert built == [getattr(basics, f"{name}_built")() for name in ("mpi", "gloo", "nccl", "ddl", "ccl", "cuda", "rocm")]
        assert hvd.mpi_threads_supported() in (True, False) and hvd.mpi_enabled() in (True, False) and hvd.gloo_enabled() in (True, False)
    hvd, _ = SIDES[1]
    if size() > 1:
        own = hvd.add_process_set(hvd.ProcessSet([size() - 1]))
        assert own.included() is (rank() == size() - 1)
        assert hvd.remove_process_set(own)
    else:
        assert "exists already" in raises(ValueError, hvd.add_process_set, [0])
        assert hvd.remove_process_set(hvd.global_process_set) is False
    assert hvd.global_process_set is SIDES[0][0].global_process_set and (hvd.Average, hvd.Sum, SIDES[0][0].Adasum) == (0, 1, 2)
