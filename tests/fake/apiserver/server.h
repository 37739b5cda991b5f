#ifndef HVD_TESTS_FAKE_APISERVER_SERVER_H
#define HVD_TESTS_FAKE_APISERVER_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/str.h"
#include "tests/fake/apiserver/fault.h"
#include "tests/fake/apiserver/play.h"
#include "tests/fake/apiserver/record.h"
#include "tests/fake/apiserver/store.h"
#include "tests/fake/apiserver/timers.h"

/* What POST /-/config sets. */
struct fake_config {
    int64_t latency_us;       /* between a request and its answer; control requests have none */
    int64_t watch_latency_us; /* between a change and its watch event */
    int64_t bookmark_us;
    int64_t max_request_bytes;
    char *date;    /* what the header Date says; NULL: the time; "": there is none */
    cJSON *tokens; /* array of the bearer tokens that are let in; NULL: anybody */
    char *agent;   /* faults, freezing and tokens concern clients whose User-Agent begins so */
};

struct fake_watch;

/* A connection of a client. */
struct fake_conn {
    struct fake_conn *prev, *next;
    struct fake_server *server;
    int fd;
    struct hvd_buf in;
    struct hvd_buf out;
    size_t sent;       /* bytes of out that have left */
    bool is_busy;      /* a request has no answer yet */
    bool is_hung;      /* never gets an answer */
    bool wants_close;  /* after what is in out */
    bool has_closed;   /* to be freed at the end of the turn */
    bool is_agent;     /* the last request came from the program under test */
    size_t slow_bytes; /* 0, or bytes at a time with slow_us in between */
    int64_t slow_us;
    uint32_t polled;          /* what epoll waits for */
    struct fake_timer timer;  /* until the answer may leave, or the next slow bytes */
    struct fake_watch *watch; /* the stream that this connection is, or NULL */
};

struct fake_server {
    int epoll_fd;
    int listen_fd;
    int signal_fd;
    int timer_fd; /* readable when the next timer is due */
    struct fake_timers timers;
    struct fake_store store;
    struct fake_play play;
    struct fake_faults faults;
    struct fake_records records;
    struct fake_snapshots *snapshots; /* lists that are read page by page */
    struct fake_conn *conns;
    struct fake_watch *watches;
    struct fake_config config;
    bool is_frozen; /* the program under test gets no more answers */
    bool is_stopped;
};

/* A request, parsed. All text is within the request itself. */
struct fake_request {
    struct fake_conn *conn;
    char *method;
    char *target; /* as sent */
    char *path;   /* decoded, without the query */
    char *query;  /* undecoded, or "" */
    const char *accept;
    const char *content_type;
    const char *agent;
    const char *authorization;
    struct hvd_strview body;
    /* what the path says */
    enum fake_verb verb;
    const struct fake_kind *kind;
    const char *ns;
    const char *name;
    const char *subresource;
    bool is_meta;            /* PartialObjectMetadata is asked for */
    cJSON *doc;              /* of the body, or NULL */
    const char *object_name; /* name, or of a create the one in the body; or NULL */
};

/* An answer. */
struct fake_answer {
    int code;
    int64_t retry_after_s; /* -1: none */
    struct hvd_buf body;   /* owned */
};

/* The value of a query parameter, decoded into static memory (a few may be in use); or NULL. */
const char *fake_query(const struct fake_request *request, const char *key);

#endif
