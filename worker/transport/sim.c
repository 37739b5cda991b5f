/*
 * The simulated transport; see sim.h. One lock covers the world, so a collective is computed by
 * whichever rank comes to it last, straight into the outputs of all. Results are reduced in rank
 * order, which makes them the same bits everywhere. Faults: a killed rank fails every collective it
 * has not joined, and its peers learn of it through receive.
 */
#include "worker/transport/sim.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "worker/reduce/reduce.h"

struct letter {
    struct letter *next;
    int from;
    unsigned delay; /* looks until it shows */
    size_t len;
    char data[];
};

/* A collective that some rank has started. Joined by sequence number. */
struct round {
    struct round *next;
    uint64_t number;
    int n_joined;
    int n_released;
    bool is_done;
    bool is_broken;                /* a rank gave it up: it never finishes */
    struct hvd_collective **parts; /* by rank; owned array of borrowed collectives */
};

struct sim_rank {
    struct hvd_transport base; /* first */
    struct hvd_sim *sim;
    struct letter *mailbox; /* in the order of arrival */
    uint64_t n_started;
    bool *death_told; /* by rank */
};

struct hvd_sim {
    pthread_mutex_t mu;
    struct hvd_sim_options options; /* constant */
    char (*hosts)[16];              /* by rank; constant */
    uint64_t random;                /* what follows is guarded by mu */
    uint64_t n_messages;
    struct sim_rank **ranks;
    bool *dead;
    struct round *rounds;
};

static unsigned draw_delay(struct hvd_sim *sim)
{
    sim->random ^= sim->random << 13;
    sim->random ^= sim->random >> 7;
    sim->random ^= sim->random << 17;
    return (unsigned)(sim->random % sim->options.max_delay);
}

static hvd_status_t sim_send(struct hvd_transport *t, int to, const void *data, size_t len,
                             struct hvd_err *err)
{
    struct sim_rank *me = (struct sim_rank *)t;
    struct hvd_sim *sim = me->sim;
    struct letter *letter = hvd_malloc(sizeof(*letter) + len, 1);

    if (!letter)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a message to rank %d", to);
    letter->next = NULL;
    letter->from = t->topology.rank;
    letter->len = len;
    memcpy(letter->data, data, len);

    pthread_mutex_lock(&sim->mu);
    letter->delay = draw_delay(sim);
    const bool is_lost = sim->dead[to] || sim->dead[letter->from];
    if (!is_lost && sim->ranks[to]) { /* nobody reads what comes to a rank that has left */
        struct letter **end = &sim->ranks[to]->mailbox;
        while (*end)
            end = &(*end)->next;
        *end = letter;
        letter = NULL;
        sim->n_messages++;
    }
    pthread_mutex_unlock(&sim->mu);
    hvd_free(letter);
    if (is_lost)
        return HVD_FAIL(err, HVD_ERR_UNAVAILABLE, 0, "rank %d is lost", to);
    return HVD_OK;
}

/* The first letter that may show, at most one per sender in a look: order per sender is kept. */
static struct letter *pick_letter(struct sim_rank *me)
{
    for (struct letter **at = &me->mailbox; *at; at = &(*at)->next) {
        struct letter *letter = *at;
        bool is_first = true;
        for (struct letter *before = me->mailbox; before != letter; before = before->next)
            is_first = is_first && before->from != letter->from;
        if (!is_first)
            continue;
        if (letter->delay == 0) {
            *at = letter->next;
            return letter;
        }
        letter->delay--;
    }
    return NULL;
}

/* A dead rank of which this one has not heard, and whose letters are all read; -1 when none. */
static int untold_death(const struct sim_rank *me)
{
    for (int rank = 0; rank < me->base.topology.size; rank++) {
        bool has_mail = false;
        if (!me->sim->dead[rank] || me->death_told[rank])
            continue;
        for (const struct letter *l = me->mailbox; l; l = l->next)
            has_mail = has_mail || l->from == rank;
        if (!has_mail)
            return rank;
    }
    return -1;
}

static hvd_status_t sim_receive(struct hvd_transport *t, struct hvd_inbound *in,
                                struct hvd_err *err)
{
    struct sim_rank *me = (struct sim_rank *)t;
    struct hvd_sim *sim = me->sim;

    pthread_mutex_lock(&sim->mu);
    struct letter *letter = pick_letter(me);
    int dead = letter ? -1 : untold_death(me);
    if (dead >= 0)
        me->death_told[dead] = true;
    pthread_mutex_unlock(&sim->mu);
    if (dead >= 0) {
        in->from = dead;
        return HVD_FAIL(err, HVD_ERR_GONE, 0, "rank %d was killed", dead);
    }
    if (!letter)
        return HVD_INPROGRESS;

    char *data = hvd_malloc(letter->len, 1);
    if (data) {
        memcpy(data, letter->data, letter->len);
        *in = (struct hvd_inbound){.from = letter->from, .data = data, .len = letter->len};
    }
    hvd_free(letter);
    return data ? HVD_OK : HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a message");
}

static void destroy_round(struct round *r)
{
    hvd_free(r->parts);
    hvd_free(r);
}

/* The round of that number, made by the first rank that comes; NULL when out of memory. */
static struct round *get_round(struct hvd_sim *sim, uint64_t number)
{
    struct round **at = &sim->rounds;

    for (; *at; at = &(*at)->next)
        if ((*at)->number == number)
            return *at;
    struct round *r = hvd_calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->number = number;
    r->parts = hvd_calloc((size_t)sim->options.size, sizeof(struct hvd_collective *));
    if (!r->parts) {
        destroy_round(r);
        return NULL;
    }
    *at = r;
    return r;
}

static bool compute_allreduce(const struct round *r, int size)
{
    const struct hvd_collective *first = r->parts[0];
    const size_t bytes = (size_t)first->count * hvd_dtype_size((int)first->dtype);
    void *sum = hvd_malloc(bytes, 1);

    if (!sum)
        return false;
    memcpy(sum, first->input, bytes);
    for (int i = 1; i < size; i++)
        hvd_reduce_combine(first->dtype, first->reduce, sum, r->parts[i]->input, first->count);
    for (int i = 0; i < size; i++)
        memcpy(r->parts[i]->output, sum, bytes);
    hvd_free(sum);
    return true;
}

static void compute_broadcast(const struct round *r, int size)
{
    const struct hvd_collective *root = r->parts[r->parts[0]->root];
    const size_t bytes = (size_t)root->count * hvd_dtype_size((int)root->dtype);

    for (int i = 0; i < size; i++)
        if (r->parts[i]->output != root->input)
            memcpy(r->parts[i]->output, root->input, bytes);
}

static void compute_allgather(const struct round *r, int size)
{
    size_t at = 0;

    for (int from = 0; from < size; from++) {
        const struct hvd_collective *part = r->parts[from];
        size_t bytes = (size_t)part->count * hvd_dtype_size((int)part->dtype);
        for (int to = 0; bytes > 0 && to < size; to++)
            memcpy((char *)r->parts[to]->output + at, part->input, bytes);
        at += bytes;
    }
}

static bool compute(const struct round *r, int size)
{
    if (r->parts[0]->op == HVD_ALLREDUCE)
        return compute_allreduce(r, size);
    if (r->parts[0]->op == HVD_BROADCAST)
        compute_broadcast(r, size);
    else
        compute_allgather(r, size);
    return true;
}

static hvd_status_t sim_start(struct hvd_transport *t, struct hvd_collective *c,
                              struct hvd_err *err)
{
    struct sim_rank *me = (struct sim_rank *)t;
    struct hvd_sim *sim = me->sim;
    bool good = false;

    pthread_mutex_lock(&sim->mu);
    struct round *r = get_round(sim, me->n_started);
    if (r) {
        me->n_started++;
        r->parts[t->topology.rank] = c;
        r->n_joined++;
        c->_state = r;
        bool is_whole = r->n_joined == t->topology.size && !r->is_broken;
        good = !is_whole || compute(r, t->topology.size);
        r->is_done = good && is_whole;
    }
    pthread_mutex_unlock(&sim->mu);
    if (!good)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a collective");
    return HVD_OK;
}

/* The last rank that sees a finished round removes it. */
static void release_round(struct hvd_sim *sim, struct round *r)
{
    if (++r->n_released < sim->options.size)
        return;
    for (struct round **at = &sim->rounds; *at; at = &(*at)->next) {
        if (*at == r) {
            *at = r->next;
            break;
        }
    }
    destroy_round(r);
}

static hvd_status_t sim_test(struct hvd_transport *t, struct hvd_collective *c, struct hvd_err *err)
{
    struct hvd_sim *sim = ((struct sim_rank *)t)->sim;
    struct round *r = c->_state;
    hvd_status_t st = HVD_INPROGRESS;
    int lost = -1;

    pthread_mutex_lock(&sim->mu);
    const bool is_broken = !r->is_done && r->is_broken;
    for (int i = 0; i < t->topology.size && !r->is_done; i++)
        if (sim->dead[i] && (!r->parts[i] || is_broken))
            lost = i; /* who gave up did so because of it */
    if (r->is_done && draw_delay(sim) == 0) {
        release_round(sim, r);
        c->_state = NULL;
        st = HVD_OK;
    }
    pthread_mutex_unlock(&sim->mu);
    if (lost >= 0)
        return HVD_FAIL(err, HVD_ERR_UNAVAILABLE, 0, "rank %d was killed", lost);
    if (is_broken)
        return HVD_FAIL(err, HVD_ERR_UNAVAILABLE, 0, "another rank gave up");
    return st;
}

static void sim_abandon(struct hvd_transport *t, struct hvd_collective *c)
{
    struct hvd_sim *sim = ((struct sim_rank *)t)->sim;
    struct round *r = c->_state;

    pthread_mutex_lock(&sim->mu);
    if (r->is_done)
        release_round(sim, r);
    else
        r->is_broken = true;
    pthread_mutex_unlock(&sim->mu);
    c->_state = NULL;
}

static const char *sim_host(const struct hvd_transport *t, int rank)
{
    const struct sim_rank *me = (const struct sim_rank *)t;

    return rank >= 0 && rank < t->topology.size ? me->sim->hosts[rank] : NULL;
}

/* Leaving is dying without anybody being told: rounds that this rank joined are complete or lost.
 */
static bool sim_leave(struct hvd_transport *t, bool clean)
{
    struct sim_rank *me = (struct sim_rank *)t;
    struct hvd_sim *sim = me->sim;

    (void)clean;
    pthread_mutex_lock(&sim->mu);
    sim->ranks[t->topology.rank] = NULL;
    struct letter *letter = me->mailbox;
    me->mailbox = NULL;
    pthread_mutex_unlock(&sim->mu);
    while (letter) {
        struct letter *next = letter->next;
        hvd_free(letter);
        letter = next;
    }
    hvd_free(me->death_told);
    hvd_free(me);
    return true;
}

static const struct hvd_transport_ops sim_ops = {
    .name = "sim",
    .send = sim_send,
    .receive = sim_receive,
    .start = sim_start,
    .test = sim_test,
    .abandon = sim_abandon,
    .host = sim_host,
    .destroy = sim_leave,
};

static struct hvd_topology place(const struct hvd_sim_options *options, int rank)
{
    const int size = options->size;
    const int per_host = options->ranks_per_host > 0 ? options->ranks_per_host : size;
    const int host = rank / per_host;
    const int n_hosts = (size + per_host - 1) / per_host;
    const int local_rank = rank % per_host;
    const int on_last = size - (n_hosts - 1) * per_host;

    return (struct hvd_topology){
        .rank = rank,
        .size = size,
        .local_rank = local_rank,
        .local_size = host == n_hosts - 1 ? on_last : per_host,
        .cross_rank = host,
        .cross_size = local_rank < on_last ? n_hosts : n_hosts - 1,
        .is_homogeneous = size % per_host == 0,
        .threads_multiple = true,
    };
}

hvd_status_t hvd_sim_create(const struct hvd_sim_options *options, struct hvd_sim **out,
                            struct hvd_err *err)
{
    struct hvd_sim *sim = hvd_calloc(1, sizeof(*sim));

    if (!sim)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a simulated world");
    sim->options = *options;
    if (sim->options.max_delay == 0)
        sim->options.max_delay = 1;
    sim->random = options->seed * 2654435761u + 88172645463325252u;
    sim->ranks = hvd_calloc((size_t)options->size, sizeof(struct sim_rank *));
    sim->dead = hvd_calloc((size_t)options->size, sizeof(bool));
    sim->hosts = hvd_calloc((size_t)options->size, sizeof(*sim->hosts));
    if (!sim->ranks || !sim->dead || !sim->hosts || pthread_mutex_init(&sim->mu, NULL) != 0) {
        hvd_free(sim->ranks);
        hvd_free(sim->dead);
        hvd_free(sim->hosts);
        hvd_free(sim);
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a simulated world");
    }
    for (int rank = 0; rank < options->size; rank++)
        snprintf(sim->hosts[rank], sizeof(*sim->hosts), "sim-%d",
                 place(&sim->options, rank).cross_rank);
    *out = sim;
    return HVD_OK;
}

void hvd_sim_destroy(struct hvd_sim *sim)
{
    if (!sim)
        return;
    while (sim->rounds) {
        struct round *r = sim->rounds;
        sim->rounds = r->next;
        destroy_round(r);
    }
    pthread_mutex_destroy(&sim->mu);
    hvd_free(sim->ranks);
    hvd_free(sim->dead);
    hvd_free(sim->hosts);
    hvd_free(sim);
}

hvd_status_t hvd_sim_join(struct hvd_sim *sim, int rank, struct hvd_transport **out,
                          struct hvd_err *err)
{
    struct sim_rank *me = hvd_calloc(1, sizeof(*me));
    bool *told = hvd_calloc((size_t)sim->options.size, sizeof(bool));

    if (!me || !told) {
        hvd_free(me);
        hvd_free(told);
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for simulated rank %d", rank);
    }
    me->base.ops = &sim_ops;
    me->base.topology = place(&sim->options, rank);
    me->sim = sim;
    me->death_told = told;
    pthread_mutex_lock(&sim->mu);
    sim->ranks[rank] = me;
    pthread_mutex_unlock(&sim->mu);
    *out = &me->base;
    return HVD_OK;
}

void hvd_sim_kill(struct hvd_sim *sim, int rank)
{
    pthread_mutex_lock(&sim->mu);
    sim->dead[rank] = true;
    pthread_mutex_unlock(&sim->mu);
}

uint64_t hvd_sim_messages(struct hvd_sim *sim)
{
    pthread_mutex_lock(&sim->mu);
    uint64_t n = sim->n_messages;
    pthread_mutex_unlock(&sim->mu);
    return n;
}
