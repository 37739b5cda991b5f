/*
 * The waits of denied writes. The shell keeps one list for each job, and contest.c reads it before
 * any write is planned. Pure.
 */
#include "operator/core/writes/denial.h"

#include <string.h>

#include "base/mem.h"
#include "operator/core/view/hash.h"
#include "operator/core/writes/repair_internal.h"

#define OWN_MAX 128
#define OWN_OF_PODS_MAX 96
#define FIRST_MS 100
#define LONGEST_MS 30000
#define CHANGED_MS 1000 /* minimum time between two tries of one write, whatever has changed */
#define CALM_MS 600000
#define JITTER 1024
#define SET_BACK_MS LONGEST_MS /* of a clock; a smaller step is corrected */

struct denial {
    uint64_t key;
    uint64_t value;
    int64_t generation;
    int64_t at_ms;
    int64_t due_ms;
    uint32_t n;
    bool is_of_pod;
    bool is_shared; /* by all writes without a wait of their own, to pods or to other objects */
};

struct hvd_denials {
    uint32_t n;
    struct denial list[];
};

struct hvd_attempted_write hvd_denials_write(enum hvd_kind kind, const char *name,
                                             enum hvd_repair repair, uint64_t value,
                                             int64_t generation)
{
    return (struct hvd_attempted_write){
        .key = hvd_repair_key(kind, name, repair),
        .value = repair == HVD_REPAIR_STATUS ? value >> HVD_DENIALS_NEWS_SHIFT : value,
        .generation = generation,
        .is_of_pod = kind == HVD_KIND_POD};
}

/* Whether another write of that sort gets a wait of its own. */
static bool has_room(const struct hvd_denials *denials, bool is_of_pod)
{
    uint32_t n = 0, n_of_pods = 0;

    for (uint32_t i = 0; denials && i < denials->n; i++) {
        n += !denials->list[i].is_shared;
        n_of_pods += !denials->list[i].is_shared && denials->list[i].is_of_pod;
    }
    return n < OWN_MAX && (!is_of_pod || n_of_pods < OWN_OF_PODS_MAX);
}

/* The wait of the write, its own or the shared one; NULL: none. */
static struct denial *find(struct hvd_denials *denials, const struct hvd_attempted_write *write)
{
    const bool is_alone = has_room(denials, write->is_of_pod);
    struct denial *shared = NULL;

    for (uint32_t i = 0; denials && i < denials->n; i++) {
        struct denial *denial = &denials->list[i];

        if (!denial->is_shared && denial->key == write->key)
            return denial;
        if (denial->is_shared && denial->is_of_pod == write->is_of_pod && !is_alone)
            shared = denial;
    }
    return shared;
}

static bool is_changed(const struct denial *denial, const struct hvd_attempted_write *write)
{
    return denial->generation != write->generation ||
           (!denial->is_shared && denial->value != write->value);
}

/* Half of the wait is jitter: jobs that were denied together do not return together. */
static int64_t wait_ms(const struct denial *denial)
{
    const uint64_t hash = hvd_hash_number(denial->key, denial->at_ms);
    int64_t wait = FIRST_MS;

    for (uint32_t i = 1; i < denial->n && wait < LONGEST_MS; i++)
        wait *= 2;
    wait = wait < LONGEST_MS ? wait : LONGEST_MS;
    return wait - wait / 2 * (int64_t)(hash % JITTER) / JITTER;
}

static struct denial *add(struct hvd_denials **denials, const struct hvd_attempted_write *write)
{
    const uint32_t n = *denials ? (*denials)->n : 0;
    const bool is_shared = !has_room(*denials, write->is_of_pod);
    struct hvd_denials *grown =
        hvd_realloc(*denials, 1, sizeof(*grown) + (n + 1) * sizeof(grown->list[0]));

    if (!grown)
        return NULL;
    grown->n = n + 1;
    grown->list[n] = (struct denial){
        .key = is_shared ? 0 : write->key, .is_of_pod = write->is_of_pod, .is_shared = is_shared};
    *denials = grown;
    return &grown->list[n];
}

hvd_status_t hvd_denials_note(struct hvd_denials **denials, const struct hvd_attempted_write *write,
                              int64_t now_ms, int64_t at_least_ms)
{
    struct denial *denial;
    int64_t wait;

    hvd_denials_prune(denials, now_ms);
    denial = find(*denials, write);
    if (!denial)
        denial = add(denials, write);
    if (!denial)
        return HVD_ERR_NOMEM;
    /* Writes that share a wait are denied together: that counts as one try. */
    if (denial->n == 0 || now_ms >= denial->due_ms || is_changed(denial, write))
        denial->n += denial->n < UINT32_MAX;
    denial->value = write->value;
    denial->generation = write->generation;
    denial->at_ms = now_ms;
    wait = wait_ms(denial);
    denial->due_ms = now_ms + (wait > at_least_ms ? wait : at_least_ms);
    return HVD_OK;
}

int64_t hvd_denials_due_ms(const struct hvd_denials *denials,
                           const struct hvd_attempted_write *write, int64_t now_ms)
{
    const struct denial *denial = find((struct hvd_denials *)denials, write);
    int64_t changed_ms;

    if (!denial || now_ms < denial->at_ms - SET_BACK_MS || now_ms >= denial->due_ms)
        return 0;
    changed_ms = denial->at_ms + CHANGED_MS;
    if (!is_changed(denial, write) || denial->due_ms < changed_ms)
        return denial->due_ms;
    return now_ms < changed_ms ? changed_ms : 0;
}

static void remove_at(struct hvd_denials **denials, uint32_t at)
{
    struct hvd_denials *list = *denials;

    list->list[at] = list->list[--list->n];
    if (list->n)
        return;
    hvd_free(list);
    *denials = NULL;
}

void hvd_denials_drop(struct hvd_denials **denials, const struct hvd_attempted_write *write)
{
    const struct denial *denial = find(*denials, write);

    if (denial)
        remove_at(denials, (uint32_t)(denial - (*denials)->list));
}

void hvd_denials_prune(struct hvd_denials **denials, int64_t now_ms)
{
    for (uint32_t i = *denials ? (*denials)->n : 0; i > 0; i--) {
        const struct denial *denial = &(*denials)->list[i - 1];

        if (now_ms < denial->at_ms - SET_BACK_MS || now_ms >= denial->due_ms + CALM_MS)
            remove_at(denials, i - 1);
    }
}

void hvd_denials_destroy(struct hvd_denials *denials)
{
    hvd_free(denials);
}
