"""Reports an exception that ends this process to horovodrun."""
import os
import sys
import threading
import traceback as tracebacks

from horovod import _core

_before = sys.excepthook


def _origin_of(lines):
    """Returns the first line of a message. If PyTorch brought the exception from another process, the line that it had there. If the
    first line is a heading over the place in a graph, adds the reason, which stands above the node."""
    for number, line in enumerate(lines):
        if line.startswith("Original Traceback (most recent call last):"):
            return next((inner.rstrip() for inner in lines[number + 1:] if inner.strip() and not inner.startswith(" ")), lines[0])
        if lines[0].endswith("Graph execution error:") and line.lstrip().startswith("[[{{node "):
            return " ".join([lines[0], *(inner.strip() for inner in lines[max(1, number - 1):number])])
    return lines[0]


def words_of(kind, value, traceback):
    """Returns the line that names an exception, as Python writes it, without further lines of a message, a note or a group."""
    try:
        for part in tracebacks.TracebackException(kind, value, traceback, limit=0).format_exception_only():
            if part.strip() and not part.startswith(" "):  # skips the place of a SyntaxError
                return _origin_of(part.strip().splitlines())
    except Exception:  # pylint: disable=broad-except  # its own __str__ may raise anything
        pass
    return kind.__name__


def _note(kind, value, traceback):
    """Replaces sys.excepthook.

    For an uncaught exception of the main thread, Python calls it without a calling frame. If an extension merely shows an
    exception (PyErr_Print), there is a calling frame.
    """
    _before(kind, value, traceback)
    if sys._getframe().f_back is None and threading.current_thread() is threading.main_thread():  # pylint: disable=protected-access
        _core.note_exception(words_of(kind, value, traceback).encode("utf-8", "replace"))


def watch():
    """Installs the hook under horovodrun, whose wrapper shares a page with this process."""
    if "HOROVOD_RANK_STATE" in os.environ:
        sys.excepthook = _note


watch()
