"""Checks of what the module says about the job, and of jobs that end and begin anew."""
import json
import os
import pathlib
import re
import subprocess
import sys

import tensorflow as tf
from checks import check, raises
from tensors import mine, total, same

import horovod.numpy
import horovod.tensorflow as hvd
from horovod.tensorflow import requirements


@check
def the_module_says_who_is_there_and_what_was_built():
    assert hvd.is_initialized() and hvd.size() == hvd.local_size() * hvd.cross_size() and hvd.is_homogeneous()
    assert hvd.rank() == hvd.cross_rank() * hvd.local_size() + hvd.local_rank()
    assert hvd.mpi_enabled() and hvd.mpi_built() and isinstance(hvd.mpi_threads_supported(), bool)
    assert not any(built() for built in (hvd.gloo_enabled, hvd.gloo_built, hvd.nccl_built, hvd.ddl_built, hvd.ccl_built,
                                         hvd.cuda_built, hvd.rocm_built))
    assert hvd.gpu_available("tensorflow", verbose=True) is False and hvd._executing_eagerly()
    hvd.check_extension("horovod.tensorflow", "HOROVOD_WITH_TENSORFLOW", __file__)
    assert not hasattr(hvd, "unheard_of") and "SyncBatchNormalization" in hvd.__all__


@check
def a_timeline_has_the_tensors():
    path = pathlib.Path(os.environ["CHECK_RESULTS"], "tensorflow_timeline")
    horovod.numpy.barrier()
    hvd.start_timeline(str(path), mark_cycles=True)
    horovod.numpy.barrier()
    hvd.allreduce(mine(), name="seen")
    horovod.numpy.barrier()
    hvd.stop_timeline()
    horovod.numpy.barrier()
    if hvd.rank() == 0:
        events = json.loads(path.read_text(encoding="utf-8"))
        assert any("seen" in str(event.get("args")) for event in events), events


@check
def helpers_of_programs_written_for_horovod_are_there():
    from tensorflow.python.framework import ops  # pylint: disable=import-outside-toplevel

    from horovod.tensorflow import mpi_ops, util  # pylint: disable=import-outside-toplevel
    variables = [tf.Variable(1.0), [tf.Variable(2.0)]]
    refs = util.vars_to_refs(variables)
    assert hash(refs) is not None and util.refs_to_vars(refs)[1][0] is variables[1][0]
    calls = []
    cached = util._cache(lambda x: calls.append(x) or x)
    assert cached(3) == cached(3) == 3 and calls == [3]
    assert float(util._make_subgraph(lambda x: x * 2)(tf.constant(2.0))) == 4.0
    for kind in ("allreduce", "grouped_allreduce", "reducescatter", "grouped_reducescatter"):
        assert getattr(hvd, f"_{kind}") is getattr(mpi_ops, f"_{kind}")
    assert hvd._IS_TF2 and hvd._LegacyOptimizer is tf.compat.v1.train.Optimizer and mpi_ops.gpu_available is hvd.gpu_available
    for kind in ("Allreduce", "GroupedAllreduce", "Allgather", "GroupedAllgather", "Broadcast", "Alltoall", "Reducescatter",
                 "GroupedReducescatter"):
        name = "_".join(word.lower() for word in re.findall("[A-Z][a-z]*", kind))
        assert getattr(mpi_ops, f"_{name}_grad") is ops.gradient_registry.lookup(f"Horovod{kind}")


@check
def the_version_of_tensorflow_is_checked_at_the_import():
    assert [requirements.numbers_of(text) for text in ("2.15.0-rc1", "3", "2.9.1", "unknown")] == [(2, 15), (3, 0), (2, 9), (0, 0)]
    if hvd.rank():
        return
    program = ("import sys, types; made = types.ModuleType('tensorflow'); made.__version__ = '2.14.1'; "
               "sys.modules['tensorflow'] = {}\nimport horovod.tensorflow")
    for stand_in, words in (("made", "version 2.14.1 is installed"), ("None", "whose import failed here")):
        done = subprocess.run([sys.executable, "-c", program.format(stand_in)], capture_output=True, text=True, timeout=60, check=False)
        last = done.stderr.strip().splitlines()[-1]
        assert done.returncode == 1 and last.startswith("ImportError: horovod.tensorflow needs TensorFlow 2.15") and words in last, last
        assert "pip install tensorflow" in last


@check
def a_job_can_end_and_the_next_one_begin():
    rank, size = hvd.rank(), hvd.size()
    horovod.numpy.barrier()
    reduce = tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum))
    sent, expected = mine(), total()
    same(reduce(sent), expected)
    horovod.numpy.barrier()
    hvd.shutdown()
    assert not hvd.is_initialized()
    for call in (lambda: hvd.allreduce(sent, op=hvd.Sum), lambda: reduce(sent), lambda: hvd.allgather(sent),
                 lambda: hvd.broadcast(sent, 0)):
        assert "Horovod has not been initialized" in raises(tf.errors.FailedPreconditionError, call)
    for call in (hvd.rank, lambda: hvd.broadcast_variables([tf.Variable(sent)], 0), lambda: hvd.broadcast_object(1)):
        assert "Horovod has not been initialized" in raises(ValueError, call)
    assert int(hvd.process_set_included_op()) == -1  # HOROVOD_PROCESS_SET_ERROR_INIT
    hvd.init(list(range(size)), process_sets="dynamic")
    assert (hvd.rank(), hvd.size()) == (rank, size)
    same(reduce(sent), expected)
