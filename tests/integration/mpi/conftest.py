"""Names the places in the reports of sanitizers that failed tests show: ranks write addresses alone, see environment() in test_mpi.py."""

import os
import re
import subprocess

import pytest

# A frame without names: "#1 0x7f02 (/build/worker/libhorovod.so+0x1f2e0)".
FRAME = re.compile(r"(#\d+ 0x[0-9a-f]+) +\((/[^()]+)\+(0x[0-9a-f]+)\)")


def named(text):
    """The text with function and line behind each address of a frame, as far as the file has them."""
    places = {}
    for _, path, address in FRAME.findall(text):
        places.setdefault(path, set()).add(address)
    names = {}
    for path, addresses in places.items():
        addresses = sorted(addresses)
        if os.path.exists(path):
            found = subprocess.run(["addr2line", "-f", "-s", "-e", path, *addresses], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True, check=False).stdout.splitlines()
            names.update({(path, address): f"in {name} {place}"
                          for address, name, place in zip(addresses, found[::2], found[1::2])})
    return FRAME.sub(lambda frame: f"{frame[1]} {names.get((frame[2], frame[3]), 'in ??')} ({frame[2]}+{frame[3]})", text)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport():
    outcome = yield
    report = outcome.get_result()
    if report.failed and FRAME.search(str(report.longrepr)):
        report.longrepr = named(str(report.longrepr))
