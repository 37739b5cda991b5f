"""Start and end of the job and this process's place in it, the same for every framework."""
import atexit
import os

from horovod import _core
from horovod.common import exception  # noqa: F401 # pylint: disable=unused-import
from horovod.common import process_sets as sets

_TIMELINE_ERRORS = {
    -1: "Horovod has not been initialized; use hvd.init().",
    -2: "Set HOROVOD_TIMELINE to a path or to DYNAMIC before hvd.init() to start and stop timelines.",
    -3: "The timeline's file cannot be written; the log has the reason.",
}


class HorovodBasics:
    """The functions that every framework's module offers. All objects share the one job of this process."""

    Average = _core.AVERAGE
    Sum = _core.SUM
    Adasum = _core.ADASUM
    Min = _core.MIN
    Max = _core.MAX
    Product = _core.PRODUCT

    _is_registered = False

    def __init__(self, pkg_path=None, *args):
        """Ignores the arguments: they once named a library for each framework."""

    def init(self, comm=None, process_sets=None):
        """Joins the job: all processes (None), those of a list, or those of a communicator of mpi4py.

        process_sets: ProcessSets to begin with, or "dynamic". Raises ValueError on failure.
        """
        if isinstance(process_sets, str):
            if process_sets.lower() != "dynamic":
                raise ValueError(f'process_sets is a list or "dynamic", not {process_sets!r}')
            os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
            process_sets = None
        has_comm = sets._is_comm(comm)  # pylint: disable=protected-access
        wanted = sets.check(process_sets or [], has_comm)
        if _core.is_initialized():
            return
        if not HorovodBasics._is_registered:  # before the job begins, so that it ends whenever Python ends
            atexit.register(_core.shutdown_at_exit)
            HorovodBasics._is_registered = True
        addresses, ranks = sets.split(wanted)
        try:
            if has_comm:
                _core.init_comms([sets._address(comm), *addresses], ranks)  # pylint: disable=protected-access
            else:
                _core.init(list(comm) if comm else None, ranks)
        finally:
            self._mark_children()
        sets.began(wanted)

    @staticmethod
    def _mark_children():
        """Copies the runtime's mark for child processes to os.environ, because some children get a copy of that."""
        value = _core.rank_process()
        if value is not None:
            os.environ["HOROVOD_RANK_PROCESS"] = value

    def shutdown(self):
        """Leaves the job; waits until all processes do."""
        _core.shutdown()
        sets.ended()

    def start_timeline(self, file_path, mark_cycles=False):
        """Starts a timeline with the events of every tensor; chrome://tracing and Perfetto show the file."""
        self._check_timeline(_core.start_timeline(os.fspath(file_path), mark_cycles))

    def stop_timeline(self):
        """Ends the timeline and completes its file."""
        self._check_timeline(_core.stop_timeline())

    @staticmethod
    def _check_timeline(result):
        if result < 0:
            raise ValueError(_TIMELINE_ERRORS.get(result, f"error {result}"))

    is_initialized = staticmethod(_core.is_initialized)
    size = staticmethod(_core.size)
    local_size = staticmethod(_core.local_size)
    cross_size = staticmethod(_core.cross_size)
    rank = staticmethod(_core.rank)
    local_rank = staticmethod(_core.local_rank)
    cross_rank = staticmethod(_core.cross_rank)
    is_homogeneous = staticmethod(_core.is_homogeneous)
    mpi_threads_supported = staticmethod(_core.mpi_threads_supported)
    mpi_enabled = staticmethod(_core.mpi_enabled)
    mpi_built = staticmethod(_core.mpi_built)
    gloo_enabled = staticmethod(_core.gloo_enabled)
    gloo_built = staticmethod(_core.gloo_built)
    nccl_built = staticmethod(_core.nccl_built)
    ddl_built = staticmethod(_core.ddl_built)
    ccl_built = staticmethod(_core.ccl_built)
    cuda_built = staticmethod(_core.cuda_built)
    rocm_built = staticmethod(_core.rocm_built)


# The same as names of this module, which the frameworks' modules import.
basics = HorovodBasics()
Average, Sum, Adasum, Min, Max, Product = (
    basics.Average, basics.Sum, basics.Adasum, basics.Min, basics.Max, basics.Product)
init, shutdown, is_initialized = basics.init, basics.shutdown, basics.is_initialized
start_timeline, stop_timeline = basics.start_timeline, basics.stop_timeline
size, local_size, cross_size = basics.size, basics.local_size, basics.cross_size
rank, local_rank, cross_rank = basics.rank, basics.local_rank, basics.cross_rank
is_homogeneous, mpi_threads_supported = basics.is_homogeneous, basics.mpi_threads_supported
mpi_enabled, mpi_built, gloo_enabled, gloo_built = (
    basics.mpi_enabled, basics.mpi_built, basics.gloo_enabled, basics.gloo_built)
nccl_built, ddl_built, ccl_built, cuda_built, rocm_built = (
    basics.nccl_built, basics.ddl_built, basics.ccl_built, basics.cuda_built, basics.rocm_built)
