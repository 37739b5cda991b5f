"""Elastic training for PyTorch: a state that survives failures, a sampler that resumes an epoch, and run."""
from horovod.common.elastic import run_fn
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.elastic.state import TorchState
from horovod.torch.mpi_ops import init, shutdown

__all__ = ["TorchState", "ElasticSampler", "run"]


def run(func):
    """Decorates a training function whose first argument is a State.

    After a loss of ranks the function is called again with the state of the last commit. After hosts were added or removed
    it is called again with the current state.
    """
    return run_fn(func, _reset)


def _reset():
    shutdown()
    init()
