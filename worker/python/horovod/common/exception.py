"""Notes an exception that ends this process, for horovodrun."""
import os
import sys
import threading
import traceback as tracebacks

from horovod import _core

_before = sys.excepthook


def _origin_of(lines):
    """The first line of a message; of an exception that PyTorch brought from another process the one that it had there."""
    for number, line in enumerate(lines):
        if line.startswith("Original Traceback (most recent call last):"):
            return next((inner.rstrip() for inner in lines[number + 1:] if inner.strip() and not inner.startswith(" ")), lines[0])
    return lines[0]


def words_of(kind, value, traceback):
    """The line that names an exception, as Python writes it: without what a message, a note or a group has behind it."""
    try:
        for part in tracebacks.TracebackException(kind, value, traceback, limit=0).format_exception_only():
            if part.strip() and not part.startswith(" "):  # as the place of a SyntaxError does
                return _origin_of(part.strip().splitlines())
    except Exception:  # pylint: disable=broad-except  # whatever its own text ends with
        pass
    return kind.__name__


def _note(kind, value, traceback):
    """In place of sys.excepthook.

    Python calls it without a caller when nothing has caught an exception of the main thread; an extension that merely shows one
    (PyErr_Print) is called by somebody.
    """
    _before(kind, value, traceback)
    if sys._getframe().f_back is None and threading.current_thread() is threading.main_thread():  # pylint: disable=protected-access
        _core.note_exception(words_of(kind, value, traceback).encode("utf-8", "replace"))


def watch():
    """Under horovodrun: the wrapper around this process has a page for it."""
    if "HOROVOD_RANK_STATE" in os.environ:
        sys.excepthook = _note


watch()
