/*
 * The text of a flight recorder's dump for human readers: one event per line, oldest first.
 */
#include "worker/telemetry/core/recorder_dump.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

hvd_status_t hvd_recorder_dump_add_head(const struct hvd_recorder_dump_head *head,
                                        struct hvd_buf *out)
{
    return hvd_buf_printf(
        out,
        "flight recorder of rank %d of %d at %s: %s\n"
        "the last %" PRIu64 " of %" PRIu64 " events, and how long before this they happened:\n",
        head->rank, head->size, head->when, head->why, head->n_events, head->n_recorded);
}

/* Describes the kind of event, before the name. */
static void describe(const struct hvd_event *e, char *out, size_t size)
{
    switch (e->kind) {
    case HVD_EVENT_READY:
        snprintf(out, size, "rank %d asks for %s", (int)e->detail, hvd_event_op_name(e, false));
        break;
    case HVD_EVENT_PLAN:
        out[0] = '\0';
        break;
    case HVD_EVENT_STALLED:
        snprintf(out, size, "%d tensors:", (int)e->detail);
        break;
    case HVD_EVENT_LOST:
        snprintf(out, size, "rank %d:", (int)e->detail);
        break;
    case HVD_EVENT_FAILED:
        out[0] = '\0';
        break;
    case HVD_EVENT_DONE:
        snprintf(out, size, "%s (%s)", hvd_event_op_name(e, false),
                 hvd_status_str((hvd_status_t)e->detail));
        break;
    default:
        snprintf(out, size, "%s %s", hvd_event_op_name(e, false), hvd_dtype_name(e->dtype));
    }
}

hvd_status_t hvd_recorder_dump_add(const struct hvd_note *note, int64_t age_ns, struct hvd_buf *out)
{
    const struct hvd_event *e = &note->event;
    char what[96];
    char name[HVD_NAME_MAX + 1];

    describe(e, what, sizeof(what));
    snprintf(name, sizeof(name), "%s", note->name);
    for (char *c = name; *c; c++)
        if (iscntrl((unsigned char)*c))
            *c = '?';
    return hvd_buf_printf(out, "%16.6f ms  %-9s %s %s\n", (double)age_ns / 1e6,
                          hvd_event_kind_name(e->kind), what, name);
}
