"""Waiting for something to become true, with an end and a name for what did not happen."""
import time

import limits


def until(what, check, timeout=20, pause=0.02, is_possible=lambda: True):
    """What check() returns once it is true; an AssertionError that says what (a text, or a function that makes one)
    when the time is over, or at once when is_possible() is false. The time is for an idle machine, see limits.py."""
    timeout = limits.seconds(timeout)
    end = time.monotonic() + timeout
    while True:
        result = check()
        if result:
            return result
        can_come = is_possible()
        if not can_come or time.monotonic() > end:
            reason = f"not within {timeout:.0f} s" if can_come else "impossible from now on"
            raise AssertionError(f"{reason}: {what() if callable(what) else what}")
        time.sleep(pause)
