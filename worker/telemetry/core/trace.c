/*
 * The timeline's state machine, one lane per tensor name:
 *
 *     IDLE ──ready, submitted──> NEGOTIATING ──agreed──> OPERATING ──done──> IDLE
 *
 * A lane's `id` is that of the tensor that is submitted now. Events with an unknown id belong to
 * tensors whose beginning was not recorded, and are omitted. Cached tensors also have slots, and
 * share events, which are split here.
 */
#include "worker/telemetry/core/trace.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "worker/core/names.h"
#include "worker/telemetry/core/json.h"

enum lane_state { IDLE, NEGOTIATING, OPERATING };

struct lane;

/* Maps the id of the tensor that is submitted now to its lane. */
struct id_link {
    struct hvd_named named;
    uint64_t id; /* 0: none, and not in the map */
    struct lane *lane;
};

struct lane {
    struct hvd_named named;
    struct id_link link;
    int64_t pid;
    enum lane_state state;
    bool in_activity;
    struct hvd_event event;
    int64_t shape[HVD_NDIM_MAX];
    char name[];
};

/* A cached tensor. */
struct slot {
    struct lane *lane; /* none of its events is in this file yet */
    struct hvd_event event;
    int64_t shape[HVD_NDIM_MAX];
    char name[];
};

/* The cached tensors of a process set. */
struct slots {
    struct slot **at; /* by index; owned */
    uint32_t n;
};

struct hvd_trace {
    struct hvd_trace_options options;
    struct hvd_names lanes;
    struct hvd_names ids;
    int64_t n_lanes;
    struct slots *sets; /* by number; owned */
    uint32_t n_sets;
    int n_phases; /* of the program that are open */
    char phases[HVD_TRACE_PHASES_MAX][HVD_TRACE_PHASE_BYTES];
};

/* A record under construction, and its destination. */
struct record {
    struct hvd_json json;
    struct hvd_buf *lines;
    hvd_status_t status; /* the first failure */
};

static void open_record(struct record *r, const char *phase, int64_t pid, int64_t ns)
{
    r->json.len = 0;
    hvd_json_raw(&r->json, "{\"ph\":\"");
    hvd_json_raw(&r->json, phase);
    hvd_json_raw(&r->json, "\",\"pid\":");
    hvd_json_int(&r->json, pid);
    hvd_json_raw(&r->json, ",\"tid\":0");
    if (phase[0] != 'M') {
        hvd_json_raw(&r->json, ",\"ts\":");
        hvd_json_micros(&r->json, ns);
    }
}

static void put_name(struct record *r, const char *prefix, const char *name)
{
    hvd_json_raw(&r->json, ",\"name\":\"");
    hvd_json_raw(&r->json, prefix);
    hvd_json_raw(&r->json, name);
    hvd_json_raw(&r->json, "\"");
}

static void close_record(struct record *r)
{
    hvd_json_raw(&r->json, "}\n");
    hvd_status_t st = hvd_buf_add(r->lines, r->json.text, r->json.len);
    if (r->status == HVD_OK)
        r->status = st;
}

static void begin(struct record *r, const struct lane *lane, const char *prefix, const char *name,
                  int64_t ns)
{
    open_record(r, "B", lane->pid, ns);
    put_name(r, prefix, name);
    close_record(r);
}

static void end(struct record *r, const struct lane *lane, int64_t ns)
{
    open_record(r, "E", lane->pid, ns);
    close_record(r);
}

/* --- Lanes ------------------------------------------------------------------------------------ */

static struct hvd_strview id_key(const uint64_t *id)
{
    return (struct hvd_strview){(const char *)id, sizeof(*id)};
}

static struct lane *find_id(const struct hvd_trace *trace, uint64_t id)
{
    struct hvd_named *found = id ? hvd_names_find(&trace->ids, id_key(&id)) : NULL;

    return found ? ((struct id_link *)found)->lane : NULL;
}

static void forget_id(struct hvd_trace *trace, struct lane *lane)
{
    if (lane->link.id != 0)
        hvd_names_remove(&trace->ids, &lane->link.named);
    lane->link.id = 0;
}

/* Sets the id of a lane. If memory runs out, the tensor has no id, and its further events are
 * omitted. */
static void set_id(struct hvd_trace *trace, struct lane *lane, uint64_t id)
{
    struct lane *other = find_id(trace, id);

    if (other)
        forget_id(trace, other);
    forget_id(trace, lane);
    lane->link.id = id;
    if (id != 0 && !hvd_names_add(&trace->ids, id_key(&lane->link.id), &lane->link.named))
        lane->link.id = 0;
}

static void announce(struct record *r, const struct lane *lane)
{
    open_record(r, "M", lane->pid, 0);
    put_name(r, "", "process_name");
    hvd_json_raw(&r->json, ",\"args\":{\"name\":");
    hvd_json_string(&r->json, hvd_strview_of(lane->name));
    hvd_json_raw(&r->json, "}");
    close_record(r);
    open_record(r, "M", lane->pid, 0);
    put_name(r, "", "process_sort_index");
    hvd_json_raw(&r->json, ",\"args\":{\"sort_index\":");
    hvd_json_int(&r->json, lane->pid);
    hvd_json_raw(&r->json, "}");
    close_record(r);
}

static struct lane *add_lane(struct hvd_trace *trace, struct record *r, struct hvd_strview name)
{
    struct lane *lane = hvd_calloc(1, sizeof(*lane) + name.len + 1);

    if (!lane)
        return NULL;
    memcpy(lane->name, name.data, name.len);
    lane->link.lane = lane;
    lane->pid = trace->n_lanes + 1;
    name.data = lane->name;
    if (!hvd_names_add(&trace->lanes, name, &lane->named)) {
        hvd_free(lane);
        return NULL;
    }
    trace->n_lanes++;
    announce(r, lane);
    return lane;
}

static struct lane *get_lane(struct hvd_trace *trace, struct record *r, struct hvd_strview name)
{
    struct lane *lane = (struct lane *)hvd_names_find(&trace->lanes, name);

    if (!lane && trace->n_lanes >= HVD_TRACE_LANES_MAX) {
        name = hvd_strview_of("(other tensors)");
        lane = (struct lane *)hvd_names_find(&trace->lanes, name);
    }
    if (!lane)
        lane = add_lane(trace, r, name);
    if (!lane)
        r->status = HVD_ERR_NOMEM;
    return lane;
}

/* --- Events ----------------------------------------------------------------------------------- */

static void end_activity(struct record *r, struct lane *lane, int64_t ns)
{
    if (lane->in_activity)
        end(r, lane, ns);
    lane->in_activity = false;
}

/* Writes the arguments of the end of a tensor, or of its negotiation. */
static void put_arguments(struct record *r, const struct lane *lane, int status)
{
    const struct hvd_event *e = &lane->event;

    hvd_json_raw(&r->json, ",\"args\":{\"dtype\":\"");
    hvd_json_raw(&r->json, hvd_dtype_name(e->dtype));
    hvd_json_raw(&r->json, "\",\"shape\":\"[");
    for (int i = 0; i < e->ndim; i++) {
        hvd_json_raw(&r->json, i ? ", " : "");
        hvd_json_int(&r->json, lane->shape[i]);
    }
    hvd_json_raw(&r->json, "]\"");
    if (status != HVD_OK) {
        hvd_json_raw(&r->json, ",\"error\":\"");
        hvd_json_raw(&r->json, hvd_status_str((hvd_status_t)status));
        hvd_json_raw(&r->json, "\"");
    }
    hvd_json_raw(&r->json, "}");
}

/* Closes the open records of the lane. */
static void finish(struct record *r, struct lane *lane, int status, int64_t ns)
{
    end_activity(r, lane, ns);
    if (lane->state != IDLE) {
        open_record(r, "E", lane->pid, ns);
        if (lane->state == OPERATING || status != HVD_OK)
            put_arguments(r, lane, status);
        close_record(r);
    }
    lane->state = IDLE;
}

static void start_negotiating(struct record *r, struct lane *lane, const struct hvd_event *event,
                              int64_t ns)
{
    if (lane->state == OPERATING) /* its end was lost */
        finish(r, lane, HVD_OK, ns);
    if (lane->state == IDLE)
        begin(r, lane, "NEGOTIATE_", hvd_event_op_name(event, false), ns);
    lane->state = NEGOTIATING;
}

static void add_ready(struct record *r, struct lane *lane, const struct hvd_event *event,
                      int64_t ns)
{
    char rank[16];

    /* A rank may request the tensor again before its last collective has ended here. */
    if (lane->state == IDLE)
        start_negotiating(r, lane, event, ns);
    snprintf(rank, sizeof(rank), "%d", (int)event->detail);
    open_record(r, "X", lane->pid, ns);
    put_name(r, "", rank);
    hvd_json_raw(&r->json, ",\"dur\":0");
    close_record(r);
}

/* Begins the transfer over the transport of that name: MPI_ALLREDUCE. Or the step of that whole
 * name: NCCL_REDUCESCATTER of an allreduce. */
static void begin_transfer(struct record *r, const struct lane *lane, const char *transport,
                           int64_t ns)
{
    char prefix[32];

    const bool is_whole = strchr(transport, '_') != NULL;

    snprintf(prefix, sizeof(prefix), is_whole ? "%.31s" : "%.15s_", transport);
    for (char *c = prefix; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    begin(r, lane, prefix, is_whole ? "" : hvd_event_op_name(&lane->event, true), ns);
}

/* Adds an event of a tensor whose id is known to its lane. */
static void advance(struct record *r, struct lane *lane, const struct hvd_note *note, int64_t ns)
{
    if (lane->state == NEGOTIATING) {
        end(r, lane, ns);
        begin(r, lane, "", hvd_event_op_name(&lane->event, false), ns);
        lane->state = OPERATING;
    }
    end_activity(r, lane, ns);
    if (note->event.kind == HVD_EVENT_AGREED)
        begin(r, lane, "", "QUEUE", ns);
    else
        begin_transfer(r, lane, note->name, ns);
    lane->in_activity = true;
}

/* --- Cached tensors --------------------------------------------------------------------------- */

#define SLOTS_MAX (1U << 24)

/* Finds the place of a slot of a set; NULL when there is none. */
static struct slot **find_slot(struct hvd_trace *trace, uint64_t id)
{
    const uint32_t set = (uint32_t)(id >> 32);
    const uint32_t index = (uint32_t)id;

    return set < trace->n_sets && index < trace->sets[set].n ? &trace->sets[set].at[index] : NULL;
}

/* Finds or creates the place of a slot. NULL when out of memory. */
static struct slot **make_slot(struct hvd_trace *trace, uint64_t id)
{
    const uint32_t set = (uint32_t)(id >> 32);
    const uint32_t index = (uint32_t)id;

    if (index >= SLOTS_MAX || set >= SLOTS_MAX)
        return NULL;
    if (set >= trace->n_sets) {
        struct slots *sets = hvd_realloc(trace->sets, set + 1, sizeof(*sets));
        if (!sets)
            return NULL;
        memset(sets + trace->n_sets, 0, (set + 1 - trace->n_sets) * sizeof(*sets));
        trace->sets = sets;
        trace->n_sets = set + 1;
    }
    struct slots *slots = &trace->sets[set];
    if (index >= slots->n) {
        const uint32_t n = index < 32 ? 64 : index * 2;
        struct slot **at = hvd_realloc(slots->at, n, sizeof(struct slot *));
        if (!at)
            return NULL;
        memset(at + slots->n, 0, (n - slots->n) * sizeof(struct slot *));
        slots->at = at;
        slots->n = n;
    }
    return &slots->at[index];
}

/* Stores a tensor in a slot. */
static hvd_status_t add_slot(struct hvd_trace *trace, const struct hvd_note *note)
{
    struct slot **at = make_slot(trace, note->event.id);
    struct slot *slot = at ? hvd_calloc(1, sizeof(*slot) + note->event.name_len + 1U) : NULL;

    if (!slot)
        return HVD_ERR_NOMEM;
    slot->event = note->event;
    memcpy(slot->shape, note->shape, sizeof(slot->shape));
    memcpy(slot->name, note->name, note->event.name_len);
    hvd_free(*at);
    *at = slot;
    return HVD_OK;
}

/* Returns the lane of a cached tensor; NULL when out of memory. */
static struct lane *lane_of(struct hvd_trace *trace, struct record *r, struct slot *slot)
{
    if (!slot->lane)
        slot->lane = get_lane(trace, r, hvd_strview_of(slot->name));
    if (slot->lane && slot->lane->state == IDLE) {
        slot->lane->event = slot->event;
        memcpy(slot->lane->shape, slot->shape, sizeof(slot->shape));
    }
    return slot->lane;
}

/* Adds an event of many cached tensors to one of them. */
static void add_of_slot(struct hvd_trace *trace, struct record *r, struct slot *slot,
                        const struct hvd_note *note, int64_t ns)
{
    struct lane *lane = lane_of(trace, r, slot);
    struct hvd_note one;

    if (!lane)
        return;
    switch (note->event.kind) {
    case HVD_EVENT_REQUESTED:
        start_negotiating(r, lane, &slot->event, ns);
        break;
    case HVD_EVENT_READY:
        one.event = slot->event;
        one.event.detail = note->event.detail;
        add_ready(r, lane, &one.event, ns);
        break;
    case HVD_EVENT_AGREED:
    case HVD_EVENT_STARTED:
        if (lane->state == IDLE) /* this rank has joined and lacks the tensor */
            break;
        one.event.kind = note->event.kind;
        snprintf(one.name, sizeof(one.name), "%s",
                 note->name + note->event.n_words * sizeof(uint64_t));
        advance(r, lane, &one, ns);
        break;
    default:
        finish(r, lane, note->event.detail, ns);
        forget_id(trace, lane);
    }
}

/* Adds an event of many cached tensors to each of them. */
static void add_slots(struct hvd_trace *trace, struct record *r, const struct hvd_note *note,
                      int64_t ns)
{
    for (uint32_t w = 0; w < note->event.n_words; w++) {
        uint64_t bits;
        memcpy(&bits, note->name + w * sizeof(bits), sizeof(bits));
        for (; bits != 0; bits &= bits - 1) {
            const uint32_t index =
                ((uint32_t)note->event.id + w) * 64 + (uint32_t)__builtin_ctzll(bits);
            struct slot **slot =
                find_slot(trace, hvd_event_slot_id((uint32_t)(note->event.id >> 32), index));
            if (slot && *slot)
                add_of_slot(trace, r, *slot, note, ns);
        }
    }
}

static void forget_slots(struct hvd_trace *trace)
{
    for (uint32_t set = 0; set < trace->n_sets; set++) {
        for (uint32_t i = 0; i < trace->sets[set].n; i++)
            hvd_free(trace->sets[set].at[i]);
        hvd_free(trace->sets[set].at);
    }
    hvd_free(trace->sets);
}

/* Adds an event of the job, across all lanes. */
static void add_mark(struct record *r, const char *name, const struct hvd_note *note, int64_t ns)
{
    open_record(r, "i", 0, ns);
    put_name(r, "", name);
    hvd_json_raw(&r->json, ",\"s\":\"g\"");
    if (note && note->event.name_len > 0) {
        hvd_json_raw(&r->json, ",\"args\":{\"text\":");
        hvd_json_string(&r->json, (struct hvd_strview){note->name, note->event.name_len});
        hvd_json_raw(&r->json, "}");
    }
    close_record(r);
}

/* --- Phases of the program -------------------------------------------------------------------- */

/* Ends open phases until n_left are left. */
static void end_phases(struct hvd_trace *trace, struct record *r, int n_left, int64_t ns)
{
    while (trace->n_phases > n_left) {
        open_record(r, "E", 0, ns);
        close_record(r);
        trace->n_phases--;
    }
}

static void begin_phase(struct hvd_trace *trace, struct record *r, const char *name, int64_t ns)
{
    if (trace->n_phases == HVD_TRACE_PHASES_MAX)
        return;
    snprintf(trace->phases[trace->n_phases++], HVD_TRACE_PHASE_BYTES, "%.*s",
             HVD_TRACE_PHASE_BYTES - 1, name);
    open_record(r, "B", 0, ns);
    hvd_json_raw(&r->json, ",\"name\":");
    hvd_json_string(&r->json, hvd_strview_of(name));
    close_record(r);
}

/* Adds a phase. If it begins while open, its end was lost, and so were the ends of those in it. If
 * it ends while not open, it began before the timeline. */
static void add_phase(struct hvd_trace *trace, struct record *r, const struct hvd_note *note,
                      int64_t ns)
{
    char name[HVD_TRACE_PHASE_BYTES];

    snprintf(name, sizeof(name), "%.*s", HVD_TRACE_PHASE_BYTES - 1, note->name);
    for (int i = trace->n_phases - 1; i >= 0; i--)
        if (strcmp(trace->phases[i], name) == 0)
            end_phases(trace, r, i, ns);
    if (note->event.detail != 0)
        begin_phase(trace, r, name, ns);
}

hvd_status_t hvd_trace_add(struct hvd_trace *trace, const struct hvd_note *note, int64_t ns,
                           struct hvd_buf *lines)
{
    const struct hvd_event *event = &note->event;
    const struct hvd_strview name = {note->name, event->name_len};
    struct record r = {.lines = lines};
    struct lane *lane;

    if (event->n_words > 0) {
        add_slots(trace, &r, note, ns);
        return r.status;
    }
    switch (event->kind) {
    case HVD_EVENT_SLOT:
        return add_slot(trace, note);
    case HVD_EVENT_READY:
        lane = get_lane(trace, &r, name);
        if (lane)
            add_ready(&r, lane, event, ns);
        break;
    case HVD_EVENT_SUBMITTED:
        lane = get_lane(trace, &r, name);
        if (!lane)
            break;
        start_negotiating(&r, lane, event, ns);
        set_id(trace, lane, event->id);
        lane->event = *event;
        memcpy(lane->shape, note->shape, sizeof(lane->shape));
        break;
    case HVD_EVENT_AGREED:
    case HVD_EVENT_STARTED:
        lane = find_id(trace, event->id);
        if (lane)
            advance(&r, lane, note, ns);
        break;
    case HVD_EVENT_DONE:
        lane = find_id(trace, event->id);
        if (lane)
            finish(&r, lane, event->detail, ns);
        if (lane)
            forget_id(trace, lane);
        break;
    case HVD_EVENT_PLAN:
        if (trace->options.marks_cycles)
            add_mark(&r, "CYCLE_START", NULL, ns);
        break;
    case HVD_EVENT_MARK:
        add_phase(trace, &r, note, ns);
        break;
    default:
        add_mark(&r, hvd_event_kind_name(event->kind), note, ns);
    }
    return r.status;
}

hvd_status_t hvd_trace_add_dropped(struct hvd_trace *trace, uint64_t n, int64_t ns,
                                   struct hvd_buf *lines)
{
    struct record r = {.lines = lines};

    (void)trace;
    open_record(&r, "i", 0, ns);
    put_name(&r, "", "DROPPED");
    hvd_json_raw(&r.json, ",\"s\":\"g\",\"args\":{\"events\":");
    hvd_json_int(&r.json, (int64_t)n);
    hvd_json_raw(&r.json, "}");
    close_record(&r);
    return r.status;
}

hvd_status_t hvd_trace_close(struct hvd_trace *trace, int64_t ns, struct hvd_buf *lines)
{
    struct record r = {.lines = lines};

    for (struct hvd_named *at = trace->lanes.first; at; at = hvd_names_next(at)) {
        struct lane *lane = (struct lane *)at;
        end_activity(&r, lane, ns);
        if (lane->state == IDLE)
            continue;
        open_record(&r, "E", lane->pid, ns);
        hvd_json_raw(&r.json, ",\"args\":{\"unfinished\":true}");
        close_record(&r);
        lane->state = IDLE;
    }
    end_phases(trace, &r, 0, ns);
    return r.status;
}

static void forget_all(struct hvd_trace *trace)
{
    struct hvd_named *first;

    while ((first = trace->lanes.first)) {
        struct lane *lane = (struct lane *)first;
        forget_id(trace, lane);
        hvd_names_remove(&trace->lanes, first);
        hvd_free(lane);
    }
    trace->n_lanes = 0;
    trace->n_phases = 0;
    for (uint32_t set = 0; set < trace->n_sets; set++)
        for (uint32_t i = 0; i < trace->sets[set].n; i++)
            if (trace->sets[set].at[i])
                trace->sets[set].at[i]->lane = NULL;
}

/* Writes the job's size, and the writer's host and program: fields that viewers do not show. */
static void put_writer(struct record *r, const struct hvd_trace_options *o)
{
    if (o->size > 0) {
        hvd_json_raw(&r->json, ",\"size\":");
        hvd_json_int(&r->json, o->size);
    }
    if (o->host && *o->host) {
        hvd_json_raw(&r->json, ",\"host\":");
        hvd_json_string(&r->json, hvd_strview_of(o->host));
    }
    if (o->program && *o->program) {
        hvd_json_raw(&r->json, ",\"program\":");
        hvd_json_string(&r->json, hvd_strview_of(o->program));
    }
}

hvd_status_t hvd_trace_open(struct hvd_trace *trace, struct hvd_buf *lines)
{
    struct record r = {.lines = lines};

    forget_all(trace);
    open_record(&r, "M", 0, 0);
    put_name(&r, "", "process_name");
    hvd_json_raw(&r.json, ",\"args\":{\"name\":\"rank ");
    hvd_json_int(&r.json, trace->options.rank);
    hvd_json_raw(&r.json, "\",\"rank\":");
    hvd_json_int(&r.json, trace->options.rank);
    hvd_json_raw(&r.json, ",\"start_time_since_epoch_in_micros\":");
    hvd_json_int(&r.json, trace->options.start_unix_us);
    put_writer(&r, &trace->options);
    hvd_json_raw(&r.json, "}");
    close_record(&r);
    open_record(&r, "M", 0, 0);
    put_name(&r, "", "process_sort_index");
    hvd_json_raw(&r.json, ",\"args\":{\"sort_index\":0}");
    close_record(&r);
    if (r.status == HVD_OK && trace->options.rank_hosts.len > 0)
        r.status =
            hvd_buf_add(lines, trace->options.rank_hosts.data, trace->options.rank_hosts.len);
    return r.status;
}

hvd_status_t hvd_trace_create(const struct hvd_trace_options *options, struct hvd_trace **out)
{
    struct hvd_trace *trace = hvd_calloc(1, sizeof(*trace));

    if (!trace)
        return HVD_ERR_NOMEM;
    trace->options = *options;
    *out = trace;
    return HVD_OK;
}

void hvd_trace_destroy(struct hvd_trace *trace)
{
    if (!trace)
        return;
    forget_all(trace);
    forget_slots(trace);
    hvd_free(trace);
}
