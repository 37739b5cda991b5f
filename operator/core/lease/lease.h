#ifndef HVD_OPERATOR_CORE_LEASE_LEASE_H
#define HVD_OPERATOR_CORE_LEASE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/status.h"

/*
 * Decides which of several operators may write: the one that holds the Lease. Pure. The shell
 * (app/election) sends the requests of hvd_lease_step, and passes on their answers, the events of a
 * watch of the Lease, and the time of a monotonic clock.
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
 * The times in the Lease are for users. An operator measures another holder's silence by its own
 * clock, from when it saw a change of the Lease. So clocks may differ, but their speed by less than
 * a tenth.
 */

#define HVD_LEASE_TEXT_MAX 256
/* The longest duration that an operator writes, and that it accepts from another. */
#define HVD_LEASE_DURATION_MAX_S 600

/* The relevant content of the API's Lease. */
struct hvd_lease_record {
    char version[64];                /* resourceVersion */
    char holder[HVD_LEASE_TEXT_MAX]; /* "": none, the Lease was released */
    int64_t duration_ms;
    int64_t n_transitions;
};

/* The next request to send. */
enum hvd_lease_request {
    HVD_LEASE_NOTHING,
    HVD_LEASE_GET,     /* the known version is not the newest */
    HVD_LEASE_CREATE,  /* POST; a 409 means that another operator was first */
    HVD_LEASE_TAKE,    /* PATCH; refused (409) when the version is not the newest */
    HVD_LEASE_RENEW,   /* PATCH, likewise */
    HVD_LEASE_RELEASE, /* PATCH, likewise: the holder becomes "" */
};

/* One operator's view. hvd_lease_init fills it; it allocates nothing; one thread. */
struct hvd_lease {
    char identity[HVD_LEASE_TEXT_MAX];
    int64_t duration_ms;
    bool is_leader;
    bool _is_known; /* whether the Lease exists is known */
    bool _exists;
    bool _is_stopping;
    bool _needs_get;
    struct hvd_lease_record _record; /* the last one seen; kept when the Lease is deleted */
    char _asked[64];                 /* its version when the request under way was sent */
    int64_t _changed_ms;             /* when _record was first seen */
    int64_t _taken_ms;               /* when the request that last took the Lease was sent */
    unsigned _n_taken;               /* takes in a row, each within a duration of the one before */
    int64_t _renewed_ms;             /* when the last good renewal was sent */
    int64_t _next_ms;                /* no request before this time */
    int64_t _sent_ms;                /* of the request under way */
    enum hvd_lease_request _request; /* under way */
};

/* Begins as a standby without knowledge. Identities are cut to fit; each operator has its own. */
void hvd_lease_init(struct hvd_lease *lease, const char *identity, int64_t duration_ms);

/* Reads a Lease document. HVD_ERR_INVALID when it is none; *out is untouched then. */
hvd_status_t hvd_lease_decode(const cJSON *object, struct hvd_lease_record *out,
                              struct hvd_err *err);

/* Takes the Lease of a watch or a read; ignores one older than the known one. */
void hvd_lease_observe(struct hvd_lease *lease, const struct hvd_lease_record *record,
                       int64_t now_ms);

/* The server is back at an older version: the operator reads the Lease before the next write. */
void hvd_lease_rewind(struct hvd_lease *lease);

/* The Lease does not exist, or was deleted when it was at that version (NULL: it was never
 * seen). */
void hvd_lease_observe_absent(struct hvd_lease *lease, const char *version, int64_t now_ms);

/* Begins to stop: no write starts any more, and the next steps release the Lease. */
void hvd_lease_stop(struct hvd_lease *lease, int64_t now_ms);

/* Whether nothing is held, nor about to be: a stopped operator need not wait any longer. */
bool hvd_lease_is_over(const struct hvd_lease *lease);

/*
 * The request to send at now_ms; it is under way until answered is called. Gives up leading when
 * the time is over: check is_leader after every call of this header.
 */
enum hvd_lease_request hvd_lease_step(struct hvd_lease *lease, int64_t now_ms);

/* When step has something to do; INT64_MAX while only an answer or an event can change the
 * state. */
int64_t hvd_lease_next_ms(const struct hvd_lease *lease);

/*
 * Takes the answer to the request under way. record: the Lease that came with HVD_OK, else NULL.
 * random: any 32 bits, for jitter. HVD_ERR_CONFLICT and HVD_ERR_EXISTS: others wrote;
 * HVD_ERR_NOT_FOUND: it is gone; any other status is a failure that is tried again.
 */
void hvd_lease_answered(struct hvd_lease *lease, hvd_status_t status,
                        const struct hvd_lease_record *record, int64_t now_ms, uint32_t random);

/* The other holder that this operator waits for, and the longest remaining wait unless it renews;
 * NULL: none. Borrowed until the next call. */
const char *hvd_lease_awaited(const struct hvd_lease *lease, int64_t now_ms, int64_t *left_ms);

/* The deadline of a write that starts at now_ms; 0 when none may start. */
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
