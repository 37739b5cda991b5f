#ifndef HVD_OPERATOR_CORE_LEASE_LEASE_H
#define HVD_OPERATOR_CORE_LEASE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/status.h"

/*
 * Who of several operators may write: the one that holds the Lease. Pure; the shell (app/election)
 * sends what hvd_lease_step asks for, brings the answers and what a watch of the Lease tells, and
 * the time of a monotonic clock.
 *
 *              absent, released, or silent for its duration: CREATE, TAKE
 *   STANDBY ------------------------------------------------------------> LEADER --+
 *      ^                                                                    |  ^   | RENEW every
 *      |   not renewed for 13/15 of the duration, or another holds it       |  +---+ third
 *      +--------------------------------------------------------------------+
 *      +------------------------------ RELEASE, on the way out -------------+
 *
 * Time since the last good renewal was sent, in the duration D that others wait:
 *
 *   0 ......... D/3 ......... 2D/3 ............ 13D/15 ............ D
 *     writes                    no new write     every write has     another may take the Lease
 *                                                ended or is cut off
 *
 * The times in the Lease are for people: another holder's silence is measured from when a change
 * of the Lease was seen, by our own clock, so clocks may differ (their speed may not, by a tenth).
 */

#define HVD_LEASE_TEXT_MAX 256
/* Of the duration that an operator writes, and that it believes of another. */
#define HVD_LEASE_DURATION_MAX_S 600

/* What the API holds, as far as it matters. */
struct hvd_lease_record {
    char version[64];                /* resourceVersion */
    char holder[HVD_LEASE_TEXT_MAX]; /* "": nobody, it was released */
    int64_t duration_ms;
    int64_t n_transitions;
};

/* What to send next. */
enum hvd_lease_request {
    HVD_LEASE_NOTHING,
    HVD_LEASE_GET,     /* our version of it is not the newest */
    HVD_LEASE_CREATE,  /* POST; a 409 means that somebody else was first */
    HVD_LEASE_TAKE,    /* PATCH, refused (409) when the version is not the newest */
    HVD_LEASE_RENEW,   /* PATCH, likewise */
    HVD_LEASE_RELEASE, /* PATCH, likewise: the holder becomes "" */
};

/* One operator's view. hvd_lease_init fills it; nothing is allocated; one thread. */
struct hvd_lease {
    char identity[HVD_LEASE_TEXT_MAX];
    int64_t duration_ms;
    bool is_leader;
    bool _is_known; /* whether the Lease exists has been seen once */
    bool _exists;
    bool _is_stopping;
    bool _needs_get;
    struct hvd_lease_record _record; /* the last one seen, kept when the Lease is deleted */
    char _asked[64];                 /* its version when the request under way was sent */
    int64_t _changed_ms;             /* when _record was seen first */
    int64_t _taken_ms;               /* when the request that made it ours last was sent */
    unsigned _n_taken;   /* so often in a row, each within a duration of the one before */
    int64_t _renewed_ms; /* when the last good renewal was sent */
    int64_t _next_ms;    /* no request before */
    int64_t _sent_ms;    /* of the request under way */
    enum hvd_lease_request _request; /* under way */
};

/* A standby that knows nothing yet. Identities are cut to fit; each operator has its own. */
void hvd_lease_init(struct hvd_lease *lease, const char *identity, int64_t duration_ms);

/* Reads a Lease document. HVD_ERR_INVALID when it is none; *out is untouched then. */
hvd_status_t hvd_lease_decode(const cJSON *object, struct hvd_lease_record *out,
                              struct hvd_err *err);

/* The Lease as a watch or a read shows it. What is older than what is known is ignored. */
void hvd_lease_observe(struct hvd_lease *lease, const struct hvd_lease_record *record,
                       int64_t now_ms);

/* The server is back at an older version: the Lease is what it is there, and is read before the
 * next write. */
void hvd_lease_rewind(struct hvd_lease *lease);

/* The Lease is not there, or was deleted when it was at that version (NULL: it was never seen). */
void hvd_lease_observe_absent(struct hvd_lease *lease, const char *version, int64_t now_ms);

/* Wants to end: no write starts any more, and the Lease is released by the next steps. */
void hvd_lease_stop(struct hvd_lease *lease, int64_t now_ms);

/* Whether nothing is held, nor about to be: a stopped operator need not wait any longer. */
bool hvd_lease_is_over(const struct hvd_lease *lease);

/*
 * What to send at now_ms; it is under way until answered is called. Gives up leading when the time
 * is over: look at is_leader after every call of this header.
 */
enum hvd_lease_request hvd_lease_step(struct hvd_lease *lease, int64_t now_ms);

/* When step has something to do; INT64_MAX while only an answer or an event can change things. */
int64_t hvd_lease_next_ms(const struct hvd_lease *lease);

/*
 * The answer to the request under way. record: the Lease that came with HVD_OK, else NULL. random:
 * any 32 bits, for jitter. HVD_ERR_CONFLICT and HVD_ERR_EXISTS: others wrote; HVD_ERR_NOT_FOUND: it
 * is gone; anything else is a failure that is tried again.
 */
void hvd_lease_answered(struct hvd_lease *lease, hvd_status_t status,
                        const struct hvd_lease_record *record, int64_t now_ms, uint32_t random);

/* The other holder that is waited for, and for how long at most unless it renews; NULL: none.
 * Borrowed until the next call. */
const char *hvd_lease_awaited(const struct hvd_lease *lease, int64_t now_ms, int64_t *left_ms);

/* Until when a write that starts at now_ms has to have ended; 0 when none may start. */
int64_t hvd_lease_write_until_ms(const struct hvd_lease *lease, int64_t now_ms);

/* How long a request about the Lease may take. */
int64_t hvd_lease_timeout_ms(const struct hvd_lease *lease);

/*
 * The body of a request as JSON, the caller's to hvd_free; unix_us is the time to write into it.
 * HVD_ERR_NOMEM; *out is untouched then.
 */
hvd_status_t hvd_lease_encode(const struct hvd_lease *lease, enum hvd_lease_request request,
                              const char *name, int64_t unix_us, char **out, struct hvd_err *err);

#endif
