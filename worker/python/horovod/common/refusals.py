"""Announces calls that this rank refuses before the runtime gets them. The other ranks fail with the reason instead of waiting."""
from horovod import _core
from horovod.common.exceptions import HorovodInternalError

EMPTY_GROUP = -1  # the number of tensors that stands for a group without tensors, or for no group


def reason_of(error):
    """Returns the first line of an exception's text, else its type."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def announce(reason, word, name, process_set, n=0):
    """Makes the other ranks' calls fail that match a refused call of this rank. word is the collective ("allreduce", ...);
    n is the number of tensors of a group (EMPTY_GROUP: it has none), 0 for a single tensor."""
    number = getattr(process_set, "process_set_id", None)
    if number is not None:
        _core.refuse(word, name, n, number, reason.encode("utf-8", "replace"))


def tell(error, word, name, process_set, n=0):
    """announce() for an exception that ended a call, unless the runtime has announced it, or the call had been submitted."""
    if not isinstance(error, HorovodInternalError) and not getattr(error, "is_told", False):
        announce(reason_of(error), word, name, process_set, n)
