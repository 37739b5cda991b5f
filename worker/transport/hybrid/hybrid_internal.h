#ifndef HVD_WORKER_TRANSPORT_HYBRID_HYBRID_INTERNAL_H
#define HVD_WORKER_TRANSPORT_HYBRID_HYBRID_INTERNAL_H

#include <sys/types.h>

#include "worker/transport/hybrid/hybrid.h"

/* A process set, and the transports of its collectives. */
struct hvd_hybrid_set {
    struct hvd_hybrid_set *next;
    struct hvd_team team;
    void *segment; /* shared by the local peers; owned */
    size_t segment_bytes;
    struct hvd_transport *near; /* of the local peers; NULL: not needed, or one rank */
    struct hvd_hosts *hosts;    /* NULL: one domain, or no domain of more than one rank */
    bool has_peers;             /* far has a set of this rank's peers */
};

/* A process of this host that shares no memory with this rank. */
struct hvd_hybrid_process {
    int rank; /* in the job */
    pid_t pid;
    int fd; /* of the process; -1: none, its number has to do */
    bool has_ended;
    bool is_told; /* look has reported the loss of the rank */
};

/* Detects that such a process ends. All zeroes: it watches none. */
struct hvd_hybrid_watch {
    struct hvd_hybrid_process *processes; /* owned */
    int n;
    int64_t next_look_ns;
};

struct hvd_hybrid {
    struct hvd_transport base; /* first */
    struct hvd_transport *far;
    struct hvd_hybrid_options options; /* without the log */
    struct hvd_hybrid_set world;       /* set 0 */
    struct hvd_hybrid_set *sets;       /* the others; owned */
    bool has_processes;                /* local peers are processes, not threads */
    struct hvd_hybrid_watch watch;     /* of local peers, where `world` has no `near` */
    int n_far;                         /* collectives under way over `far` */
    bool is_far_next;                  /* receive looks there first */
    int lost;                          /* a lost local peer of set 0, as rank of the job; -1:
                                          none */
};

/* far's set of the ranks in a process set that have the same local rank. */
static inline uint32_t hvd_hybrid_peers_set(uint32_t set, int local_rank)
{
    return UINT32_C(1) << 31 | set << 10 | ((uint32_t)local_rank & 1023);
}

/*
 * share.c. Gathers `len` bytes from every rank of a process set of `far`, by rank of the set, into
 * all. Waits for the ranks. HVD_ERR_NOMEM, or the failure of far.
 */
hvd_status_t hvd_hybrid_allgather(struct hvd_transport *far, const struct hvd_team *team,
                                  const void *mine, size_t len, void *all, struct hvd_err *err);

/*
 * share.c. Divides the ranks of a set into domains and gives every domain its memory. set->team is
 * divided by the keys, but only where all ranks of a domain do get the memory. set->segment exists
 * on every rank when any two share memory, set->near where it is needed. Collective. `why` receives
 * the reason why a domain could not share memory. On failure of far, or HVD_ERR_NOMEM,
 * hvd_hybrid_unshare frees what is left.
 */
hvd_status_t hvd_hybrid_share(struct hvd_hybrid *h, struct hvd_hybrid_set *set, const int *keys,
                              struct hvd_err *why, struct hvd_err *err);

/* share.c. Frees near and the memory; clean as in a transport's destroy. */
void hvd_hybrid_unshare(struct hvd_hybrid_set *set, bool clean);

/* share.c. The beginning of the memory that hosts.h uses. */
void *hvd_hybrid_hosts_area(const struct hvd_hybrid *h, const struct hvd_hybrid_set *set);

/*
 * domains.c. Finds which ranks of the job may share memory, as keys for a team, by rank. Ranks with
 * different keys do not try. Adds processes of this host to h->watch, whether or not they want to.
 * Collective. HVD_ERR_NOMEM, or the failure of far.
 */
hvd_status_t hvd_hybrid_domains_find(struct hvd_hybrid *h, int *keys, struct hvd_err *err);

/* watch.c. Makes room for n processes in a zeroed struct. HVD_ERR_NOMEM. */
hvd_status_t hvd_hybrid_watch_init(struct hvd_hybrid_watch *watch, int n, struct hvd_err *err);

/* watch.c. Adds the process of a rank, within the room that init made. Does not look at it yet. */
void hvd_hybrid_watch_add(struct hvd_hybrid_watch *watch, int rank, pid_t pid);

/* watch.c. Begins to watch the added processes. One that cannot be opened is watched by its
 * number. */
void hvd_hybrid_watch_open(struct hvd_hybrid_watch *watch);

/*
 * watch.c. HVD_ERR_GONE once for each rank whose process has ended, with in->from and the reason in
 * err; else HVD_INPROGRESS. Cheap: it looks at the processes every 100 ms. For messages that are
 * under way, it reports a rank at the look after the one that finds its process ended. The caller
 * calls it only where no message has arrived. now_ns never falls.
 */
hvd_status_t hvd_hybrid_watch_look(struct hvd_hybrid_watch *watch, int64_t now_ns,
                                   struct hvd_inbound *in, struct hvd_err *err);

/* watch.c. Watches none from now on. Accepts a zeroed struct. */
void hvd_hybrid_watch_fini(struct hvd_hybrid_watch *watch);

#endif
