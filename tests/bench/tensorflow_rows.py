"""script/bench tensorflow: operations and training with horovod.tensorflow beside Horovod on the same TensorFlow, on two ranks.

Both packages are called horovod, so each has jobs of its own. A launch is six jobs: ours with tf_keras and with Keras 3, the peer's
twice, and ours again in the other order. A ratio compares the mean of the two jobs of each arm. With Keras 3 the peer does not
average, so training with Keras 3 is compared with the peer's with tf_keras.

A virtual machine's processors may take turns of being two or three times as slow. Both ranks must be quick for a step to be quick, and
what waits for a clock, as the peer's cycles do, is not slowed down. So only those blocks count beside which a loop was as quick as beside
the quicker half of all blocks.
"""
import pathlib
import statistics
import subprocess

import measure
import peer
import steps

PROGRAM = pathlib.Path(__file__).resolve().parent / "tensorflow_steps.py"
PYTHON = peer.TENSORFLOW / "bin" / "python"
OPERATIONS = ["eager-1", "graph-64x1", "group-1024x4KiB", "group-graph-1024x4KiB", "graph-64x1MiB", "eager-64MiB", "indexed-slices"]
MODELS = ["fit-small-cnn", "fit-many-small"]
SUFFIX = "-keras-3"
# Arm of a job -> (parts of the program, whether tf.keras is tf_keras)
ARMS = {"ours": (["operations", "training"], True), "ours-keras-3": (["training"], False), "peer": (["operations", "training"], True)}
TURNS = ["ours", "ours-keras-3", "peer", "peer", "ours-keras-3", "ours"]
TOLERANCE = 1e-4  # of what the weights add up to, relative


def environment(arm):
    """Of a job: nothing but warnings of TensorFlow, no GPU, kernels of one thread, as each rank has one core."""
    package = peer.tensorflow_package() if arm == "peer" else measure.BUILD / "python"
    return {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1",
            "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", "TF_USE_LEGACY_KERAS": str(int(ARMS[arm][1])), **steps.CACHE}


def run(arm, options):
    """{workload: what the job of an arm found}."""
    lines = measure.launch([PYTHON, PROGRAM, *ARMS[arm][0]], bind=options.bind, **environment(arm))
    return {line["workload"]: line for line in lines}


def check_same(jobs):
    """Ends the benchmark when jobs that train the same model alike got other weights."""
    for workload in MODELS:
        found = {arm: line[workload]["weights"] for arm, line in jobs if ARMS[arm][1]}
        if max(found.values()) - min(found.values()) > TOLERANCE * min(found.values()):
            raise SystemExit(f"bench: the weights of {workload} differ after training: {found}")


def limit_of(launches):
    """The microseconds of the median loop of all jobs."""
    return statistics.median(loop for jobs in launches for _, lines in jobs for line in lines.values() for _, loop in line["blocks"])


def median(line, limit):
    """The median of a job's blocks beside which the loop took no longer than that, in a list; an empty one if there are none."""
    found = [block for block, loop in line["blocks"] if loop <= limit]
    return [statistics.median(found)] if found else []


def samples(launches, workload, limit, arm="ours"):
    """(ours, the peer's, ratio) of each launch in which both had quick blocks."""
    result = []
    for jobs in launches:
        ours, theirs = ([us for kind, lines in jobs if kind == wanted for us in median(lines[workload], limit)]
                        for wanted in (arm, "peer"))
        if ours and theirs:
            result.append((statistics.mean(ours), statistics.mean(theirs), statistics.mean(ours) / statistics.mean(theirs)))
    return result


def add_row(table, name, baseline, found):
    if found:
        table.add("tensorflow", name, baseline, "us", {"any": found})
    else:
        table.miss("tensorflow", name, "the machine was never quick enough")


def measure_rows(table, options):
    subprocess.run([str(measure.ROOT / "script" / "bootstrap"), "python"], check=True)
    if not peer.tensorflow_package().exists():
        table.miss("tensorflow", "all", "no peer (script/bench peers builds it)")
        return
    launches = [[(arm, run(arm, options)) for arm in TURNS] for _ in range(max(1, options.launches // 2))]
    for jobs in launches:
        check_same(jobs)
    what, limit = f"Horovod {peer.VERSION}, defaults", limit_of(launches)
    for workload in [*OPERATIONS, *MODELS]:
        add_row(table, workload, what, samples(launches, workload, limit))
    for workload in MODELS:
        add_row(table, workload + SUFFIX, f"{what}, tf_keras", samples(launches, workload, limit, "ours-keras-3"))
