"""Process sets: ranks that negotiate and reduce among themselves."""
from horovod import _core

# The numbers that the runtime returns for errors.
_ERRORS = {
    -1: "Horovod has not been initialized; use hvd.init().",
    -2: "the ranks disagree, or HOROVOD_DYNAMIC_PROCESS_SETS=1 was not set before hvd.init() (or pass it "
        'process_sets="dynamic")',
    -3: "there is no such process set, or no such ranks",
    -4: "this rank is not in the process set",
    -5: "Horovod has been shut down",
    -6: "a process set of these ranks exists already",
}


def _number(result, what):
    """Returns the result of a call about sets, or raises ValueError."""
    if result >= 0:
        return result
    text = _ERRORS.get(result, f"error {result}")
    raise ValueError(text if result == -1 else f"{what}: {text}")


def _is_comm(thing):
    """Returns whether `thing` is a communicator of mpi4py."""
    return hasattr(thing, "Get_group") and hasattr(thing, "Get_rank")


def _address(comm):
    """Returns the address of the MPI_Comm in a communicator of mpi4py."""
    from mpi4py import MPI  # pylint: disable=import-outside-toplevel
    if MPI._sizeof(MPI.Comm) != 8:  # pylint: disable=protected-access
        raise ValueError("mpi4py was built for another MPI; Horovod needs Open MPI")
    return MPI._addressof(comm)  # pylint: disable=protected-access


class ProcessSet:
    """Ranks that reduce among themselves, given as a sequence or as a communicator of mpi4py.

    It is usable once init(process_sets=...) or add_process_set() has registered it.
    """

    process_set_id = None
    ranks = None
    mpi_comm = None

    def __init__(self, ranks_or_comm):
        if _is_comm(ranks_or_comm):
            self.mpi_comm = ranks_or_comm
        else:
            self.ranks = sorted(int(rank) for rank in ranks_or_comm)
            if len(set(self.ranks)) != len(self.ranks):
                raise ValueError(f"a process set has each rank once, not {self.ranks}")

    def _invalidate(self):
        self.process_set_id = None

    def size(self):
        """Returns the number of ranks; None while it is not registered."""
        if self.process_set_id is None:
            return None
        return _number(_core.process_set_size(self.process_set_id), "size of a process set")

    def rank(self):
        """Returns this process's rank in the set; None while it is not registered. Raises ValueError outside the set."""
        if self.process_set_id is None:
            return None
        return _number(_core.process_set_rank(self.process_set_id), "rank in a process set")

    def included(self):
        """Returns whether this process is in the set; None while it is not registered."""
        if self.process_set_id is None:
            return None
        return bool(_number(_core.process_set_included(self.process_set_id), "member of a process set"))

    def __eq__(self, other):
        if not isinstance(other, ProcessSet):
            return NotImplemented
        return (self.process_set_id, self.ranks, self.mpi_comm) == (other.process_set_id, other.ranks, other.mpi_comm)

    __hash__ = object.__hash__

    def __str__(self):
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm={self.mpi_comm})"

    __repr__ = __str__


class _GlobalProcessSet(ProcessSet):
    """All ranks of the job."""

    def __init__(self):
        super().__init__([])
        self.ranks = None
        self.process_set_id = 0


global_process_set = _GlobalProcessSet()

_registered = []  # the sets that have a number


def add_process_set(process_set):
    """Registers a set, a ProcessSet or a sequence of ranks, and returns it. All processes make the same calls."""
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set.ranks is None:
        raise NotImplementedError("Dynamically adding process sets defined by an MPI communicator is not implemented. "
                                  "Please build the process set via a list of ranks.")
    number = _core.add_process_set(process_set.ranks)
    _register(process_set, _number(number, f"add_process_set({process_set.ranks})"))
    return process_set


def remove_process_set(process_set):
    """Removes a set, and returns whether that was possible. All processes make the same calls."""
    if process_set.process_set_id is None:
        raise ValueError(f"{process_set} is not registered")
    result = _core.remove_process_set(process_set.process_set_id)
    if result in (-1, -5):
        _number(result, "remove_process_set")
    if result < 0:
        return False
    if process_set in _registered:
        _registered.remove(process_set)
    process_set._invalidate()  # pylint: disable=protected-access
    return True


def _register(process_set, number):
    process_set.process_set_id = number
    process_set.ranks = _core.process_set_ranks(number)
    _registered.append(process_set)


def _setup(basics):
    """Does nothing, because all frameworks share the job. Modules that were written for Horovod call it."""
    del basics


def check(process_sets, has_comm):
    """Converts the sets of init() to ProcessSets; raises ValueError if a set is there twice."""
    sets = [one if isinstance(one, ProcessSet) else ProcessSet(one) for one in process_sets]
    if any(one.mpi_comm is not None for one in sets) and not has_comm:
        raise NotImplementedError("Process sets defined by MPI communicators need init(comm=...) with a communicator.")
    lists = [tuple(one.ranks) for one in sets if one.ranks is not None]
    if len(set(lists)) != len(lists) or len({id(one) for one in sets}) != len(sets):
        raise ValueError("process_sets has a set twice")
    return sets


def split(process_sets):
    """Returns (addresses of communicators, lists of ranks): the sets of communicators get their numbers first."""
    return ([_address(one.mpi_comm) for one in process_sets if one.mpi_comm is not None],
            [one.ranks for one in process_sets if one.mpi_comm is None])


def began(process_sets):
    """Once the job runs, stores the number of every set."""
    global_process_set.ranks = _core.process_set_ranks(0)
    by_ranks = {tuple(_core.process_set_ranks(number)): number for number in sorted(_core.process_set_ids(), reverse=True)}
    for one in process_sets:
        if one.mpi_comm is not None:
            number = _core.comm_process_set(_address(one.mpi_comm))
        else:
            number = by_ranks.get(tuple(one.ranks), -3)
        _register(one, _number(number, f"process set {one}"))


def ended():
    """After the end of the job, invalidates its sets."""
    for one in _registered:
        one._invalidate()  # pylint: disable=protected-access
    _registered.clear()
    global_process_set.ranks = None
