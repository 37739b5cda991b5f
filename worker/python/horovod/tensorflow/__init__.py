"""Data-parallel training with TensorFlow 2.15 and newer: `import horovod.tensorflow as hvd`.

    hvd.init()
    tape = hvd.DistributedGradientTape(tape)
    hvd.broadcast_variables(variables, root_rank=0)

Models of Keras: horovod.tensorflow.keras, or horovod.keras.
"""
from horovod.tensorflow import requirements as _requirements

_requirements.check()  # before TensorFlow, whose own errors name no remedy

from horovod.common.util import check_extension, gpu_available, split_list  # noqa: E402,F401
from horovod.tensorflow import elastic  # noqa: E402
from horovod.tensorflow import gradients as _gradients  # noqa: E402,F401  (registers them)
from horovod.tensorflow.compression import Compression  # noqa: E402
from horovod.tensorflow.functions import (  # noqa: E402
    allgather_object, broadcast_object, broadcast_object_fn, broadcast_variables)
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper  # noqa: E402
from horovod.tensorflow.hooks import BroadcastGlobalVariablesHook, broadcast_global_variables  # noqa: E402
from horovod.tensorflow.mpi_ops import (  # noqa: E402,F401
    Adasum, Average, Max, Min, ProcessSet, Product, Sum, _allreduce, _grouped_allreduce, _grouped_reducescatter, _reducescatter,
    add_process_set, allgather, alltoall, broadcast, broadcast_, ccl_built, check_num_rank_power_of_2, cross_rank, cross_size,
    cuda_built, ddl_built, global_process_set, gloo_built, gloo_enabled, grouped_allgather, handle_average_backwards_compatibility,
    init, is_homogeneous, is_initialized, join, local_rank, local_rank_op, local_size, local_size_op, mpi_built, mpi_enabled,
    mpi_threads_supported, nccl_built, process_set_included_op, rank, rank_op, remove_process_set, rocm_built, shutdown, size, size_op,
    start_timeline, stop_timeline)
from horovod.tensorflow.optimizer import (  # noqa: E402,F401
    DistributedOptimizer, _DistributedAdasumOptimizer, _DistributedOptimizer, _LegacyOptimizer)
from horovod.tensorflow.reductions import (  # noqa: E402,F401
    _make_allreduce_grads_fn, allreduce, grouped_allreduce, grouped_reducescatter, reducescatter)
from horovod.tensorflow.tape import (  # noqa: E402,F401
    DistributedGradientTape, PartialDistributedGradientTape, _DistributedGradientTape)
from horovod.tensorflow.util import _cache, _executing_eagerly, _make_subgraph, refs_to_vars, vars_to_refs  # noqa: E402,F401

_IS_TF2 = True  # by this name programs written for Horovod look for TensorFlow 1
_LAZY = {"SyncBatchNormalization": "sync_batch_norm"}  # whose modules import Keras, which takes a second


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib  # pylint: disable=import-outside-toplevel
    value = getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


__all__ = [name for name in dir() if not name.startswith("_") and name not in (
    "compression", "functions", "gradient_aggregation", "gradient_aggregation_eager", "gradients", "hooks", "library", "mpi_ops",
    "optimizer", "reductions", "requirements", "tape", "util", "xla")] + sorted(_LAZY)
