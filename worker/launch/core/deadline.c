/*
 * Limits the time of mpirun to end after a rank has failed. mpirun ends by itself unless it waits
 * for a daemon that it cannot reach, or has lost a process that was starting. Each look adds a
 * bounded step to the time. So the time in which the launcher was stopped, or waited for the reader
 * of its output, does not count against mpirun.
 */
#include "worker/launch/core/deadline.h"

enum hvd_deadline_step hvd_deadline_look(struct hvd_deadline *deadline, int64_t now_ms,
                                         bool is_ending, bool is_held)
{
    const int64_t end_ms = deadline->grace_ms + HVD_DEADLINE_END_MS;
    const int64_t passed_ms = deadline->last_ms > 0 ? now_ms - deadline->last_ms : 0;
    enum hvd_deadline_step step = HVD_DEADLINE_WAIT;

    if (!is_ending)
        return HVD_DEADLINE_WAIT;
    deadline->last_ms = now_ms;
    if (!is_held)
        deadline->waited_ms += passed_ms < HVD_DEADLINE_LOOK_MS ? passed_ms : HVD_DEADLINE_LOOK_MS;
    if (deadline->waited_ms >= end_ms + HVD_DEADLINE_STOP_MS)
        step = HVD_DEADLINE_KILL;
    else if (deadline->waited_ms >= end_ms)
        step = HVD_DEADLINE_STOP;
    if (step == deadline->last)
        return HVD_DEADLINE_WAIT;
    deadline->last = step;
    return step;
}
