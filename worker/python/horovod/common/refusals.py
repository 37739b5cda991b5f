"""What this rank refuses before the runtime sees it: the other ranks fail with its reason; they would wait for it."""
from horovod import _core
from horovod.common.exceptions import HorovodInternalError

EMPTY_GROUP = -1  # the number of tensors of a group that has none, or is no group


def reason_of(error):
    """The first line of what an exception says, else its type."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def announce(reason, word, name, process_set, n=0):
    """Has the calls of the other ranks fail that stand for one of this rank: of a collective ("allreduce", ...), of n tensors
    of a group (EMPTY_GROUP: it has none), or one."""
    number = getattr(process_set, "process_set_id", None)
    if number is not None:
        _core.refuse(word, name, n, number, reason.encode("utf-8", "replace"))


def tell(error, word, name, process_set, n=0):
    """The same for an exception that ended a call, unless the runtime has told them, or the call had been submitted."""
    if not isinstance(error, HorovodInternalError) and not getattr(error, "is_told", False):
        announce(reason_of(error), word, name, process_set, n)
