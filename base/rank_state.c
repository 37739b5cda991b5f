/*
 * The page is a memfd that the wrapper creates. The rank maps and writes it only if it has exactly
 * the wrapper's seals: the variable might name another file by mistake.
 */
#include "base/rank_state.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define WORDS_MAX 1024
#define MAGIC 0x48564453U
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

enum { CAUSE_NOTHING, CAUSE_IN_WRITING, CAUSE_WORDS };

struct page {
    uint32_t magic;
    atomic_uint phase;
    atomic_uint blamed; /* 1 + the rank; 0: none */
    atomic_bool joins_all;
    atomic_bool has_mpi;
    atomic_bool is_final;
    atomic_uint joins;
    atomic_int pid;
    atomic_int raised;
    atomic_llong warning_ms;
    atomic_llong shutdown_ms;
    char words[WORDS_MAX]; /* the exception of the process in `raised` */
    atomic_uint cause_state;
    char cause[WORDS_MAX];
};

static struct page *_Atomic mapped;

static struct page *map(int fd)
{
    void *at = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return at == MAP_FAILED ? NULL : at;
}

hvd_status_t hvd_rank_state_create(void)
{
    const int fd = memfd_create("horovod-rank-state", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct page *page = NULL;
    char path[64];

    if (fd < 0)
        return HVD_ERR_SYSTEM;
    if (ftruncate(fd, sizeof(*page)) == 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0)
        page = map(fd);
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), fd);
    if (!page || setenv(HVD_RANK_STATE_ENV, path, 1) != 0) {
        (void)close(fd);
        return HVD_ERR_SYSTEM;
    }
    page->magic = MAGIC;
    atomic_store(&mapped, page);
    return HVD_OK;
}

enum hvd_rank_phase hvd_rank_state_get(void)
{
    struct page *page = atomic_load(&mapped);
    const unsigned phase = page ? atomic_load(&page->phase) : HVD_RANK_OUTSIDE;

    return phase <= HVD_RANK_ENDED ? (enum hvd_rank_phase)phase : HVD_RANK_OUTSIDE;
}

bool hvd_rank_state_is_init(enum hvd_rank_phase phase)
{
    return phase >= HVD_RANK_JOINING && phase <= HVD_RANK_MEETING;
}

uint32_t hvd_rank_state_joins(void)
{
    struct page *page = atomic_load(&mapped);

    return page ? atomic_load(&page->joins) : 0;
}

pid_t hvd_rank_state_pid(void)
{
    struct page *page = atomic_load(&mapped);

    return page ? atomic_load(&page->pid) : 0;
}

void hvd_rank_state_open(void)
{
    const char *path = getenv(HVD_RANK_STATE_ENV);
    const int fd = path && !atomic_load(&mapped) ? open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK) : -1;
    struct page *page = NULL;

    if (fd < 0)
        return;
    if (fcntl(fd, F_GET_SEALS) == SEALS && lseek(fd, 0, SEEK_END) == (off_t)sizeof(*page))
        page = map(fd);
    (void)close(fd);
    if (page && page->magic == MAGIC)
        atomic_store(&mapped, page);
    else if (page)
        (void)munmap(page, sizeof(*page));
}

void hvd_rank_state_set(enum hvd_rank_phase phase)
{
    struct page *page = atomic_load(&mapped);

    if (!page)
        return;
    if (phase == HVD_RANK_JOINING) {
        atomic_store(&page->blamed, 0);
        atomic_store(&page->cause_state, CAUSE_NOTHING);
        atomic_store(&page->pid, getpid());
        (void)atomic_fetch_add(&page->joins, 1);
    }
    if (phase > HVD_RANK_JOINING && phase < HVD_RANK_ENDED)
        atomic_store(&page->has_mpi, true);
    atomic_store(&page->phase, (unsigned)phase);
}

void hvd_rank_state_raise(const char *words)
{
    struct page *page = atomic_load(&mapped);

    if (!page)
        return;
    (void)snprintf(page->words, sizeof(page->words), "%s", words);
    atomic_store(&page->raised, getpid());
}

const char *hvd_rank_state_words(void)
{
    struct page *page = atomic_load(&mapped);

    if (!page)
        return "";
    page->words[sizeof(page->words) - 1] = '\0'; /* the rank may not have terminated it */
    return page->words;
}

void hvd_rank_state_set_cause(const char *words)
{
    struct page *page = atomic_load(&mapped);
    unsigned nothing = CAUSE_NOTHING;

    if (!page || atomic_load(&page->raised) == getpid() ||
        !atomic_compare_exchange_strong(&page->cause_state, &nothing, CAUSE_IN_WRITING))
        return;
    (void)snprintf(page->cause, sizeof(page->cause), "%s", words);
    atomic_store(&page->cause_state, CAUSE_WORDS);
}

const char *hvd_rank_state_cause(void)
{
    struct page *page = atomic_load(&mapped);

    if (!page || atomic_load(&page->cause_state) != CAUSE_WORDS)
        return "";
    page->cause[sizeof(page->cause) - 1] = '\0'; /* as above */
    return page->cause;
}

pid_t hvd_rank_state_raised(void)
{
    struct page *page = atomic_load(&mapped);

    return page ? atomic_load(&page->raised) : 0;
}

void hvd_rank_state_set_stall_times(int64_t warning_ms, int64_t shutdown_ms)
{
    struct page *page = atomic_load(&mapped);

    if (!page)
        return;
    atomic_store(&page->warning_ms, warning_ms);
    atomic_store(&page->shutdown_ms, shutdown_ms);
}

/* The wrapper does not trust the rank to store a time. */
static int64_t not_negative(int64_t value)
{
    return value > 0 ? value : 0;
}

int64_t hvd_rank_state_warning_ms(void)
{
    struct page *page = atomic_load(&mapped);

    return page ? not_negative(atomic_load(&page->warning_ms)) : 0;
}

int64_t hvd_rank_state_shutdown_ms(void)
{
    struct page *page = atomic_load(&mapped);

    return page ? not_negative(atomic_load(&page->shutdown_ms)) : 0;
}

void hvd_rank_state_blame(int64_t rank)
{
    struct page *page = atomic_load(&mapped);
    unsigned nobody = 0;

    if (page && rank >= 0 && rank < INT32_MAX)
        (void)atomic_compare_exchange_strong(&page->blamed, &nobody, (unsigned)rank + 1);
}

int64_t hvd_rank_state_blamed(void)
{
    struct page *page = atomic_load(&mapped);
    const unsigned blamed = page ? atomic_load(&page->blamed) : 0;

    return blamed <= INT32_MAX ? (int64_t)blamed - 1 : -1;
}

void hvd_rank_state_join_all(bool joins_all)
{
    struct page *page = atomic_load(&mapped);

    if (page)
        atomic_store(&page->joins_all, joins_all);
}

bool hvd_rank_state_joins_all(void)
{
    struct page *page = atomic_load(&mapped);

    return page && atomic_load(&page->joins_all);
}

void hvd_rank_state_finalise(void)
{
    struct page *page = atomic_load(&mapped);

    if (page)
        atomic_store(&page->is_final, true);
}

bool hvd_rank_state_is_final(void)
{
    struct page *page = atomic_load(&mapped);

    return page && atomic_load(&page->is_final);
}

bool hvd_rank_state_keeps_mpi(void)
{
    struct page *page = atomic_load(&mapped);

    return page && atomic_load(&page->has_mpi) && !atomic_load(&page->is_final);
}
