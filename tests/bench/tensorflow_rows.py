"""script/bench tensorflow: operations and training with horovod.tensorflow beside Horovod on the same TensorFlow, on two ranks.

Both packages are called horovod, so each has jobs of its own. A launch is six jobs: ours with tf_keras and with Keras 3, the peer's
twice, and ours again in the other order. A ratio compares the mean of the two jobs of each arm. With Keras 3 the peer does not
average, so training with Keras 3 is compared with the peer's with tf_keras.
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


def sample(jobs, workload, arm="ours"):
    """(ours, the peer's, ratio) of a launch."""
    ours, theirs = (statistics.mean(line[workload]["p50_us"] for kind, line in jobs if kind == wanted) for wanted in (arm, "peer"))
    return ours, theirs, ours / theirs


def measure_rows(table, options):
    subprocess.run([str(measure.ROOT / "script" / "bootstrap"), "python"], check=True)
    if not peer.tensorflow_package().exists():
        table.miss("tensorflow", "all", "no peer (script/bench peers builds it)")
        return
    launches = [[(arm, run(arm, options)) for arm in TURNS] for _ in range(max(1, options.launches // 2))]
    for jobs in launches:
        check_same(jobs)
    what = f"Horovod {peer.VERSION}, defaults"
    for workload in [*OPERATIONS, *MODELS]:
        table.add("tensorflow", workload, what, "us", {"any": [sample(jobs, workload) for jobs in launches]})
    for workload in MODELS:
        table.add("tensorflow", workload + SUFFIX, f"{what}, tf_keras", "us",
                  {"any": [sample(jobs, workload, "ours-keras-3") for jobs in launches]})
