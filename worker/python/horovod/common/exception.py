"""Reports an exception that ends this process to horovodrun."""
import os
import re
import sys
import threading
import traceback as tracebacks

from horovod import _core

_before = sys.excepthook


# Lines of a message of TensorFlow or Keras that say where, or introduce what follows. base/cause.c reads such messages in the same way.
_PLACE = re.compile(r"\(most recent call last\):$|^<stack traces unavailable>|^Detected at node |^Node: '|"
                    r"^\d+ root error\(s\) found\.$|^\(\d+\) CANCELLED: ")
_END = re.compile(r"^\[\[|^Traceback \(most recent call last\):|^(Call a|A)rguments received by ")
_CODE = re.compile(r"^\(\d+\) [A-Z_]+: +")


def _is_heading(line):
    """Returns whether the line announces the lines behind it."""
    return line.endswith(":") or "Exception encountered when calling " in line and line.endswith(").")


def _reason_of(lines):
    """Returns the first informative line behind the heading of a message. If that is a heading in turn, a later line replaces it."""
    frame = None
    reason = ""
    for line in lines:
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if _END.search(text):
            break
        if text.startswith('File "'):
            frame = indent
        elif text and not (frame is not None and indent > frame) and not _PLACE.search(text):  # no source line of a frame
            reason = _CODE.sub("", text)
            if not _is_heading(reason):
                break
    return reason


def _origin_of(lines):
    """Returns the first line of a message. If PyTorch brought the exception from another process, the line that it had there. If the
    first line is a heading, adds the first informative line behind it."""
    for number, line in enumerate(lines):
        if line.startswith("Original Traceback (most recent call last):"):
            return next((inner.rstrip() for inner in lines[number + 1:] if inner.strip() and not inner.startswith(" ")), lines[0])
    return f"{lines[0]} {_reason_of(lines[1:])}".rstrip() if _is_heading(lines[0]) else lines[0]


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
