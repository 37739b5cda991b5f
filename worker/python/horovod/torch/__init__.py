"""Data-parallel training with PyTorch: `import horovod.torch as hvd`.

    hvd.init()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
"""
try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("horovod.torch needs PyTorch 2.0 or newer, which could not be imported "
                      f"({error}). Install it with: pip install torch") from error

from horovod.common.util import check_extension
from horovod.torch.compression import Compression
from horovod.torch.mpi_ops import (
    Adasum, Average, HorovodInternalError, Max, Min, ProcessSet, Product, Sum, add_process_set, allgather,
    allgather_async, allreduce, allreduce_, allreduce_async, allreduce_async_, alltoall, alltoall_async, barrier,
    broadcast, broadcast_, broadcast_async, broadcast_async_, ccl_built, cross_rank, cross_size, cuda_built, ddl_built,
    global_process_set, gloo_built, gloo_enabled, grouped_allgather, grouped_allgather_async, grouped_allreduce,
    grouped_allreduce_, grouped_allreduce_async, grouped_allreduce_async_, grouped_reducescatter,
    grouped_reducescatter_async, init, is_initialized, join, local_rank, local_size, mpi_built, mpi_enabled,
    mpi_threads_supported, nccl_built, poll, rank, reducescatter, reducescatter_async, remove_process_set, rocm_built,
    shutdown, size, sparse_allreduce_async, start_timeline, stop_timeline, synchronize)
from horovod.torch.functions import (
    allgather_object, await_results, broadcast_object, broadcast_optimizer_state, broadcast_parameters)
from horovod.torch.optimizer import DistributedOptimizer
from horovod.torch.sync_batch_norm import SyncBatchNorm
from horovod.torch import elastic

_MPI_LIB_AVAILABLE = True


def _check_has_gpu():
    """Returns whether PyTorch has a GPU; the query may start CUDA."""
    return _torch.cuda.is_available()


__all__ = [name for name in dir() if not name.startswith("_") and name != "adapter"]
