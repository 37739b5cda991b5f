"""Checks of what all forms of the collectives have in common: names, process sets, wrong arguments."""
import json
import os
import pathlib
import sys

import torch
from checks import check, raises
from errors import the_job_goes_on
from inputs import mine, of_rank, reduced, same

import horovod.torch as hvd
from horovod.torch import mpi_ops

ALLREDUCES = [hvd.allreduce, hvd.allreduce_, hvd.allreduce_async, hvd.allreduce_async_]
BROADCASTS = [hvd.broadcast, hvd.broadcast_, hvd.broadcast_async, hvd.broadcast_async_]
GATHERING = [hvd.allgather, hvd.allgather_async, hvd.alltoall, hvd.alltoall_async]
SCATTERING = [hvd.reducescatter, hvd.reducescatter_async]
GROUPED_ALLREDUCES = [hvd.grouped_allreduce, hvd.grouped_allreduce_, hvd.grouped_allreduce_async,
                      hvd.grouped_allreduce_async_]
GROUPED_SCATTERING = [hvd.grouped_reducescatter, hvd.grouped_reducescatter_async]
GROUPED = GROUPED_ALLREDUCES + GROUPED_SCATTERING + [hvd.grouped_allgather, hvd.grouped_allgather_async]


def calls(shape=(2,)):
    """(word, call) of every form: call(**options) submits an input of this rank, and waits."""
    for function in ALLREDUCES + GATHERING + SCATTERING + GROUPED + BROADCASTS:
        word = function.__name__.removesuffix("_").removesuffix("_async")
        yield word, lambda function=function, **options: submit(function, shape, **options)


def submit(function, shape, **options):
    """The result of a form, for an input of this rank."""
    tensor = torch.ones((hvd.size(), 2)) if "alltoall" in function.__name__ else mine(shape=shape)
    if function in GROUPED:
        tensor = [tensor, mine(torch.int64, shape)]
    if function in BROADCASTS:
        options.setdefault("root_rank", 0)
    result = function(tensor, **options)
    return hvd.synchronize(result) if "async" in function.__name__ else result


@check
def a_name_is_a_string():
    for word, call in calls():
        for name in (7, b"bytes", ["list"]):
            text = raises(TypeError, call, name=name)
            assert text == f"{word.removeprefix('grouped_')}: a name is a string, not {name!r}", text
        assert "a name has at most" in raises(ValueError, call, name="x" * 2000)
        assert "no zero among them" in raises(ValueError, call, name="a\0b")
    the_job_goes_on()


@check
def names_may_have_any_letters():
    same(hvd.allreduce(mine(), name="größe/重み:0 \"quoted\"", op=hvd.Sum), reduced("sum"))
    same(hvd.grouped_allreduce([mine()], name="größe", op=hvd.Sum)[0], reduced("sum"))


def n_python_calls(function, tensors):
    """How many calls Python makes to submit and end the group."""
    n_calls = 0

    def count(_frame, event, _what):
        nonlocal n_calls
        n_calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        handle = function(tensors, name="counted")
    finally:
        sys.setprofile(None)
    hvd.synchronize(handle)
    return n_calls


@check
def to_submit_a_group_takes_no_python_for_each_tensor():
    for function in (hvd.grouped_allreduce_async, hvd.grouped_allreduce_async_, hvd.grouped_allgather_async):
        few, many = (n_python_calls(function, [mine() for _ in range(n)]) for n in (2, 50))
        assert few == many, f"{function.__name__}: {few} calls for 2 tensors, {many} for 50"


def submit_this(function, thing):
    """Hands a thing to a form."""
    return function(thing, 0) if function in BROADCASTS else function(thing)


@check
def a_factor_is_a_number():
    for function in ALLREDUCES + SCATTERING + GROUPED_ALLREDUCES + GROUPED_SCATTERING:
        for factor in ("prescale_factor", "postscale_factor"):
            raises(TypeError, submit, function, (2,), **{factor: "2.0"})
            raises(TypeError, submit, function, (2,), **{factor: None})
            assert "a factor must be a number" in raises(ValueError, submit, function, (2,), **{factor: float("nan")})
    the_job_goes_on()


@check
def factors_may_be_negative():
    same(hvd.allreduce(mine(), op=hvd.Sum, prescale_factor=-1.0, postscale_factor=2), reduced("sum") * -2)
    same(hvd.reducescatter(mine(shape=(hvd.size(), 2)), op=hvd.Sum, postscale_factor=-1),
         reduced("sum", shape=(hvd.size(), 2))[hvd.rank():hvd.rank() + 1] * -1)


@check
def a_reduction_is_one_of_those_that_there_are():
    for function in ALLREDUCES + GROUPED_ALLREDUCES:
        for op in (99, -1):
            assert f"reduction {op} does not exist" in raises(ValueError, submit, function, (2,), op=op)
        raises(TypeError, submit, function, (2,), op="Sum")
    for function in SCATTERING + GROUPED_SCATTERING:
        for op in (hvd.Min, hvd.Max, hvd.Product, hvd.Adasum, 99):
            text = raises(ValueError, submit, function, (2,), op=op)
            assert "Reducescatter currently only supports AVERAGE and SUM." in text, text
    the_job_goes_on()


@check
def average_means_the_same_in_every_form():
    for function in ALLREDUCES + GROUPED_ALLREDUCES:
        for average, name in ((True, "average"), (False, "sum")):
            result = submit(function, (3, 5), average=average)
            same(result[0] if function in GROUPED else result, reduced(name))
        text = raises(ValueError, submit, function, (2,), average=False, op=hvd.Sum)
        assert text == "The op parameter supersedes average. Please provide only one of them.", text
    the_job_goes_on()


@check
def factors_mean_the_same_in_every_form():
    size = hvd.size()
    for function in ALLREDUCES + GROUPED_ALLREDUCES + SCATTERING + GROUPED_SCATTERING:
        options = {"op": hvd.Sum, "prescale_factor": 3.0, "postscale_factor": 0.5}
        result = submit(function, (size, 2), **options)
        want = reduced("sum", shape=(size, 2)) * 1.5
        if function in SCATTERING + GROUPED_SCATTERING:
            want = want[hvd.rank():hvd.rank() + 1]
        same(result[0] if function in GROUPED else result, want)


@check
def every_form_takes_a_process_set():
    half = hvd.add_process_set(range(hvd.size() // 2, hvd.size())) if hvd.size() > 1 else hvd.global_process_set
    ranks, options = half.ranks, {"process_set": half}
    if half.included():
        rows = {"ranks": ranks, "shape": (len(ranks), 2)}
        shape = rows["shape"]
        for function in ALLREDUCES + GROUPED_ALLREDUCES:
            result = submit(function, shape, op=hvd.Sum, **options)
            same(result[0] if function in GROUPED else result, reduced("sum", **rows))
        for function in SCATTERING + GROUPED_SCATTERING:
            result = submit(function, shape, op=hvd.Sum, **options)
            same(result[0] if function in GROUPED else result,
                 reduced("sum", **rows)[half.rank():half.rank() + 1])
        for function in (hvd.allgather, hvd.allgather_async, hvd.grouped_allgather, hvd.grouped_allgather_async):
            result = submit(function, shape, **options)
            same(result[0] if function in GROUPED else result, torch.cat([of_rank(rank, shape=shape) for rank in ranks]))
        for function in BROADCASTS:
            same(submit(function, shape, root_rank=ranks[-1], **options), of_rank(ranks[-1], shape=shape))
        output, received = hvd.synchronize(hvd.alltoall_async(mine(shape=shape), [1] * len(ranks), **options))
        same(output, torch.cat([of_rank(rank, shape=shape)[half.rank():half.rank() + 1] for rank in ranks]))
        assert received.tolist() == [1] * len(ranks)
        hvd.barrier(half)
    else:
        for function in GROUPED + ALLREDUCES + SCATTERING:
            raises(ValueError, submit, function, (2,), **options)
    assert hvd.remove_process_set(half) is (hvd.size() > 1)
    the_job_goes_on()


@check
def a_process_set_has_to_be_registered():
    unknown = hvd.ProcessSet([0])
    assert (unknown.process_set_id, unknown.size(), unknown.rank(), unknown.included()) == (None, None, None, None)
    for _, call in calls():
        assert "is not registered" in raises(ValueError, call, process_set=unknown)
    assert "is not registered" in raises(ValueError, hvd.barrier, process_set=unknown)
    assert "is not registered" in raises(ValueError, hvd.remove_process_set, unknown)
    assert "is not registered" in raises(ValueError, hvd.broadcast_object, 1, process_set=unknown)
    gone = hvd.add_process_set([hvd.size() - 1]) if hvd.size() > 1 else None
    if gone:
        assert hvd.remove_process_set(gone) is True
        raises(ValueError, hvd.allreduce, mine(), process_set=gone)
        raises(ValueError, hvd.remove_process_set, gone)
    the_job_goes_on()


@check
def types_and_layouts_that_cannot_be_sent_are_named():
    eight = torch.ones(3).to(torch.float8_e4m3fn) if hasattr(torch, "float8_e4m3fn") else torch.zeros(3, dtype=torch.cfloat)
    for tensor in (eight, torch.eye(3).to_sparse_csr()):
        for function in ALLREDUCES + GATHERING + SCATTERING + BROADCASTS:
            text = raises(ValueError, submit_this, function, tensor)
            assert text.startswith("Tensor type ") and " is not supported. Send tensor." in text, text
    the_job_goes_on()


@check
def groups_without_names_go_on_after_refusals_and_calls_in_process_sets():
    last = hvd.add_process_set([hvd.size() - 1]) if hvd.size() > 1 else hvd.global_process_set
    if last.included():
        for function in (hvd.grouped_allreduce, hvd.grouped_allgather, hvd.grouped_reducescatter):
            submit(function, (2,), process_set=last)
    for function in (hvd.grouped_allreduce, hvd.grouped_allgather, hvd.grouped_reducescatter):
        if hvd.rank() == hvd.size() - 1:
            raises(ValueError, function, [mine(), torch.zeros(2, dtype=torch.complex64)])
        else:  # what one rank refuses is a call of every rank
            raises(hvd.HorovodInternalError, function, [mine(), mine()])
    for function in (hvd.grouped_allreduce, hvd.grouped_allgather, hvd.grouped_reducescatter):
        submit(function, (2,))
    same(hvd.grouped_allreduce([mine()], op=hvd.Sum)[0], reduced("sum"))
    assert hvd.remove_process_set(last) is (hvd.size() > 1)


def traced(function, path, **options):
    """The names of the tensors of a timeline that is written while a function runs, in their order."""
    hvd.barrier()
    hvd.start_timeline(str(path), **options)
    hvd.barrier()
    function()
    hvd.barrier()
    hvd.stop_timeline()
    hvd.barrier()
    if hvd.rank() != 0:
        return None
    events = json.loads(path.read_text(encoding="utf-8"))
    if options.get("mark_cycles"):
        assert any(event.get("name") == "CYCLE_START" for event in events), events
    names = [event["args"]["name"] for event in events if event.get("name") == "process_name"]
    return [name for name in names if "." in name and not name.startswith("barrier")]  # not the rank itself


@check
def a_timeline_has_the_names_that_were_given():
    def everything():
        for _, call in calls():
            call(name="x")

    path = pathlib.Path(os.environ["CHECK_RESULTS"], "timeline.json")
    names = traced(everything, path)
    if names is not None:
        words = ["allreduce", "allgather", "alltoall", "reducescatter", "broadcast"]
        groups = [f"grouped_{word}.x_{i}of2" for word in ("allreduce", "allgather", "reducescatter") for i in (1, 2)]
        assert sorted(set(names)) == sorted([f"{word}.x" for word in words] + groups), names


@check
def a_timeline_has_counted_names_where_none_were_given():
    path = pathlib.Path(os.environ["CHECK_RESULTS"], "timeline.json")
    names = traced(lambda: [call() for _, call in calls()], path, mark_cycles=True)
    if names is not None:
        for word, n in (("allreduce", 4), ("broadcast", 4), ("allgather", 2), ("alltoall", 2), ("reducescatter", 2)):
            assert sum(name.startswith(f"{word}.noname.") for name in names) == n, names
        for word, n in (("allreduce", 4), ("allgather", 2), ("reducescatter", 2)):
            ends = [name.partition("_")[2].partition("_")[2] for name in names
                    if name.startswith(f"grouped_{word}.noname.")]
            assert ends == ["2of2", "1of2"] * n, names  # a rank asks for the first one last


@check
def what_there_is_built_in_is_told():
    assert hvd.is_initialized() is True and hvd.mpi_threads_supported() is True
    assert (hvd.mpi_enabled(), hvd.mpi_built(), hvd.gloo_enabled(), hvd.gloo_built()) == (True, True, False, False)
    major, minor, patch = torch.cuda.nccl.version()  # PyTorch has brought it
    assert (hvd.nccl_built(), hvd.ddl_built(), hvd.ccl_built()) == (10000 * major + 100 * minor + patch, False, False)
    assert (hvd.cuda_built(), hvd.rocm_built()) == (False, False)
    assert (hvd.rank(), hvd.size()) == (hvd.local_rank(), hvd.local_size())
    assert (hvd.cross_rank(), hvd.cross_size()) == (0, 1) and mpi_ops.is_homogeneous() is True


@check
def a_second_start_or_stop_of_a_timeline_does_no_harm():
    path = pathlib.Path(os.environ["CHECK_RESULTS"], "again.json")
    hvd.stop_timeline()
    hvd.start_timeline(str(path))
    hvd.start_timeline(str(path))
    the_job_goes_on()
    hvd.stop_timeline()
    hvd.stop_timeline()
    if hvd.rank() == 0:
        assert json.loads(path.read_text(encoding="utf-8"))
        assert "cannot be written" in raises(ValueError, hvd.start_timeline, "/nowhere/timeline.json")
    the_job_goes_on()


def _calls_of(function):
    """How many functions, of Python and of C, this thread calls within a call."""
    calls = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, argument: calls.append(event) if event in ("call", "c_call") else None)
    try:
        function()
    finally:
        sys.setprofile(before)
    return len(calls)


@check
def a_group_takes_no_more_calls_than_its_tensors_one_by_one():
    for count in (1, 4, 16):
        tensors = [torch.ones(2 * hvd.size(), 3) for _ in range(count)]
        for word, group, one in (("allreduce", hvd.grouped_allreduce_async, hvd.allreduce_async),
                                 ("allreduce_", hvd.grouped_allreduce_async_, hvd.allreduce_async_),
                                 ("allgather", hvd.grouped_allgather_async, hvd.allgather_async),
                                 ("reducescatter", hvd.grouped_reducescatter_async, hvd.reducescatter_async)):
            members = _calls_of(lambda: [hvd.synchronize(handle) for handle in [
                one(tensor, name=f"{word} {count} {i}") for i, tensor in enumerate(tensors)]])  # pylint: disable=cell-var-from-loop
            whole = _calls_of(lambda: hvd.synchronize(group(tensors, name=f"{word} {count}")))  # pylint: disable=cell-var-from-loop
            assert whole <= members + (word == "allreduce_"), (word, count, whole, members)  # which is a look at the group
        for group, one in ((hvd.grouped_allreduce, hvd.allreduce), (hvd.grouped_reducescatter, hvd.reducescatter)):
            how = {"compression": hvd.Compression.fp16}
            members = _calls_of(lambda: [one(tensor, **how) for tensor in tensors])  # pylint: disable=cell-var-from-loop
            whole = _calls_of(lambda: group(tensors, **how))  # pylint: disable=cell-var-from-loop
            assert whole <= members + 2, (group, count, whole, members)  # what makes a group of what is given, and a list of results
