"""Bugs planted into copies of the adapter for GPUs: the doubles of the driver and of NCCL must find each in a short program, and name
its class. A copy of one file is changed, compiled without optimisation, and linked in front of the adapter."""
import re

import pytest

from compiling import ROOT, compile_copy, link, run

PROGRAM = "test_worker_device_short"
SECONDS = 120
ADAPTER = ROOT / "worker" / "device" / "cuda"

# name: file, text, text with the bug, what the double reports. Each text is in its file once.
BUGS = {
    "an input is read before it is ready": (
        "copy.c", "if (!is_covered(item, i))", "if (!is_covered(item, i) && !item)", r"race: .* unordered"),
    "a buffer is packed while it moves": (
        "move.c", "    if (b->memory)\n        st = driver(l, cu->cuStreamWaitEvent(set->pack.stream, b->free, 0), "
        "\"cuStreamWaitEvent\",\n                    err);\n", "", r"race: .* unordered"),
    "a result is unpacked before the pack stream is joined": (
        "move.c", "return st == HVD_OK && packs ? join_streams(l, err) : st;", "return st;", r"race: .* unordered"),
    "packing overtakes earlier work with the same memory": (
        "move.c", "            l->is_behind = true;\n        if (p->input", "            l->is_behind = false;\n        if (p->input", r"race: .* unordered"),
    "an output is freed while its collective runs": (
        "device.c", "    if (after)\n        (void)g->library->cu.cuStreamWaitEvent(",
        "    if (after && !g)\n        (void)g->library->cu.cuStreamWaitEvent(", r"free in flight: "),
    "a table is rewritten while it is uploaded": (
        "tables.c", "return !hvd_cuda_is_done(set->pack.done, t->last[0]) ||",
        "return false && !hvd_cuda_is_done(set->pack.done, t->last[0]) ||\n           false &&",
        r"host memory changed before its copy: "),
    "a buffer is freed at once": (
        "move.c", "    b->bytes = room;\n", "    b->bytes = room;\n    (void)cu->cuMemFreeAsync(b->memory, set->pack.stream);\n",
        r"use after free: "),
    "an event is destroyed that is used again": (
        "events.c", "    event_of(event)->next = g->free_events;\n",
        "    event_of(event)->next = g->free_events;\n    (void)g->library->cu.cuEventDestroy_v2(event_of(event)->event);\n",
        r"bad handle: "),
    "a message is longer than its buffer": (
        "move.c", "(size_t)p->count, err);\n        if (is_in_buffer)", "(size_t)p->count + 1, err);\n        if (is_in_buffer)",
        r"out of bounds: "),
    "the thread that launches has no context": (
        "sets.c", "    hvd_cuda_queue_serve(&set->queue);", "    hvd_cuda_leave(g);\n    hvd_cuda_queue_serve(&set->queue);",
        r"wrong context: "),
    "a captured stream is not refused": (
        "events.c", "if (result == HVD_CU_STREAM_CAPTURE_IMPLICIT || state != HVD_CU_CAPTURE_NONE)", "if (!g)",
        r"call on a capturing stream: "),
    "the thread that launches breaks captures": (
        "sets.c", "(void)g->library->cu.cuThreadExchangeStreamCaptureMode(&mode);", "(void)mode;", r"capture broken: "),
    "a kernel is loaded at its first launch": (
        "device.c", "if (st == HVD_OK)\n            st = hvd_cuda_check(\n                g, cu->cuFuncGetAttribute(",
        "if (!g)\n            st = hvd_cuda_check(\n                g, cu->cuFuncGetAttribute(",
        r"wait for the device beside a collective: "),
    "a rank has another type": (
        "move.c", "l.type = hvd_route_type(l.c->op, l.c->dtype, &l.scale);",
        "l.type = l.set->rank == 1 ? HVD_NCCL_INT32 : hvd_route_type(l.c->op, l.c->dtype, &l.scale);",
        r"mismatch between ranks: .* of type 2"),
    "a rank has another count": (
        "reduce.c", "ncclAllReduce(input, output, count, ", "ncclAllReduce(input, output, count - (set->rank == 1), ",
        r"mismatch between ranks: .* has 29999\d elements|mismatch between ranks: .* with 29999\d of"),
    "a rank has another operation": (
        "reduce.c", "count, r->type, r->op,\n                                                      set->comm",
        "count, r->type, set->rank == 1 ? HVD_NCCL_MAX : r->op,\n                                                      set->comm",
        r"mismatch between ranks: .* operation 2"),
    "a rank has another root": (
        "move.c", "                                                  l->c->root, l->set->comm",
        "                                                  l->set->rank == 1 ? 0 : l->c->root, l->set->comm",
        r"mismatch between ranks: .* root "),
    "sets take more multiprocessors than there are": (
        "sets.c", ".max_ctas = set->max_ctas,", ".max_ctas = HVD_NCCL_CONFIG_UNSET,", r"launch order: "),
    "an aborted communicator is destroyed": (
        "failure.c", "        set->is_aborted = true;\n", "", r"use after abort: ncclCommDestroy"),
    "an event is not destroyed": (
        "events.c", "(void)g->library->cu.cuEventDestroy_v2(event->event);", "", r"leak: event"),
    "a communicator is not aborted": (
        "failure.c", "(void)n->ncclCommAbort(a->comms[i]);", "(void)n;", r"leak: communicator"),
}


def compile_changed(name, folder):
    """The object file of the adapter's source with the bug in it."""
    file, text, planted, _ = BUGS[name]
    source = (ADAPTER / file).read_text(encoding="utf-8")
    assert source.count(text) == 1, f"{file} is not as it was when '{name}' was planted: correct BUGS"
    return compile_copy(ADAPTER / file, source.replace(text, planted), folder, " -O0", SECONDS)


@pytest.mark.parametrize("name", BUGS)
def test_the_doubles_find_a_planted_bug(name, tmp_path):
    link(PROGRAM, compile_changed(name, tmp_path), tmp_path / "short", SECONDS)
    done = run([tmp_path / "short"], SECONDS)
    assert done.returncode != 0, "nothing was found"
    assert re.search(r"^fake gpu: (" + BUGS[name][3] + ")", done.stderr, re.M), done.stdout + done.stderr


def test_every_class_of_finding_about_the_adapter_has_a_bug():
    header = (ROOT / "tests" / "fake" / "gpu" / "control.h").read_text(encoding="utf-8")
    classes = set(re.findall(r'X\(\w+, "([a-z ]+)"\)', header)) - {"read of memory without a value", "bad kernel"}
    assert {pattern.split(":")[0] for *_, pattern in BUGS.values()} == classes
