/*
 * Finds the ranks that others wait for. The launcher keeps the last notice of each rank's wrapper.
 * A waiting rank is overdue at the warning time plus some slack, within which the notice of a rank
 * that has just come arrives. The warning is repeated each time that the waiting time has doubled.
 */
#include "worker/launch/core/missing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define NAMED_MAX 6 /* beyond that, only the number of ranks is given */

enum state {
    AWAY, /* no notice came, or the last one was that it has left horovod_init */
    HERE, /* within horovod_init */
    STOPPED,
    LEAVING, /* within MPI_Finalize */
    GONE,    /* it has ended */
    LEFT_OUT /* it has ended without having come */
};

struct member {
    enum state state;
    bool stood_still; /* it was stopped when the first rank ended: what it does later is its end */
    bool has_succeeded; /* it ended with 0, and was not stopped */
    int64_t noticed_ms; /* time of the last notice, by clock_ms */
    int64_t stopped_ms; /* of a stopped rank: time of the first notice of that */
};

struct hvd_missing {
    const struct hvd_hosts *hosts; /* borrowed */
    struct member *members;        /* by rank; owned */
    int64_t n;
    int64_t now_ms;   /* time of the last notice */
    int64_t clock_ms; /* since the first notice, in bounded steps */
    bool is_begun;
    bool is_ending;     /* a rank has ended */
    int64_t longest_ms; /* the longest wait of a rank that can name no other */
    int64_t warner;     /* the rank whose notice led to the last warning ... */
    int64_t warned_ms;  /* ... and its waiting time; 0: no warning yet */
    int64_t rank;
    char text[HVD_REPORT_LINE_MAX + 1];
};

struct hvd_missing *hvd_missing_create(const struct hvd_hosts *hosts)
{
    struct hvd_missing *missing = hvd_calloc(1, sizeof(*missing));

    if (!missing)
        return NULL;
    missing->hosts = hosts;
    missing->n = hvd_hosts_slots(hosts);
    missing->members = hvd_calloc((size_t)missing->n + 1, sizeof(*missing->members));
    if (missing->members)
        return missing;
    hvd_free(missing);
    return NULL;
}

void hvd_missing_destroy(struct hvd_missing *missing)
{
    if (!missing)
        return;
    hvd_free(missing->members);
    hvd_free(missing);
}

static bool is_silent(const struct hvd_missing *m, const struct member *member, int64_t warning_ms)
{
    const int64_t limit_ms =
        warning_ms > HVD_MISSING_SILENT_MS ? warning_ms : HVD_MISSING_SILENT_MS;

    return member->state == HERE && m->clock_ms - member->noticed_ms >= limit_ms;
}

/* Appends to the text, and cuts what does not fit. */
static void add(struct hvd_missing *m, const char *text)
{
    const size_t len = strlen(m->text);

    (void)snprintf(m->text + len, sizeof(m->text) - len, "%s", text);
}

/* "rank 3 on host west" */
static void add_rank(struct hvd_missing *m, int64_t rank)
{
    const char *host = hvd_hosts_of_rank(m->hosts, rank);
    char text[HVD_HOST_NAME_MAX + 64];

    (void)snprintf(text, sizeof(text), "rank %" PRId64 " on host %s", rank,
                   host ? host : "unknown");
    add(m, text);
}

/* The rank's state while others waited for it. */
static enum state state_of(const struct member *member)
{
    return member->stood_still ? STOPPED : member->state;
}

/* Describes one rank that others wait for at that place. */
static void describe_one(struct hvd_missing *m, const char *where, int64_t rank, int64_t waited_ms)
{
    const enum state state = state_of(&m->members[rank]);
    const int64_t seconds = waited_ms / 1000;
    char text[160];

    if (state == HERE || state == STOPPED)
        (void)snprintf(text, sizeof(text),
                       " is %s, and other ranks have waited for it in %s for %" PRId64 " s",
                       state == HERE ? "not reporting" : "stopped", where, seconds);
    else
        (void)snprintf(text, sizeof(text),
                       " has not come to %s for %" PRId64 " s, in which other ranks wait for it",
                       where, seconds);
    m->text[0] = '\0';
    add_rank(m, rank);
    add(m, text);
}

/* Describes several ranks and names the first few. */
static void describe_some(struct hvd_missing *m, const char *where, const int64_t *ranks, int64_t n,
                          int64_t waited_ms)
{
    static const char *const remarks[] = {
        [AWAY] = "", [HERE] = " (not reporting)", [STOPPED] = " (stopped)"};

    (void)snprintf(m->text, sizeof(m->text),
                   "%" PRId64 " ranks have not come to %s for %" PRId64
                   " s, in which other ranks wait for them: ",
                   n, where, waited_ms / 1000);
    for (int64_t i = 0; i < n && i < NAMED_MAX; i++) {
        const enum state state = state_of(&m->members[ranks[i]]);

        if (i > 0)
            add(m, i + 1 == n ? " and " : ", ");
        add_rank(m, ranks[i]);
        add(m, remarks[state <= STOPPED ? state : AWAY]);
    }
    if (n > NAMED_MAX) {
        char more[64];

        (void)snprintf(more, sizeof(more), " and %" PRId64 " more", n - NAMED_MAX);
        add(m, more);
    }
}

/* Finds the missing ranks: returns their number, and the first ones. */
static int64_t find(const struct hvd_missing *m, int64_t warning_ms, int64_t *first)
{
    int64_t n = 0;

    for (int64_t rank = 0; rank < m->n; rank++) {
        const struct member *member = &m->members[rank];
        const bool is_missing =
            (member->state != HERE && member->state != GONE) || is_silent(m, member, warning_ms);

        if (is_missing && n++ < NAMED_MAX)
            first[n - 1] = rank;
    }
    return n;
}

/* Whether a rank has ended. Then others wait for that rank, and another message names it. */
static bool has_gone(const struct hvd_missing *m)
{
    for (int64_t rank = 0; rank < m->n; rank++)
        if (m->members[rank].state >= GONE)
            return true;
    return false;
}

/* Writes about the missing ranks, or that all have come. */
static void describe(struct hvd_missing *m, const struct hvd_report *notice)
{
    int64_t first[NAMED_MAX];
    const int64_t n = find(m, notice->warning_ms, first);

    m->rank = n > 0 ? first[0] : notice->rank;
    if (n == 1)
        describe_one(m, "horovod_init", first[0], notice->waited_ms);
    else if (n > 1)
        describe_some(m, "horovod_init", first, n, notice->waited_ms);
    else
        (void)snprintf(m->text, sizeof(m->text),
                       "all ranks are in horovod_init, and have waited for %" PRId64
                       " s: one may stand still there, or MPI does not reach another host",
                       notice->waited_ms / 1000);
}

/* Whether a warning would be too early, or repeat the last one too soon. */
static bool is_early(const struct hvd_missing *m, const struct hvd_report *notice, bool is_lost)
{
    return notice->warning_ms == 0 ||
           notice->waited_ms - HVD_MISSING_SLACK_MS < notice->warning_ms ||
           (!is_lost && notice->waited_ms / 2 < m->warned_ms);
}

/* Whether the shutdown time is over. */
static bool is_overdue(const struct hvd_report *notice)
{
    return notice->shutdown_ms > 0 &&
           notice->waited_ms - HVD_MISSING_SLACK_MS >= notice->shutdown_ms;
}

static enum hvd_missing_step note_step(struct hvd_missing *m, const struct hvd_report *notice,
                                       bool is_lost)
{
    m->warner = notice->rank;
    m->warned_ms = notice->waited_ms;
    return is_lost ? HVD_MISSING_END : HVD_MISSING_WARN;
}

/* Judges a rank that waits in horovod_init, where its library can name no other rank. */
static enum hvd_missing_step judge(struct hvd_missing *m, const struct hvd_report *notice)
{
    const bool is_lost = is_overdue(notice);

    if (notice->waited_ms > m->longest_ms)
        m->longest_ms = notice->waited_ms;
    if (has_gone(m) || is_early(m, notice, is_lost))
        return HVD_MISSING_NOTHING;
    describe(m, notice);
    return note_step(m, notice, is_lost);
}

/* Whether the rank has been stopped for the whole shutdown time: one that goes on earlier ends
 * nothing. */
static bool is_stopped_for_good(const struct hvd_missing *m, const struct member *member,
                                const struct hvd_report *notice)
{
    return member->state == STOPPED && m->clock_ms - member->stopped_ms >= notice->shutdown_ms;
}

/* Judges a rank that waits in MPI_Finalize. A rank that has not come there may be busy for any
 * time, so only stopped ranks end a job. */
static enum hvd_missing_step judge_final(struct hvd_missing *m, const struct hvd_report *notice)
{
    int64_t first[NAMED_MAX];
    int64_t n = 0;
    bool is_lost = is_overdue(notice);

    for (int64_t rank = 0; rank < m->n; rank++) {
        const enum state state = m->members[rank].state;

        if (state == HERE) /* it waits for those in MPI_Finalize */
            return HVD_MISSING_NOTHING;
        if (state != AWAY && state != STOPPED)
            continue;
        is_lost = is_lost && is_stopped_for_good(m, &m->members[rank], notice);
        if (n++ < NAMED_MAX)
            first[n - 1] = rank;
    }
    if (n == 0 || is_early(m, notice, is_lost))
        return HVD_MISSING_NOTHING;
    m->rank = first[0];
    if (n == 1)
        describe_one(m, "MPI_Finalize", first[0], notice->waited_ms);
    else
        describe_some(m, "MPI_Finalize", first, n, notice->waited_ms);
    return note_step(m, notice, is_lost);
}

/* Advances the clock, in bounded steps: only time in which the launcher runs counts. */
static void advance(struct hvd_missing *m, int64_t now_ms)
{
    const int64_t passed_ms = m->is_begun ? now_ms - m->now_ms : 0;

    m->clock_ms += passed_ms < HVD_MISSING_STEP_MS ? passed_ms : HVD_MISSING_STEP_MS;
    m->now_ms = now_ms;
    m->is_begun = true;
}

enum hvd_missing_step hvd_missing_notice(struct hvd_missing *missing,
                                         const struct hvd_report *notice, int64_t now_ms)
{
    const bool waits =
        notice->notice == HVD_NOTICE_WAITS || notice->notice == HVD_NOTICE_WAITS_SOME;
    struct member *member;

    if (!missing || notice->rank < 0 || notice->rank >= missing->n)
        return HVD_MISSING_NOTHING;
    advance(missing, now_ms);
    member = &missing->members[notice->rank];
    if (member->state != STOPPED)
        member->stopped_ms = missing->clock_ms;
    member->state = AWAY;
    if (waits)
        member->state = HERE;
    else if (notice->notice == HVD_NOTICE_STOPPED)
        member->state = STOPPED;
    else if (notice->notice == HVD_NOTICE_FINAL || notice->notice == HVD_NOTICE_WAITS_FINAL)
        member->state = LEAVING;
    member->noticed_ms = missing->clock_ms;
    if (notice->rank == missing->warner && notice->waited_ms < missing->warned_ms)
        missing->warned_ms = 0; /* it waits for something else, or no longer */
    if (notice->notice == HVD_NOTICE_WAITS_FINAL)
        return judge_final(missing, notice);
    if (notice->phase == HVD_RANK_JOINING ||
        (notice->phase == HVD_RANK_GATHERING && notice->notice == HVD_NOTICE_WAITS))
        return waits ? judge(missing, notice) : HVD_MISSING_NOTHING;
    return HVD_MISSING_NOTHING;
}

/* Notes which ranks are stopped when the first one ends: mpirun then ends the others, and continues
 * stopped ones to do so. */
static void begin_end(struct hvd_missing *m)
{
    for (int64_t rank = 0; rank < m->n && !m->is_ending; rank++)
        m->members[rank].stood_still = m->members[rank].state == STOPPED;
    m->is_ending = true;
}

void hvd_missing_end(struct hvd_missing *missing, const struct hvd_report *end)
{
    struct member *member;
    bool had_come;

    if (!missing || end->rank < 0 || end->rank >= missing->n)
        return;
    begin_end(missing);
    member = &missing->members[end->rank];
    had_come = member->state == HERE || !end->was_stopped ||
               (end->phase != HVD_RANK_OUTSIDE && end->phase != HVD_RANK_ENDED);
    had_come = had_come && !member->stood_still;
    member->state = had_come ? GONE : LEFT_OUT;
    member->has_succeeded = !end->was_stopped && hvd_report_is_good(end);
}

bool hvd_missing_has_succeeded(const struct hvd_missing *missing, int64_t rank)
{
    return missing && rank >= 0 && rank < missing->n && missing->members[rank].has_succeeded;
}

int64_t hvd_missing_unheard(const struct hvd_missing *missing, int64_t *first)
{
    int64_t n = 0;

    for (int64_t rank = 0; missing && rank < missing->n; rank++)
        if (missing->members[rank].state < GONE && n++ == 0)
            *first = rank;
    return n;
}

bool hvd_missing_blame(struct hvd_missing *missing, struct hvd_report *report)
{
    int64_t first[NAMED_MAX];
    const struct hvd_report last = {.rank = report->rank,
                                    .waited_ms = missing ? missing->longest_ms : 0,
                                    .warning_ms = INT64_MAX};

    if (!missing || missing->longest_ms == 0 || find(missing, INT64_MAX, first) == 0)
        return false;
    describe(missing, &last);
    report->rank = missing->rank;
    report->host[0] = '\0';
    (void)snprintf(report->line, sizeof(report->line), "%s", missing->text);
    return true;
}

const char *hvd_missing_text(const struct hvd_missing *missing)
{
    return missing->text;
}

int64_t hvd_missing_rank(const struct hvd_missing *missing)
{
    return missing->rank;
}
