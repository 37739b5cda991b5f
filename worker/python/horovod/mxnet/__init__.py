"""Data-parallel training with Apache MXNet 1.9.1: `import horovod.mxnet as hvd`.

    hvd.init()
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.01})

MXNet is retired, and so this module is for programs that exist: it has Horovod's names and no overlap of gradients with backward().
"""
from horovod.mxnet import requirements as _requirements

_requirements.check()  # before MXNet, whose own errors name no remedy

from horovod.common.util import check_extension, split_list  # noqa: E402,F401
from horovod.mxnet.compression import Compression  # noqa: E402
from horovod.mxnet.functions import allgather_object, broadcast_object, broadcast_parameters  # noqa: E402
from horovod.mxnet.mpi_ops import (  # noqa: E402
    Adasum, Average, Max, Min, ProcessSet, Product, Sum, add_process_set, allgather, allreduce, allreduce_, alltoall, broadcast,
    broadcast_, ccl_built, cross_rank, cross_size, cuda_built, ddl_built, global_process_set, gloo_built, gloo_enabled,
    grouped_allgather, grouped_allreduce, grouped_allreduce_, grouped_reducescatter, init, is_initialized, local_rank, local_size,
    mpi_built, mpi_enabled, mpi_threads_supported, nccl_built, rank, reducescatter, remove_process_set, rocm_built, shutdown, size,
    start_timeline, stop_timeline)
from horovod.mxnet.optimizer import DistributedOptimizer, DistributedTrainer  # noqa: E402

__all__ = [name for name in dir() if not name.startswith("_") and name not in ("adapter", "requirements")]
