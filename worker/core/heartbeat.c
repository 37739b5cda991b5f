/* Detects ranks that do not answer while this rank or another waits: see heartbeat.h. */
#include "worker/core/heartbeat.h"

#include <string.h>

#include "base/mem.h"

#define NAME_MAX_SHOWN 300

/* A wait of this rank or of a neighbour. */
struct waiting {
    int64_t said_ns;  /* its start as its source gave it; 0: no wait */
    int64_t since_ns; /* its start or the last movement of data, later by the time that this rank
                         did not run */
    uint64_t moved;   /* as of the last tick */
    size_t name_len;
    char name[NAME_MAX_SHOWN];
};

struct neighbour {
    int position; /* -1: does not exist */
    bool is_inner;
    bool is_gone;
    bool is_warned;
    bool is_lost;
    int64_t received_ns;        /* the last message from it; 0: none yet */
    int64_t quiet_ns;           /* start of its silence, while something is waited for; 0: none */
    int64_t probed_ns;          /* the first unanswered probe; 0: none */
    int64_t sent_ns;            /* the last probe; 0: none */
    enum hvd_wait_kind kind;    /* the kind of its wait */
    struct waiting waiting;     /* its wait */
    int64_t waiting_until_ns;   /* when its wait expires unless it is repeated */
    int n_silent;               /* silent ranks that it has reported */
    int silent[HVD_SILENT_MAX]; /* positions */
    struct hvd_behind behind;   /* its last report, */
    int64_t behind_ns;          /* and when it came */
    bool must_probe;            /* due actions */
    bool must_warn;
    bool must_lose;
};

/* A rank that does not answer, whether a neighbour or not. */
struct silence {
    int position;
    int64_t since_ns; /* or earlier */
};

struct hvd_heartbeat {
    int64_t warning_ns;
    int64_t shutdown_ns;
    int64_t ticked_ns; /* 0: never */
    int64_t ran_ns;    /* the end of the last gap in which this rank did not run; 0: none */
    struct waiting own[HVD_WAIT_KINDS];
    bool is_active; /* a wait has lasted so long that neighbours are probed */
    bool is_overdue_warned;
    bool is_overdue_lost;
    int64_t known_ns; /* since when a silent rank is known; 0: none is */
    bool must_warn;   /* due actions about data */
    bool must_lose;
    int n_silences;
    struct silence silences[HVD_SILENT_MAX];
    struct hvd_behind own_behind; /* this rank alone */
    uint32_t size;
    int n;
    struct neighbour neighbours[];
};

hvd_status_t hvd_heartbeat_create(const struct hvd_heartbeat_options *options,
                                  struct hvd_heartbeat **out, struct hvd_err *err)
{
    const struct hvd_node *node = options->node;
    const int n = 1 + node->n_children;
    struct hvd_heartbeat *h = hvd_calloc(1, sizeof(*h) + (size_t)n * sizeof(struct neighbour));

    if (!h)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the heartbeat");
    h->warning_ns = options->warning_ns;
    h->shutdown_ns = options->shutdown_ns;
    h->size = (uint32_t)options->size;
    h->n = n;
    h->own_behind.positions[0] = node->range.first;
    h->neighbours[0].position = node->parent;
    h->neighbours[0].is_inner = true;
    for (int i = 1; i < n; i++) {
        h->neighbours[i].position = node->children[i - 1].first;
        h->neighbours[i].is_inner = node->children[i - 1].n > 1;
    }
    *out = h;
    return HVD_OK;
}

void hvd_heartbeat_destroy(struct hvd_heartbeat *h)
{
    hvd_free(h);
}

void hvd_heartbeat_received(struct hvd_heartbeat *h, int neighbour, int64_t now_ns)
{
    struct neighbour *n = &h->neighbours[neighbour];

    n->received_ns = n->quiet_ns = now_ns;
    n->probed_ns = 0;
    n->is_warned = false;
}

static void set_name(struct waiting *w, struct hvd_strview name)
{
    w->name_len = name.len < sizeof(w->name) ? name.len : sizeof(w->name);
    if (w->name_len > 0)
        memcpy(w->name, name.data, w->name_len);
}

void hvd_heartbeat_read(struct hvd_heartbeat *h, int neighbour, const struct hvd_beat *beat,
                        int64_t now_ns)
{
    struct neighbour *n = &h->neighbours[neighbour];

    hvd_heartbeat_received(h, neighbour, now_ns);
    n->n_silent = 0;
    for (uint32_t i = 0; i < beat->n_silent && i < HVD_SILENT_MAX; i++)
        n->silent[n->n_silent++] = hvd_message_beat_silent(beat, i);
    n->behind = beat->behind;
    n->behind_ns = now_ns;
    if (beat->kind == HVD_WAIT_NONE)
        return;
    n->kind = beat->kind;
    n->waiting.said_ns = n->waiting.since_ns = now_ns - (int64_t)beat->age_ms * 1000000;
    n->waiting_until_ns = now_ns + h->warning_ns / 2;
    set_name(&n->waiting, beat->name);
}

void hvd_heartbeat_leave(struct hvd_heartbeat *h, int neighbour)
{
    h->neighbours[neighbour].is_gone = true;
    h->neighbours[neighbour].waiting.said_ns = 0;
    h->neighbours[neighbour].n_silent = 0;
    h->neighbours[neighbour].behind.n_known = 0;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Moves a time later by a gap in which this rank did not run. */
static void shift(int64_t *at_ns, int64_t by_ns, int64_t now_ns)
{
    if (*at_ns == 0)
        return;
    *at_ns += by_ns;
    if (*at_ns > now_ns)
        *at_ns = now_ns;
}

static void skip_gap(struct hvd_heartbeat *h, int64_t now_ns)
{
    const int64_t gap_ns = h->ticked_ns ? now_ns - h->ticked_ns : 0;

    h->ticked_ns = now_ns;
    if (gap_ns <= h->warning_ns / 2)
        return;
    h->ran_ns = now_ns;
    shift(&h->known_ns, gap_ns, now_ns);
    for (int i = 0; i < h->n_silences; i++)
        shift(&h->silences[i].since_ns, gap_ns, now_ns);
    for (int kind = 0; kind < HVD_WAIT_KINDS; kind++)
        shift(&h->own[kind].since_ns, gap_ns, now_ns);
    for (int i = 0; i < h->n; i++) {
        shift(&h->neighbours[i].quiet_ns, gap_ns, now_ns);
        shift(&h->neighbours[i].probed_ns, gap_ns, now_ns);
    }
}

static void take_waits(struct hvd_heartbeat *h, const struct hvd_waits *waits)
{
    for (int kind = 0; kind < HVD_WAIT_KINDS; kind++) {
        const struct hvd_wait *from = &waits->of[kind];
        struct waiting *to = &h->own[kind];
        const bool has_moved = to->said_ns != 0 && from->since_ns != 0 && from->moved != to->moved;
        to->moved = from->moved;
        if (from->since_ns == to->said_ns && !has_moved)
            continue;
        to->said_ns =
            from->since_ns; /* a wait that began during a gap counts from the end of the gap */
        to->since_ns = from->since_ns ? later(from->since_ns, h->ran_ns) : 0;
        if (has_moved)
            to->since_ns = h->ticked_ns;
        set_name(to, from->name);
        if (kind == HVD_WAIT_DATA)
            h->is_overdue_warned = h->is_overdue_lost = false;
    }
}

/* Returns the longest wait, except that of neighbour `except` (-1: no exception); NULL when
 * there is none. */
static const struct waiting *longest(const struct hvd_heartbeat *h, int except,
                                     enum hvd_wait_kind *kind)
{
    const struct waiting *found = NULL;

    for (int k = HVD_WAIT_NONE + 1; k < HVD_WAIT_KINDS; k++) {
        if (h->own[k].said_ns == 0 || (found && found->since_ns <= h->own[k].since_ns))
            continue;
        found = &h->own[k];
        *kind = (enum hvd_wait_kind)k;
    }
    for (int i = 0; i < h->n; i++) {
        const struct neighbour *n = &h->neighbours[i];
        if (i == except || n->waiting.said_ns == 0 ||
            (found && found->since_ns <= n->waiting.since_ns))
            continue;
        found = &n->waiting;
        *kind = n->kind;
    }
    return found;
}

/* Whether a probe has been unanswered for so long. */
static bool is_silent(const struct hvd_heartbeat *h, const struct neighbour *n, int64_t ns)
{
    return n->probed_ns > 0 && h->ticked_ns - n->probed_ns >= ns;
}

/* Records since when a neighbour has been silent while something is waited for. Silence before
 * the end of a gap counts only if this rank was watching then. */
static void note_quiet(struct hvd_heartbeat *h, struct neighbour *n, const struct waiting *w)
{
    if (!w)
        n->quiet_ns = 0;
    else if (n->quiet_ns == 0)
        n->quiet_ns = later(later(n->received_ns, h->ran_ns), w->since_ns);
}

static int64_t quiet_for(const struct hvd_heartbeat *h, const struct neighbour *n,
                         const struct waiting *w)
{
    return w ? h->ticked_ns - later(n->quiet_ns, w->since_ns) : 0;
}

/* Whether the last probe is old enough for another one. A probe makes the neighbour tick and
 * probe at once. Without a pause, two waiting ranks would answer each other continuously. */
static bool may_probe(const struct hvd_heartbeat *h, const struct neighbour *n)
{
    return n->sent_ns == 0 || h->ticked_ns - n->sent_ns >= h->warning_ns / 16;
}

/* Whether a neighbour may be given up. A leaf that delays a plan has not requested a tensor, and
 * the stall report names it for that. */
static bool may_lose(const struct neighbour *n, enum hvd_wait_kind kind)
{
    return n->is_inner || kind != HVD_WAIT_PLAN;
}

static void look_at(struct hvd_heartbeat *h, int i)
{
    struct neighbour *n = &h->neighbours[i];
    enum hvd_wait_kind kind = HVD_WAIT_NONE;
    const struct waiting *w = longest(h, i, &kind);
    const int64_t waited_ns = w ? h->ticked_ns - w->since_ns : 0;

    n->must_probe = n->must_warn = n->must_lose = false;
    note_quiet(h, n, w);
    if (n->position < 0 || n->is_gone || n->is_lost)
        return;
    if (waited_ns < h->warning_ns / 4) {
        n->probed_ns = 0;
        n->is_warned = false;
        return;
    }
    n->must_probe = n->probed_ns == 0 && may_probe(h, n);
    if (!is_silent(h, n, h->warning_ns / 2))
        return;
    n->must_warn = !n->is_warned && waited_ns >= h->warning_ns;
    n->must_lose = h->shutdown_ns > 0 && quiet_for(h, n, w) >= h->shutdown_ns && may_lose(n, kind);
}

static bool knows_of_silence(const struct hvd_heartbeat *h, bool *is_near)
{
    bool is_known = false;

    *is_near = false;
    for (int i = 0; i < h->n; i++) {
        const struct neighbour *n = &h->neighbours[i];
        *is_near = *is_near || n->is_lost || is_silent(h, n, h->warning_ns / 2);
        is_known = is_known || n->n_silent > 0;
    }
    return is_known || *is_near;
}

/* Whether the report of data that does not move can still name more ranks. */
static bool is_incomplete(const struct hvd_heartbeat *h, int64_t waited_ns)
{
    return h->own_behind.n_known > 0 && waited_ns < h->warning_ns + h->warning_ns / 2 &&
           hvd_heartbeat_behind(h, -1).n_known < h->size;
}

/* Checks for data that does not move. If a rank is silent, this rank first waits for its
 * neighbours to report it. */
static void look_at_data(struct hvd_heartbeat *h)
{
    const struct waiting *w = &h->own[HVD_WAIT_DATA];
    const int64_t waited_ns = w->said_ns ? h->ticked_ns - w->since_ns : 0;
    bool is_near = false;
    const bool is_known = knows_of_silence(h, &is_near);
    const int64_t grace_ns = h->warning_ns / 2;

    if (!is_known)
        h->known_ns = 0;
    else if (h->known_ns == 0)
        h->known_ns = h->ticked_ns;
    h->must_warn = !h->is_overdue_warned && waited_ns >= h->warning_ns && !is_known &&
                   !is_incomplete(h, waited_ns);
    h->must_lose = !h->is_overdue_lost && h->shutdown_ns > 0 && !is_near &&
                   waited_ns >= h->shutdown_ns &&
                   (!is_known || h->ticked_ns - h->known_ns >= h->shutdown_ns + grace_ns);
}

/* Since when a newly silent rank has been silent. A rank that reports a silence has waited that
 * long for an answer itself. */
static int64_t silent_since(const struct hvd_heartbeat *h, int position)
{
    for (int i = 0; i < h->n; i++)
        if (h->neighbours[i].position == position && h->neighbours[i].probed_ns > 0)
            return h->neighbours[i].probed_ns;
    return h->ticked_ns - h->warning_ns / 4;
}

/* Keeps the start of each silence. */
static void note_silences(struct hvd_heartbeat *h)
{
    struct silence found[HVD_SILENT_MAX];
    int positions[HVD_SILENT_MAX];
    const int n = hvd_heartbeat_silent(h, -1, positions);

    for (int i = 0; i < n; i++) {
        found[i] = (struct silence){.position = positions[i]};
        for (int k = 0; k < h->n_silences; k++)
            if (h->silences[k].position == positions[i])
                found[i] = h->silences[k];
        if (found[i].since_ns == 0)
            found[i].since_ns = silent_since(h, positions[i]);
    }
    for (int i = 0; i < n; i++)
        h->silences[i] = found[i];
    h->n_silences = n;
}

void hvd_heartbeat_tick(struct hvd_heartbeat *h, const struct hvd_waits *waits, int64_t now_ns)
{
    enum hvd_wait_kind kind = HVD_WAIT_NONE;

    skip_gap(h, now_ns);
    take_waits(h, waits);
    for (int i = 0; i < h->n; i++) {
        struct neighbour *n = &h->neighbours[i];
        if (n->waiting.said_ns == 0 || now_ns <= n->waiting_until_ns)
            continue;
        n->waiting.said_ns = 0;
        n->n_silent = 0;
    }
    const struct waiting *w = longest(h, -1, &kind);
    h->is_active = w && now_ns - w->since_ns >= h->warning_ns / 4;
    for (int i = 0; i < h->n; i++)
        look_at(h, i);
    look_at_data(h);
    note_silences(h);
}

static void describe(const struct hvd_heartbeat *h, const struct waiting *w,
                     struct hvd_beat_step *step)
{
    if (!w)
        return;
    step->name = (struct hvd_strview){.data = w->name, .len = w->name_len};
    step->waited_ns = h->ticked_ns - w->since_ns;
}

/* Returns one due action about a neighbour; false when there is none. */
static bool next_of(struct hvd_heartbeat *h, int i, struct hvd_beat_step *step)
{
    struct neighbour *n = &h->neighbours[i];

    if (!n->must_probe && !n->must_warn && !n->must_lose)
        return false;
    *step = (struct hvd_beat_step){.neighbour = i};
    const struct waiting *w = longest(h, i, &step->kind);
    describe(h, w, step);
    step->silent_ns = quiet_for(h, n, w);
    if (n->must_probe) {
        step->action = HVD_BEAT_PROBE;
        n->must_probe = false;
        n->probed_ns = n->sent_ns = h->ticked_ns;
    } else if (n->must_warn) {
        step->action = HVD_BEAT_WARN;
        n->must_warn = false;
        n->is_warned = true;
    } else {
        step->action = HVD_BEAT_LOSE;
        n->must_lose = false;
        n->is_lost = true;
    }
    return true;
}

bool hvd_heartbeat_next(struct hvd_heartbeat *h, struct hvd_beat_step *step)
{
    for (int i = 0; i < h->n; i++)
        if (next_of(h, i, step))
            return true;
    if (!h->must_warn && !h->must_lose)
        return false;
    *step = (struct hvd_beat_step){.action =
                                       h->must_warn ? HVD_BEAT_OVERDUE_WARN : HVD_BEAT_OVERDUE_LOSE,
                                   .neighbour = -1,
                                   .kind = HVD_WAIT_DATA};
    describe(h, &h->own[HVD_WAIT_DATA], step);
    if (h->must_warn) {
        h->must_warn = false;
        h->is_overdue_warned = true;
    } else {
        h->must_lose = false;
        h->is_overdue_lost = true;
    }
    return true;
}

static void add_silent(int position, int *positions, int *n)
{
    for (int i = 0; i < *n; i++)
        if (positions[i] == position)
            return;
    if (*n < HVD_SILENT_MAX)
        positions[(*n)++] = position;
}

int hvd_heartbeat_silent(const struct hvd_heartbeat *h, int neighbour, int *positions)
{
    int n_found = 0;

    for (int i = 0; i < h->n; i++) {
        const struct neighbour *n = &h->neighbours[i];
        if (i == neighbour)
            continue;
        /* an inner neighbour ticks more often, so it is suspected sooner, in time for a report */
        if (n->is_lost || is_silent(h, n, n->is_inner ? h->warning_ns / 4 : h->warning_ns / 2))
            add_silent(n->position, positions, &n_found);
        for (int k = 0; k < n->n_silent; k++)
            add_silent(n->silent[k], positions, &n_found);
    }
    return n_found;
}

int hvd_heartbeat_missed(const struct hvd_heartbeat *h, int64_t ns, int *positions)
{
    int n_found = 0;

    for (int i = 0; i < h->n_silences; i++)
        if (h->ticked_ns - h->silences[i].since_ns >= ns)
            positions[n_found++] = h->silences[i].position;
    return n_found;
}

/* --- Progress --------------------------------------------------------------------------------- */

void hvd_heartbeat_put(struct hvd_heartbeat *h, uint64_t progress)
{
    h->own_behind.n_known = h->own_behind.n = 1;
    h->own_behind.progress = progress;
}

/* Adds a position to an ordered list, whose last one drops out of a full one. */
static void insert(int *positions, uint32_t *n, int position)
{
    uint32_t i = *n < HVD_BEHIND_MAX ? (*n)++ : HVD_BEHIND_MAX;

    for (; i > 0 && positions[i - 1] > position; i--)
        if (i < HVD_BEHIND_MAX)
            positions[i] = positions[i - 1];
    if (i < HVD_BEHIND_MAX)
        positions[i] = position;
}

/* Adds what is known of other ranks. */
static void merge(struct hvd_behind *to, const struct hvd_behind *from)
{
    const uint32_t n_known = to->n_known + from->n_known;
    uint32_t n_named = hvd_message_behind_named(to);

    if (from->n_known == 0)
        return;
    if (to->n_known == 0 || from->progress < to->progress) {
        *to = *from;
    } else if (from->progress == to->progress) {
        for (uint32_t i = 0; i < hvd_message_behind_named(from); i++)
            insert(to->positions, &n_named, from->positions[i]);
        to->n += from->n;
    }
    to->n_known = n_known;
}

struct hvd_behind hvd_heartbeat_behind(const struct hvd_heartbeat *h, int neighbour)
{
    struct hvd_behind found = h->own_behind;

    for (int i = 0; i < h->n; i++)
        if (i != neighbour && h->ticked_ns - h->neighbours[i].behind_ns <= h->warning_ns / 2)
            merge(&found, &h->neighbours[i].behind);
    return found;
}

bool hvd_heartbeat_is_active(const struct hvd_heartbeat *h)
{
    return h->is_active;
}
