"""Checks of saved models: files name Keras alone, and load_model makes their optimizers distributed again."""
import os
import subprocess
import sys
import zipfile

from checks import Skip, check
from networks import (
    BATCH, OPTIMIZERS, SIDES, close, fit, folder, has_legacy, is_keras3, mine, network, number, of_tf, rank, rows, same_on_all_ranks, size,
    stepped)

import horovod.numpy
from horovod._keras import is_distributed
from horovod._keras import variables as of
from horovod.common.basics import basics


def forms(module):
    """The ends of the names of files, one for each form in which a Keras saves."""
    return (".keras", ".h5") if is_keras3(module) else (".keras", ".h5", ".saved")


def saved(hvd, module, name, make):
    """A network after two steps, and the file to which rank 0 has saved it."""
    net = network(module)
    net.compile(hvd.DistributedOptimizer(make(module)), module.losses.MeanSquaredError())
    stepped(net, net.optimizer, 2)
    file = folder() / name
    if rank() == 0:
        net.save(str(file))
    horovod.numpy.barrier()
    return net, file


def contents(file):
    """All bytes of a saved model."""
    if file.is_dir():
        return b"".join(one.read_bytes() for one in sorted(file.rglob("*")) if one.is_file())
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            return b"".join(map(archive.read, archive.namelist()))
    return file.read_bytes()


def same_optimizer(one, other, with_state):
    """Fails unless both have the same kind, configuration, slots and iterations.

    Keras restores no state of an optimizer from a SavedModel, and Keras 3 no slots from HDF5.
    """
    one, other = of.innermost(one), of.innermost(other)
    assert type(one).__name__ == type(other).__name__ and one.get_config() == other.get_config()
    if not with_state:
        return
    ours, theirs = of.of_optimizer(one), of.of_optimizer(other)
    assert int(number(one.iterations)) == 2 and len(ours) == len(theirs), (len(ours), len(theirs))
    close([number(variable) for variable in ours], [number(variable) for variable in theirs], 0)


@check
def loaded_models_train_on_with_their_slots():
    hvd, module = of_tf()
    names = [("adam", form) for form in forms(module)] + ([("legacy", ".h5")] if has_legacy(module) else [])
    for optimizer, form in names:
        net, file = saved(hvd, module, f"{optimizer}{form}", OPTIMIZERS[optimizer])
        assert b"horovod" not in contents(file).lower()
        loaded = hvd.load_model(str(file))
        assert is_distributed(loaded.optimizer)
        restored = form == ".keras" or form == ".h5" and has_legacy(module)
        same_optimizer(loaded.optimizer, net.optimizer, restored)
        if not restored:
            continue
        for one in (loaded, net):
            if form == ".keras":
                fit(one, *map(mine, rows()), BATCH // size())
            else:
                stepped(one, one.optimizer)
        same_on_all_ranks(loaded.get_weights())
        close(loaded.get_weights(), net.get_weights(), 1e-6)


@check
def classes_that_are_registered_keep_their_names():
    for number_of_side, (hvd, module) in enumerate(SIDES):
        @module.utils.register_keras_serializable(package="Script", name="Registered")
        class Own(module.optimizers.SGD):
            """An optimizer of the script."""

        bases = [Own, *(getattr(module.optimizers, name) for name in ("AdamW", "Lion", "Adafactor"))]
        if has_legacy(module):
            bases.append(module.utils.register_keras_serializable("Script")(type("Older", (module.optimizers.legacy.SGD,), {})))
        for base in bases:
            for form in (".keras", ".h5"):
                net = network(module)
                net.compile(hvd.DistributedOptimizer(base(0.1)), module.losses.MeanSquaredError())
                file = folder() / f"{base.__name__}.{number_of_side}.{rank()}{form}"
                net.save(str(file))
                assert type(module.models.load_model(str(file)).optimizer) is base, (base, form)
                loaded = hvd.load_model(str(file)).optimizer
                assert is_distributed(loaded) and isinstance(loaded, base), (base, form)


@check
def a_process_without_horovod_loads_the_file():
    if size() != 2:
        raise Skip("a process of its own loads the file at 2 ranks")
    hvd, module = of_tf()
    _, file = saved(hvd, module, "elsewhere.keras", OPTIMIZERS["adam"])
    if rank() == 0:
        program = ("import sys; sys.modules['horovod'] = None; from tensorflow import keras; "
                   f"model = keras.models.load_model({str(file)!r}); "
                   "print(type(model.optimizer).__name__, int(model.optimizer.iterations))")
        env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "HOROVOD", "OMPI", "PMI"))}
        done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=100, check=False)
        assert done.stdout.split() == ["Adam", "2"], done.stdout + done.stderr[-2000:]


@check
def loading_takes_objects_optimizers_and_a_compression():
    for number_of_side, (hvd, module) in enumerate(SIDES):
        class Own(module.optimizers.SGD):
            """An optimizer of the script."""

        class Layer(module.layers.Dense):
            """A layer of the script."""

        net = module.Sequential([module.layers.Input((6,)), Layer(3)])
        net.compile(hvd.DistributedOptimizer(Own(0.1)), "mse")
        file = folder() / f"own.{number_of_side}.keras"
        if rank() == 0:
            net.save(str(file))
        horovod.numpy.barrier()

        def refused(**config):
            raise AssertionError(f"loads no optimizer: {config}")

        loaded = hvd.load_model(str(file), custom_optimizers=[Own], custom_objects={"Layer": Layer, "own": refused},
                                compression=hvd.Compression.fp16, legacy_opts=True)
        assert isinstance(loaded.optimizer, Own) and isinstance(loaded.layers[-1], Layer)
        assert loaded.optimizer._horovod.settings.compression is hvd.Compression.fp16


@check
def a_model_without_an_optimizer_is_loaded_and_so_is_a_loss_scale():
    hvd, module = of_tf()
    net = network(module)
    bare = folder() / "bare.keras"
    if rank() == 0:
        net.save(str(bare))
    module.mixed_precision.set_global_policy("mixed_float16")
    try:
        _, file = saved(hvd, module, "scaled.keras", OPTIMIZERS["sgd"])
        assert getattr(hvd.load_model(str(bare)), "optimizer", None) is None
        loaded = hvd.load_model(str(file))
        assert of.innermost(loaded.optimizer) is not loaded.optimizer and is_distributed(loaded.optimizer)
        fit(loaded, *map(mine, rows()), BATCH // size())
        same_on_all_ranks(loaded.get_weights())
    finally:
        module.mixed_precision.set_global_policy("float32")
    assert basics.is_initialized()
