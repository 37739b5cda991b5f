"""Checks of groups that the last rank has otherwise than the others: an error on all ranks at once, and the job goes on.

Each kind comes three times by one name, so that the group before is known by bits the second time, and without names.
"""
import re

import torch
from checks import Skip, check, raises
from contract import GROUPS, done
from errors import the_job_goes_on

import horovod.torch as hvd

NAMES = ("differs", None)


def of_sizes(*sizes, dtype=torch.float32):
    return [torch.ones(size, 2, dtype=dtype) for size in sizes]


def ranks(first, last):
    """What a message calls the ranks first to last - 1."""
    return f"rank {first}" if last - first == 1 else f"ranks {first}-{last - 1}"


def differ(last, others, words):
    """All ranks get the words, in which {others} are the ranks but the last, where the last rank has another group."""
    if hvd.size() == 1:
        raise Skip("one rank has nobody to differ from")
    mine = last if hvd.rank() == hvd.size() - 1 else others
    words = words.replace("{others}", ranks(0, hvd.size() - 1)).replace("{last}", ranks(hvd.size() - 1, hvd.size()))
    for call, function in GROUPS.items():
        word = re.match("grouped_([a-z]*)", call)[0]
        for name in NAMES:
            for turn in range(3):
                text = raises((hvd.HorovodInternalError, ValueError), lambda: done(call, function([t.clone() for t in mine], name=name)))
                named = f"{word}.{name or 'noname'}"
                if mine or "needs at least" not in text:
                    assert re.search(words.replace("{name}", re.escape(named) + r"(\.\d+)?"), text), (call, name, text)
                sums = [done(call, function(of_sizes(8, 4), name=name)) for _ in range(turn)]  # what follows is of all ranks
                assert all(len(each) == 2 for each in sums), (call, sums)
    the_job_goes_on()


@check
def a_rank_with_fewer_tensors_in_a_group_is_named():
    differ(of_sizes(4, 2), of_sizes(4, 2, 6), r"Mismatched number of tensors in group {name}: 3 on {others}; 2 on {last}\.")


@check
def a_rank_with_more_tensors_in_a_group_is_named():
    differ(of_sizes(4, 2, 6, 8), of_sizes(4), r"Mismatched number of tensors in group {name}: 1 on {others}; 4 on {last}\.")


@check
def a_rank_without_tensors_in_a_group_is_named():
    differ([], of_sizes(4, 2, 6),
           r"Mismatched number of tensors in group {name}: 3 on {others}; none on {last}\. Rank \d on host \S+ refused "
           r"tensor {name}_1of0: A group needs at least one tensor\.")


@check
def a_rank_that_alone_has_tensors_in_a_group_gets_the_reason_of_the_others():
    differ(of_sizes(4, 2), [], r"Mismatched number of tensors in group {name}: none on {others}; 2 on {last}\. Rank \d on host ")


@check
def every_number_is_told_with_its_ranks():
    if hvd.size() < 3:
        raise Skip("it takes three ranks to have three numbers of tensors")
    text = raises(hvd.HorovodInternalError, hvd.grouped_allreduce, of_sizes(*[2] * (hvd.rank() + 1)), name="many")
    told = "; ".join(f"{rank + 1} on rank {rank}" for rank in range(hvd.size()))
    assert text.endswith(f"Mismatched number of tensors in group grouped_allreduce.many: {told}."), text
    the_job_goes_on()


@check
def a_group_in_another_order_is_a_mismatch_of_its_tensors():
    if hvd.size() == 1:
        raise Skip("one rank has nobody to differ from")
    sizes = (2, 6, 4) if hvd.rank() == hvd.size() - 1 else (6, 2, 4)
    for name in NAMES:
        for _ in range(2):
            text = raises(hvd.HorovodInternalError, hvd.grouped_allreduce, of_sizes(*sizes), name=name)
            assert re.search(r"Mismatched ALLREDUCE tensor shapes: One rank sent a tensor of shape \[[26], 2\], but another", text), text
            assert len(hvd.grouped_allreduce(of_sizes(4, 2), name=name)) == 2
    the_job_goes_on()


@check
def a_group_of_other_shapes_or_types_is_a_mismatch_of_its_tensors():
    differ(of_sizes(4, 2, dtype=torch.float64), of_sizes(4, 2), "Mismatched data types: One rank had type float(32|64), but another")
    differ([torch.ones(4, 2), torch.ones(4, 3)], of_sizes(4, 4), r"Mismatched \w+ tensor shapes: One rank sent a tensor (of shape|with)")
