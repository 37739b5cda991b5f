#ifndef HVD_TESTS_FAKE_APISERVER_FAULT_H
#define HVD_TESTS_FAKE_APISERVER_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

struct fake_request;

/* The verbs by which requests are recorded and matched. */
enum fake_verb {
    FAKE_GET,
    FAKE_LIST,
    FAKE_WATCH,
    FAKE_CREATE,
    FAKE_UPDATE,
    FAKE_PATCH,
    FAKE_DELETE,
    FAKE_N_VERBS,
};

/* "get" and so on. */
const char *fake_verb_name(enum fake_verb verb);

enum fake_fault_action {
    FAKE_FAULT_ANSWER,    /* an error of this code */
    FAKE_FAULT_DROP,      /* the connection ends without an answer */
    FAKE_FAULT_HALF,      /* the connection ends in the middle of the answer */
    FAKE_FAULT_SLOW,      /* the answer drips */
    FAKE_FAULT_HANG,      /* no answer, the connection stays */
    FAKE_FAULT_DELAY,     /* the right answer, later */
    FAKE_FAULT_FREEZE,    /* no answer, to this and all requests behind it */
    FAKE_FAULT_GARBAGE,   /* an answer that is not JSON */
    FAKE_FAULT_DUPLICATE, /* of watches: each event twice */
    FAKE_FAULT_REORDER,   /* of watches: an event behind the next one of another object */
    FAKE_N_FAULT_ACTIONS,
};

/* One rule. Text is owned; NULL matches all. */
struct fake_fault {
    struct fake_fault *next;
    int64_t id;
    /* whom it concerns */
    char *verb; /* a verb, "write", or NULL */
    char *resource;
    char *ns;
    char *name;
    char *subresource; /* "" only requests without one */
    char *agent;       /* NULL: the program under test; "" anybody */
    /* when */
    int64_t nth;   /* of the matching requests, from 1 */
    int64_t times; /* that many from there on; -1: for ever */
    int64_t every; /* of those every so many; 0 or 1: each */
    double chance; /* of those, so likely */
    int64_t n_seen;
    int64_t n_hits;
    /* what */
    enum fake_fault_action action;
    int code;
    char *reason;
    char *message;
    int64_t retry_after_s; /* -1: none */
    bool is_executed;      /* the request has its effect, the answer is lost */
    int64_t delay_us;
    int64_t bytes;
    int64_t after_events; /* of watches: so many events pass first */
    int64_t n_events;     /* of watches: so many are duplicated or reordered; -1: all */
};

struct fake_faults {
    struct fake_fault *rules;
    int64_t n_made;
    uint64_t random;
};

/* Adds a rule; NULL, with a text in *why, when it says something unknown. */
const struct fake_fault *fake_fault_add(struct fake_faults *faults, const cJSON *rule,
                                        const char **why);

/* All rules with how often they were seen and hit, as an array. */
cJSON *fake_faults_list(const struct fake_faults *faults);

/* Removes all rules, or the one of that id (> 0). */
void fake_faults_clear(struct fake_faults *faults, int64_t id);

/* Counts the request with each rule that it matches; the first that strikes, or NULL. */
const struct fake_fault *fake_fault_strike(struct fake_faults *faults,
                                           const struct fake_request *request);

#endif
