"""A model compiled by torch.compile, as it comes, trains with horovod.torch over four ranks."""
import ranks

SCRIPT = ranks.HERE / "torch_compile" / "train.py"
SIZE = 4


def test_the_gradients_of_a_compiled_model_are_those_of_one_process(tmp_path):
    done = ranks.mpirun(SIZE, ranks.TORCH_PYTHON, SCRIPT, timeout=900, TORCHINDUCTOR_CACHE_DIR=tmp_path,
                        TORCHINDUCTOR_COMPILE_THREADS=1)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    for rank in range(SIZE):
        assert f"rank {rank} of {SIZE}: 3 steps" in done.stdout
