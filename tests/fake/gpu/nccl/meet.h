#ifndef HVD_TESTS_FAKE_GPU_NCCL_MEET_H
#define HVD_TESTS_FAKE_GPU_NCCL_MEET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/device/cuda/nccl_api.h"

/*
 * How the ranks of a communicator meet and exchange bytes, within a process or across processes: a
 * segment of shared memory with a slot for each rank, and one sparse file for each rank, which has
 * what the rank contributes. Their names come from the unique id, and go when all ranks have them
 * open. Numbers alone are shared, so a rank that is killed leaves the others waiting.
 */
#define MEET_MAX_RANKS 16

/* A contribution: what it belongs to, for comparison, and its length. */
struct meet_header {
    uint32_t kind;
    uint32_t type;
    uint32_t op;
    int32_t root;
    uint64_t count;
    uint64_t bytes;
};

struct meet_slot {
    _Atomic uint32_t stage; /* 1: has come, 2: has everything open */
    _Atomic int32_t pid;
    _Atomic int32_t gpu; /* of the machine */
    _Atomic int32_t version;
    _Atomic uint64_t host;     /* a hash of NCCL_HOSTID */
    _Atomic uint64_t enqueued; /* collectives, by their sequence numbers, which begin at 1 */
    _Atomic uint64_t started;
    _Atomic uint64_t read;        /* all contributions of */
    _Atomic uint64_t blocked;     /* one that cannot start, as collectives are stuck in front */
    _Atomic uint32_t connected;   /* algorithms, a bit each */
    _Atomic uint32_t peers;       /* connected for sending, a bit each */
    _Atomic uint32_t has_ended;   /* finalized, destroyed or aborted */
    _Atomic uint32_t splits;      /* how often it has come to a split of the communicator ... */
    _Atomic uint32_t splits_read; /* ... and has seen all colors of one */
    _Atomic int32_t split_color;
    _Atomic int32_t split_key;
    _Atomic uint64_t sent[MEET_MAX_RANKS]; /* messages, by destination */
    _Atomic uint64_t received[MEET_MAX_RANKS];
};

struct meet_segment {
    _Atomic uint32_t n_ranks;
    struct meet_slot slots[MEET_MAX_RANKS];
};

struct meet {
    struct meet_segment *segment;
    int rank;
    int n_ranks;
    char name[64];
    bool is_hidden;
    int files[MEET_MAX_RANKS];
    uint64_t n_dropped; /* own contributions whose bytes are given back */
};

/* Makes a key that no other communicator has. */
void meet_make_id(struct hvd_nccl_id *id);

/* Comes to the meeting; returns false if another rank names another number of ranks. */
bool meet_come(struct meet *m, const struct hvd_nccl_id *id, int rank, int n_ranks);

/* Whether all ranks have come to the stage. */
bool meet_is_at(const struct meet *m, uint32_t stage);

/* Opens the files of the others, who have all come. */
void meet_open(struct meet *m);

/* Removes the names, when all ranks have opened everything, or will not. */
void meet_hide(struct meet *m);

/* Unmaps and closes everything. */
void meet_close(struct meet *m);

/* Puts a contribution into the own file. Lane 0 is for collectives, lane 1 + r for messages to r.
 */
void meet_write(struct meet *m, int lane, uint64_t seq, const struct meet_header *header,
                const void *bytes);

/* Reads the header of a contribution of a rank. */
struct meet_header meet_header_of(const struct meet *m, int rank, int lane, uint64_t seq);

/* Reads its bytes. */
void meet_read(const struct meet *m, int rank, int lane, uint64_t seq, void *to, size_t bytes);

/* Gives the bytes of an own message back, which has been read. */
void meet_forget(struct meet *m, int lane, uint64_t seq);

/* Gives the bytes of own collectives back that all ranks have read. */
void meet_drop(struct meet *m);

#endif
