"""Notes an exception that ends this process, for horovodrun."""
import os
import sys
import threading

from horovod import _core

_before = sys.excepthook


def _note(kind, value, traceback):
    """In place of sys.excepthook.

    Python calls it without a caller when nothing has caught an exception of the main thread; an extension that merely shows one
    (PyErr_Print) is called by somebody.
    """
    _before(kind, value, traceback)
    if sys._getframe().f_back is None and threading.current_thread() is threading.main_thread():  # pylint: disable=protected-access
        _core.note_exception()


def watch():
    """Under horovodrun: the wrapper around this process has a page for it."""
    if "HOROVOD_RANK_STATE" in os.environ:
        sys.excepthook = _note


watch()
