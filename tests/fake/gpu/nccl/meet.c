#include "tests/fake/gpu/nccl/meet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "tests/fake/gpu/machine.h"

/* Where a contribution lies in its file, which has holes: lanes, and in them places of 8 GiB. */
#define LANE_BITS 57
#define PLACE_BITS 33

static off_t place_of(int lane, uint64_t seq)
{
    if (seq >> (LANE_BITS - PLACE_BITS))
        fake_die("too many collectives on a communicator");
    return (off_t)lane << LANE_BITS | (off_t)(seq << PLACE_BITS);
}

static const char *folder(void)
{
    const char *named = getenv("HVD_FAKE_NCCL_DIR");

    return named && *named ? named : "/dev/shm"; /* its files may be huge and full of holes */
}

void meet_make_id(struct hvd_nccl_id *id)
{
    unsigned char random[12];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        fake_die("getrandom");
    memset(id, 0, sizeof(*id));
    for (size_t i = 0; i < sizeof(random); i++)
        snprintf(id->bytes + 2 * i, 3, "%02x", random[i]);
}

static int open_file(const struct meet *m, int rank, int flags)
{
    char path[256];

    if (rank < 0)
        snprintf(path, sizeof(path), "%s/hvd-fake-nccl-%s", folder(), m->name);
    else
        snprintf(path, sizeof(path), "%s/hvd-fake-nccl-%s.%d", folder(), m->name, rank);
    const int file = open(path, flags | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0)
        fake_die("cannot open a file of the meeting");
    return file;
}

bool meet_come(struct meet *m, const struct hvd_nccl_id *id, int rank, int n_ranks)
{
    uint32_t expected = 0;

    *m = (struct meet){.rank = rank, .n_ranks = n_ranks};
    snprintf(m->name, sizeof(m->name), "%.32s", id->bytes);
    for (int r = 0; r < MEET_MAX_RANKS; r++)
        m->files[r] = -1;
    const int file = open_file(m, -1, O_CREAT);
    if (ftruncate(file, sizeof(struct meet_segment)) != 0)
        fake_die("ftruncate");
    m->segment =
        mmap(NULL, sizeof(struct meet_segment), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (m->segment == MAP_FAILED)
        fake_die("mmap");
    m->files[rank] = open_file(m, rank, O_CREAT | O_TRUNC);
    return atomic_compare_exchange_strong(&m->segment->n_ranks, &expected, (uint32_t)n_ranks) ||
           expected == (uint32_t)n_ranks;
}

bool meet_is_at(const struct meet *m, uint32_t stage)
{
    for (int r = 0; r < m->n_ranks; r++)
        if (m->segment->slots[r].stage < stage)
            return false;
    return true;
}

void meet_open(struct meet *m)
{
    for (int r = 0; r < m->n_ranks; r++)
        if (r != m->rank)
            m->files[r] = open_file(m, r, 0);
}

void meet_hide(struct meet *m)
{
    char path[256];

    if (m->is_hidden)
        return;
    m->is_hidden = true;
    snprintf(path, sizeof(path), "%s/hvd-fake-nccl-%s.%d", folder(), m->name, m->rank);
    unlink(path);
    if (m->rank != 0 && meet_is_at(m, 2))
        return;
    snprintf(path, sizeof(path), "%s/hvd-fake-nccl-%s", folder(), m->name);
    unlink(path);
}

void meet_close(struct meet *m)
{
    if (m->segment)
        meet_hide(m); /* where an initialisation did not end well */
    if (m->segment)
        munmap(m->segment, sizeof(*m->segment));
    m->segment = NULL;
    for (int r = 0; r < MEET_MAX_RANKS; r++) {
        if (m->files[r] >= 0)
            close(m->files[r]);
        m->files[r] = -1;
    }
}

static void write_all(int file, const char *from, size_t bytes, off_t at)
{
    while (bytes > 0) {
        const ssize_t n = pwrite(file, from, bytes, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            fake_die("cannot write a contribution; HVD_FAKE_NCCL_DIR must be a tmpfs");
        from += n;
        at += n;
        bytes -= (size_t)n;
    }
}

void meet_write(struct meet *m, int lane, uint64_t seq, const struct meet_header *header,
                const void *bytes)
{
    const off_t at = place_of(lane, seq);

    write_all(m->files[m->rank], (const char *)header, sizeof(*header), at);
    write_all(m->files[m->rank], bytes, header->bytes, at + (off_t)sizeof(*header));
}

static void read_all(int file, char *to, size_t bytes, off_t at)
{
    while (bytes > 0) {
        const ssize_t n = pread(file, to, bytes, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            fake_die("cannot read a contribution");
        to += n;
        at += n;
        bytes -= (size_t)n;
    }
}

struct meet_header meet_header_of(const struct meet *m, int rank, int lane, uint64_t seq)
{
    struct meet_header header;

    read_all(m->files[rank], (char *)&header, sizeof(header), place_of(lane, seq));
    return header;
}

void meet_read(const struct meet *m, int rank, int lane, uint64_t seq, void *to, size_t bytes)
{
    read_all(m->files[rank], to, bytes, place_of(lane, seq) + (off_t)sizeof(struct meet_header));
}

void meet_forget(struct meet *m, int lane, uint64_t seq)
{
    const struct meet_header header = meet_header_of(m, m->rank, lane, seq);

    (void)fallocate(m->files[m->rank], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    place_of(lane, seq), (off_t)(sizeof(header) + header.bytes));
}

void meet_drop(struct meet *m)
{
    uint64_t read = UINT64_MAX;

    for (int r = 0; r < m->n_ranks; r++)
        if (m->segment->slots[r].read < read)
            read = m->segment->slots[r].read;
    while (m->n_dropped < read)
        meet_forget(m, 0, ++m->n_dropped);
}
