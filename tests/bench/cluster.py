"""The choice of an algorithm, checked by a simulator of networks that knows nothing of our model: SimGrid.

The schedules run as an MPI program on a simulated cluster whose hosts have one link each, with the costs that the
built-in table was made from; there messages share links, and ranks wait for those that are late. Needs smpirun of
Debian's libsimgrid-dev, and takes minutes. Says how much longer the chosen algorithm takes than the best.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import measure
import network

SOURCES = ["tests/bench/network_smpi.c", "worker/transport/algorithm.c", "base/str.c", "base/status.c", "base/mem.c"]
SIZES = [1024, 16384, 65536, 262144, 1048576]
# (ranks, the last of the algorithms): the ring of many ranks is millions of messages, and never near.
JOBS = [(ranks, network.RING) for ranks in (2, 3, 4, 5, 7, 8, 12, 16, 24, 32)]
JOBS += [(ranks, network.RABENSEIFNER) for ranks in (64, 100, 256, 700, 1024)]
MESSAGE_US, BYTE_NS, ADD_NS = 12.7, 0.35, 0.032
LINE_UP = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="world" routing="Full">
<cluster id="hosts" prefix="h" suffix="" radical="0-{last}" speed="{speed:.6g}f" bw="{bandwidth:.6g}Bps" lat="{latency:.6g}us"
sharing_policy="SPLITDUPLEX"/></zone></platform>
"""
EXACT = {"network/model": "CM02", "network/TCP-gamma": 0, "network/bandwidth-factor": 1, "network/latency-factor": 1,
         "network/weight-S": 0, "network/crosstraffic": 0, "smpi/simulate-computation": "no", "smpi/privatization": "no",
         "smpi/send-is-detached-thresh": 65536, "smpi/async-small-thresh": 65536}


def checked(command, **more):
    done = subprocess.run(command, cwd=measure.ROOT, text=True, capture_output=True, timeout=900, check=False, **more)
    if done.returncode:
        sys.exit(f"bench: {command[0]}: exit {done.returncode}\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def describe(folder, ranks):
    """Writes the cluster and its hosts into the folder."""
    with open(f"{folder}/cluster.xml", "w", encoding="utf-8") as out:
        out.write(LINE_UP.format(last=ranks - 1, speed=1e9 / ADD_NS, bandwidth=1e9 / BYTE_NS, latency=MESSAGE_US / 2))
    with open(f"{folder}/hosts", "w", encoding="utf-8") as out:
        out.write("".join(f"h{rank}\n" for rank in range(ranks)))


def simulate(folder, ranks, last):
    """bytes -> algorithm -> simulated microseconds."""
    describe(folder, ranks)
    words = [f"--cfg={name}:{value}" for name, value in EXACT.items()]
    out = checked(["smpirun", "-np", str(ranks), "-platform", f"{folder}/cluster.xml", "-hostfile", f"{folder}/hosts",
                   "--log=root.thresh:critical", *words, f"{folder}/schedules", last, *map(str, SIZES)])
    found = {}
    for line in map(json.loads, filter(lambda text: text.startswith("{"), out.splitlines())):
        found.setdefault(line["bytes"], {})[line["algorithm"]] = line["us"]
    return found


def builtin_table():
    lines = measure.launch([network.PROGRAM, "--table"], ranks=2, bind="none")
    return lines[0]["table"]


def measure_rows(table, _options):
    if not shutil.which("smpirun"):
        table.miss("sim", "simgrid", "no smpirun (apt-get install libsimgrid-dev)")
        return
    builtin = builtin_table()
    with tempfile.TemporaryDirectory() as folder:
        checked(["smpicc", "-O2", "-std=gnu17", f"-I{measure.ROOT}", '-DHVD_VERSION="0"', *SOURCES, "-o",
                 os.path.join(folder, "schedules")])
        for ranks, last in JOBS:
            for size, times in simulate(folder, ranks, last).items():
                chosen = network.choose(builtin, ranks, size)
                best = min(times.values())
                table.add("sim", f"{ranks}-ranks-{size >> 10}KiB-{chosen}", "the best of the three, simulated", "us",
                          {"simulated": [(times[chosen], best, times[chosen] / best)]})
