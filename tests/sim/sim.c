/*
 * The simulated transport; see sim.h. One lock covers the world, so a collective is computed by
 * whichever rank comes to it last, straight into the outputs of all. Results are reduced in rank
 * order, which makes them the same bits everywhere. Faults: a killed rank fails every collective it
 * has not joined, and its peers learn of it through receive.
 */
#include "tests/sim/sim.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "worker/reduce/reduce.h"

struct letter {
    struct letter *next;
    int from;
    unsigned delay;   /* looks until it shows */
    int64_t comes_ns; /* modelled; 0 without a network */
    size_t len;
    size_t room;
    char *data; /* owned until somebody receives it */
};

/* A process set, entered by its first member that comes. Numbers of the set 0 are in the rank. */
struct sim_set {
    struct sim_set *next;
    uint32_t id;
    int size;
    int *ranks;          /* of the world, by rank of the set; owned */
    uint64_t *n_started; /* by rank of the set; owned */
};

/* A collective that some rank has started. Joined by sequence number. */
struct round {
    struct round *next;
    struct sim_set *set;
    uint64_t number;
    int n_joined;
    int n_released;
    uint64_t n_moved; /* by hvd_sim_move */
    bool is_done;
    bool is_broken;                /* a rank gave it up: it never finishes, and the cause comes as
                                      a message, as it does where data moves through real wires */
    int64_t done_ns;               /* modelled; 0 without a network */
    struct hvd_collective **parts; /* by rank of the set; owned array of borrowed collectives */
};

struct sim_rank {
    struct hvd_transport base; /* first */
    struct hvd_sim *sim;
    struct letter *mailbox; /* in the order of arrival */
    struct letter *empty;   /* their content was received */
    bool *death_told;       /* by rank */
};

struct hvd_sim {
    pthread_mutex_t mu;
    struct hvd_sim_options options; /* constant */
    char (*hosts)[16];              /* by rank; constant */
    uint64_t random;                /* what follows is guarded by mu */
    uint64_t n_messages;
    uint64_t n_events;
    uint64_t n_sent; /* also those that were lost */
    int64_t now_ns;
    struct hvd_clock *clock; /* NULL: no modelled time; owned */
    struct sim_rank **ranks;
    bool *dead;
    struct round *rounds;
    struct sim_set *sets;     /* 0 is the last one */
    struct letter *letters;   /* to be used again */
    struct round *old_rounds; /* the same, of set 0 */
    char *scratch;            /* for reductions; owned */
    size_t scratch_size;
};

static unsigned draw_delay(struct hvd_sim *sim)
{
    sim->random ^= sim->random << 13;
    sim->random ^= sim->random >> 7;
    sim->random ^= sim->random << 17;
    return (unsigned)(sim->random % sim->options.max_delay);
}

/* A letter with room for len bytes; NULL when out of memory. Holds mu. */
static struct letter *take_letter(struct hvd_sim *sim, size_t len)
{
    struct letter *letter;

    for (struct letter **at = &sim->letters; *at; at = &(*at)->next) {
        if ((*at)->room < len || !(*at)->data)
            continue;
        letter = *at;
        *at = letter->next;
        return letter;
    }
    letter = hvd_calloc(1, sizeof(*letter));
    if (!letter)
        return NULL;
    letter->data = hvd_malloc(len, 1);
    letter->room = len;
    if (letter->data)
        return letter;
    hvd_free(letter);
    return NULL;
}

/* Holds mu. */
static void keep_letter(struct hvd_sim *sim, struct letter *letter)
{
    letter->next = sim->letters;
    sim->letters = letter;
}

/* Counts an event, and kills who is to die at it. Holds mu. */
static void count_event(struct hvd_sim *sim)
{
    if (++sim->n_events == sim->options.faults.die_at)
        sim->dead[sim->options.faults.die_rank] = true;
}

/* How many looks a message is hidden for. Holds mu. */
static unsigned delay_of(struct hvd_sim *sim, int to)
{
    const struct hvd_sim_faults *faults = &sim->options.faults;
    unsigned delay = draw_delay(sim);

    if (faults->spike_every > 0 && sim->n_sent % faults->spike_every == 0)
        delay += faults->spike_looks;
    if (faults->slow_rank == to)
        delay += faults->slow_looks;
    return delay;
}

/* A message on its way. False when out of memory. Holds mu. */
static bool post(struct hvd_sim *sim, const struct letter *like, int to, const void *data)
{
    struct letter *letter = take_letter(sim, like->len);
    struct letter **end = &sim->ranks[to]->mailbox;

    if (!letter)
        return false;
    letter->next = NULL;
    letter->from = like->from;
    letter->len = like->len;
    letter->delay = sim->clock ? 0 : like->delay;
    letter->comes_ns = like->comes_ns;
    memcpy(letter->data, data, like->len);
    for (; *end; end = &(*end)->next) /* on one way, none overtakes another */
        if ((*end)->from == letter->from && (*end)->comes_ns > letter->comes_ns)
            letter->comes_ns = (*end)->comes_ns;
    *end = letter;
    return true;
}

static hvd_status_t sim_send(struct hvd_transport *t, int to, const void *data, size_t len,
                             struct hvd_err *err)
{
    struct sim_rank *me = (struct sim_rank *)t;
    struct hvd_sim *sim = me->sim;
    struct letter letter = {.from = t->topology.rank, .len = len};
    bool good = true;

    pthread_mutex_lock(&sim->mu);
    count_event(sim);
    sim->n_sent++;
    letter.delay = delay_of(sim, to);
    if (sim->clock)
        letter.comes_ns = hvd_loggp_send(sim->clock, letter.from, to, len, sim->now_ns);
    const bool is_lost = sim->dead[to] || sim->dead[letter.from];
    if (!is_lost && sim->ranks[to]) { /* nobody reads what comes to a rank that has left */
        if (sim->n_sent != sim->options.faults.lose)
            good = post(sim, &letter, to, data);
        if (good && sim->n_sent == sim->options.faults.duplicate)
            good = post(sim, &letter, to, data);
        sim->n_messages++;
    }
    pthread_mutex_unlock(&sim->mu);
    if (!good)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a message to rank %d", to);
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
        if (letter->comes_ns > me->sim->now_ns)
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
    const int witness = me->sim->options.faults.only_witness;

    if (witness > 0 && me->base.topology.rank != witness - 1 &&
        !me->sim->dead[me->base.topology.rank])
        return -1;
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
    if (letter)
        count_event(sim);
    if (letter && sim->clock)
        hvd_loggp_receive(sim->clock, letter->from, t->topology.rank, letter->comes_ns);
    pthread_mutex_unlock(&sim->mu);
    if (dead >= 0) {
        in->from = dead;
        return HVD_FAIL(err, HVD_ERR_GONE, 0, "rank %d was killed", dead);
    }
    if (!letter)
        return HVD_INPROGRESS;

    *in = (struct hvd_inbound){.from = letter->from, .data = letter->data, .len = letter->len};
    letter->data = NULL;
    pthread_mutex_lock(&sim->mu);
    letter->next = me->empty;
    me->empty = letter;
    pthread_mutex_unlock(&sim->mu);
    return HVD_OK;
}

/* The last message that was received: its letter still knows how much room it has. */
static void sim_recycle(struct hvd_transport *t, struct hvd_inbound *in)
{
    struct hvd_sim *sim = ((struct sim_rank *)t)->sim;
    struct sim_rank *me = (struct sim_rank *)t;

    pthread_mutex_lock(&sim->mu);
    struct letter *letter = me->empty;
    me->empty = letter->next;
    letter->data = in->data;
    keep_letter(sim, letter);
    pthread_mutex_unlock(&sim->mu);
    in->data = NULL;
}

static void destroy_round(struct round *r)
{
    hvd_free(r->parts);
    hvd_free(r);
}

static struct sim_set *find_set(const struct hvd_sim *sim, uint32_t id)
{
    struct sim_set *set = sim->sets;

    while (set && set->id != id)
        set = set->next;
    return set;
}

static int rank_in(const struct sim_set *set, int world_rank)
{
    for (int i = 0; i < set->size; i++)
        if (set->ranks[i] == world_rank)
            return i;
    return -1;
}

static struct round *make_round(struct hvd_sim *sim, struct sim_set *set)
{
    struct round *r = set->id == 0 ? sim->old_rounds : NULL;

    if (r) {
        struct hvd_collective **parts = r->parts;
        sim->old_rounds = r->next;
        memset(parts, 0, (size_t)set->size * sizeof(struct hvd_collective *));
        *r = (struct round){.parts = parts};
        return r;
    }
    r = hvd_calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->parts = hvd_calloc((size_t)set->size, sizeof(struct hvd_collective *));
    if (!r->parts) {
        destroy_round(r);
        return NULL;
    }
    return r;
}

/* The round of that number, made by the first rank that comes; NULL when out of memory. */
static struct round *get_round(struct hvd_sim *sim, struct sim_set *set, uint64_t number)
{
    struct round **at = &sim->rounds;

    for (; *at; at = &(*at)->next)
        if ((*at)->number == number && (*at)->set == set)
            return *at;
    struct round *r = make_round(sim, set);
    if (!r)
        return NULL;
    r->number = number;
    r->set = set;
    *at = r;
    return r;
}

/* Room for two payloads of so many bytes. */
static char *get_scratch(struct hvd_sim *sim, size_t bytes)
{
    if (sim->scratch_size < 2 * bytes) {
        char *scratch = hvd_realloc(sim->scratch, 2 * bytes, 1);
        if (!scratch)
            return NULL;
        sim->scratch = scratch;
        sim->scratch_size = 2 * bytes;
    }
    return sim->scratch;
}

/* The payload of one rank in one piece, scaled, into `to`. */
static void pack(const struct hvd_collective *c, char *to)
{
    const size_t width = hvd_dtype_size((int)c->dtype);

    if (!c->pieces) {
        hvd_reduce_prescale(c->dtype, &c->scaling, to, c->input, c->count);
        return;
    }
    for (int i = 0; i < c->n_pieces; i++) {
        hvd_reduce_prescale(c->dtype, &c->scaling, to, c->pieces[i].input, c->pieces[i].count);
        to += (size_t)c->pieces[i].count * width;
    }
}

static void unpack(const struct hvd_collective *c, const char *from)
{
    const size_t width = hvd_dtype_size((int)c->dtype);

    if (!c->pieces) {
        memcpy(c->output, from, (size_t)c->count * width);
        return;
    }
    for (int i = 0; i < c->n_pieces; i++) {
        memcpy(c->pieces[i].output, from, (size_t)c->pieces[i].count * width);
        from += (size_t)c->pieces[i].count * width;
    }
}

/* The reduction of all ranks, in rank order, at the start of the scratch; NULL: out of memory. */
static char *reduce_all(struct hvd_sim *sim, const struct round *r)
{
    const struct hvd_collective *first = r->parts[0];
    const size_t bytes = (size_t)first->count * hvd_dtype_size((int)first->dtype);
    char *sum = get_scratch(sim, bytes);

    if (!sum)
        return NULL;
    pack(first, sum);
    for (int i = 1; i < r->set->size; i++) {
        pack(r->parts[i], sum + bytes);
        hvd_reduce_combine(first->dtype, first->reduce, sum, sum + bytes, first->count);
    }
    hvd_reduce_finish(first->dtype, &first->scaling, sum, first->count);
    return sum;
}

static bool compute_allreduce(struct hvd_sim *sim, const struct round *r)
{
    const char *sum = reduce_all(sim, r);

    for (int i = 0; sum && i < r->set->size; i++)
        unpack(r->parts[i], sum);
    return sum != NULL;
}

static bool compute_scatter(struct hvd_sim *sim, const struct round *r)
{
    const char *sum = reduce_all(sim, r);

    for (int i = 0; sum && i < r->set->size; i++) {
        const struct hvd_collective *c = r->parts[i];
        size_t bytes = (size_t)c->counts[i] * hvd_dtype_size((int)c->dtype);
        if (bytes > 0)
            memcpy(c->output, sum, bytes);
        sum += bytes;
    }
    return sum != NULL;
}

static void compute_broadcast(const struct round *r)
{
    const struct hvd_collective *root = r->parts[r->parts[0]->root];
    const size_t bytes = (size_t)root->count * hvd_dtype_size((int)root->dtype);

    for (int i = 0; i < r->set->size; i++)
        if (r->parts[i]->output != root->input)
            memcpy(r->parts[i]->output, root->input, bytes);
}

/* The inputs of all ranks, one behind the other, in the scratch: outputs may lie where inputs do.
 * *total: their bytes. NULL: out of memory. */
static const char *gather_inputs(struct hvd_sim *sim, const struct round *r, size_t *total)
{
    const size_t width = hvd_dtype_size((int)r->parts[0]->dtype);
    size_t at = 0;

    *total = 0;
    for (int from = 0; from < r->set->size; from++)
        *total += (size_t)r->parts[from]->count * width;
    char *all = get_scratch(sim, *total / 2 + 1);
    for (int from = 0; all && from < r->set->size; from++) {
        const size_t bytes = (size_t)r->parts[from]->count * width;
        if (bytes > 0)
            memcpy(all + at, r->parts[from]->input, bytes);
        at += bytes;
    }
    return all;
}

static bool compute_allgather(struct hvd_sim *sim, const struct round *r)
{
    size_t total;
    const char *all = gather_inputs(sim, r, &total);

    for (int to = 0; all && total > 0 && to < r->set->size; to++)
        memcpy(r->parts[to]->output, all, total);
    return all != NULL;
}

static bool compute_alltoall(struct hvd_sim *sim, const struct round *r)
{
    const size_t width = hvd_dtype_size((int)r->parts[0]->dtype);
    size_t total;
    const char *input = gather_inputs(sim, r, &total);

    if (!input)
        return false;
    for (int from = 0; from < r->set->size; from++) {
        for (int to = 0; to < r->set->size; to++) {
            const size_t bytes = (size_t)r->parts[from]->counts[to] * width;
            char *output = r->parts[to]->output;
            for (int i = 0; i < from; i++)
                output += (size_t)r->parts[i]->counts[to] * width;
            if (bytes > 0)
                memcpy(output, input, bytes);
            input += bytes;
        }
    }
    return true;
}

static bool compute(struct hvd_sim *sim, const struct round *r)
{
    switch ((int)r->parts[0]->op) {
    case HVD_ALLREDUCE:
        return compute_allreduce(sim, r);
    case HVD_REDUCESCATTER:
        return compute_scatter(sim, r);
    case HVD_BROADCAST:
        compute_broadcast(r);
        return true;
    case HVD_ALLTOALL:
        return compute_alltoall(sim, r);
    default:
        return compute_allgather(sim, r);
    }
}

/* The round is over some time after its last rank has come. */
static void note_start(struct hvd_sim *sim, struct round *r, int rank)
{
    const struct hvd_collective *c = r->parts[rank_in(r->set, rank)];

    if (!sim->clock)
        return;
    const int64_t at = hvd_loggp_work(sim->clock, rank, sim->now_ns, 0);
    const int64_t takes = hvd_loggp_collective(sim->clock, r->set->size,
                                               (size_t)c->count * hvd_dtype_size((int)c->dtype));
    if (at + takes > r->done_ns)
        r->done_ns = at + takes;
}

/* The round is done if all have come and all has moved; false when out of memory. Holds mu. */
static bool end_round(struct hvd_sim *sim, struct round *r)
{
    const struct hvd_sim_faults *faults = &sim->options.faults;

    if (r->n_joined < r->set->size || r->is_broken || faults->no_data ||
        r->n_moved < faults->n_moves)
        return true;
    r->is_done = compute(sim, r);
    return r->is_done;
}

void hvd_sim_move(struct hvd_sim *sim)
{
    pthread_mutex_lock(&sim->mu);
    for (struct round *r = sim->rounds; r; r = r->next) {
        if (r->is_done || r->n_joined < r->set->size)
            continue;
        r->n_moved++;
        (void)end_round(sim, r);
    }
    pthread_mutex_unlock(&sim->mu);
}

static hvd_status_t sim_start(struct hvd_transport *t, struct hvd_collective *c,
                              struct hvd_err *err)
{
    struct sim_rank *me = (struct sim_rank *)t;
    struct hvd_sim *sim = me->sim;
    bool good = false;

    pthread_mutex_lock(&sim->mu);
    struct sim_set *set = find_set(sim, c->set);
    const int rank = set ? rank_in(set, t->topology.rank) : -1;
    struct round *r = rank >= 0 ? get_round(sim, set, set->n_started[rank]) : NULL;
    if (r) {
        set->n_started[rank]++;
        r->parts[rank] = c;
        r->n_joined++;
        c->_state = r;
        good = end_round(sim, r);
        count_event(sim);
        note_start(sim, r, t->topology.rank);
    }
    pthread_mutex_unlock(&sim->mu);
    if (rank < 0)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "rank %d is not in process set %u",
                        t->topology.rank, c->set);
    if (!good)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a collective");
    return HVD_OK;
}

/* The last rank that sees a finished round removes it. */
static void release_round(struct hvd_sim *sim, struct round *r)
{
    if (++r->n_released < r->set->size)
        return;
    for (struct round **at = &sim->rounds; *at; at = &(*at)->next) {
        if (*at == r) {
            *at = r->next;
            break;
        }
    }
    if (r->set->id != 0) {
        destroy_round(r);
        return;
    }
    r->next = sim->old_rounds;
    sim->old_rounds = r;
}

static hvd_status_t sim_test(struct hvd_transport *t, struct hvd_collective *c, struct hvd_err *err)
{
    struct hvd_sim *sim = ((struct sim_rank *)t)->sim;
    struct round *r = c->_state;
    hvd_status_t st = HVD_INPROGRESS;
    int lost = -1;

    pthread_mutex_lock(&sim->mu);
    const bool is_broken = !r->is_done && r->is_broken;
    for (int i = 0; i < r->set->size && !r->is_done; i++)
        if (sim->dead[r->set->ranks[i]] && (!r->parts[i] || is_broken))
            lost = r->set->ranks[i]; /* who gave up did so because of it */
    if (r->is_done && r->done_ns <= sim->now_ns && (sim->clock || draw_delay(sim) == 0)) {
        r->parts[rank_in(r->set, t->topology.rank)] = NULL;
        release_round(sim, r);
        c->_state = NULL;
        st = HVD_OK;
    }
    pthread_mutex_unlock(&sim->mu);
    if (lost >= 0)
        return HVD_FAIL(err, HVD_ERR_UNAVAILABLE, 0, "rank %d was killed", lost);
    return st;
}

static void sim_abandon(struct hvd_transport *t, struct hvd_collective *c)
{
    struct hvd_sim *sim = ((struct sim_rank *)t)->sim;
    struct round *r = c->_state;

    pthread_mutex_lock(&sim->mu);
    r->parts[rank_in(r->set, t->topology.rank)] = NULL;
    if (r->is_done)
        release_round(sim, r);
    else
        r->is_broken = true;
    pthread_mutex_unlock(&sim->mu);
    c->_state = NULL;
}

static int sim_awaits(struct hvd_transport *t, const struct hvd_collective *c, int *ranks, int room)
{
    struct hvd_sim *sim = ((struct sim_rank *)t)->sim;
    const struct round *r = c->_state;
    int n = 0;

    pthread_mutex_lock(&sim->mu);
    const int size = r->set->size;
    const int self = rank_in(r->set, t->topology.rank);
    const int next = (self + 1) % size;
    const int previous = (self + size - 1) % size;
    for (int i = 0; i < size && n < room; i++)
        if (!r->parts[i] || (sim->options.faults.no_data && (i == next || i == previous)))
            ranks[n++] = r->set->ranks[i];
    pthread_mutex_unlock(&sim->mu);
    return n;
}

static uint64_t sim_moved(struct hvd_transport *t, const struct hvd_collective *c)
{
    struct hvd_sim *sim = ((struct sim_rank *)t)->sim;
    const struct round *r = c->_state;

    pthread_mutex_lock(&sim->mu);
    const uint64_t n = (uint64_t)r->n_joined + r->n_moved;
    pthread_mutex_unlock(&sim->mu);
    return n;
}

static struct sim_set *create_set(uint32_t id, const int *ranks, int n_ranks)
{
    struct sim_set *set = hvd_calloc(1, sizeof(*set));
    const size_t n = (size_t)n_ranks;

    if (!set)
        return NULL;
    set->id = id;
    set->size = n_ranks;
    set->ranks = hvd_malloc(n, sizeof(*set->ranks));
    set->n_started = hvd_calloc(n, sizeof(*set->n_started));
    if (!set->ranks || !set->n_started) {
        hvd_free(set->ranks);
        hvd_free(set->n_started);
        hvd_free(set);
        return NULL;
    }
    for (int i = 0; i < n_ranks; i++)
        set->ranks[i] = ranks ? ranks[i] : i;
    return set;
}

static hvd_status_t sim_add_set(struct hvd_transport *t, uint32_t id, const int *ranks, int n_ranks,
                                struct hvd_err *err)
{
    struct hvd_sim *sim = ((struct sim_rank *)t)->sim;

    pthread_mutex_lock(&sim->mu);
    struct sim_set *set = find_set(sim, id);
    if (!set) {
        set = create_set(id, ranks, n_ranks);
        if (set) {
            set->next = sim->sets;
            sim->sets = set;
        }
    }
    pthread_mutex_unlock(&sim->mu);
    return set ? HVD_OK : HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a process set");
}

/* A set stays until the end of the world: another member may still look at its last results. */
static void sim_remove_set(struct hvd_transport *t, uint32_t id)
{
    (void)t;
    (void)id;
}

static struct hvd_topology topology_of(const struct hvd_sim_options *options, int rank)
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

static const char *sim_host(const struct hvd_transport *t, int rank)
{
    const struct sim_rank *me = (const struct sim_rank *)t;

    return rank >= 0 && rank < t->topology.size ? me->sim->hosts[rank] : NULL;
}

static int sim_host_number(const struct hvd_transport *t, int rank)
{
    const struct sim_rank *me = (const struct sim_rank *)t;

    return topology_of(&me->sim->options, rank).cross_rank;
}

static void destroy_letters(struct letter *letter)
{
    while (letter) {
        struct letter *next = letter->next;
        hvd_free(letter->data);
        hvd_free(letter);
        letter = next;
    }
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
    struct letter *mailbox = me->mailbox;
    pthread_mutex_unlock(&sim->mu);
    destroy_letters(mailbox);
    destroy_letters(me->empty);
    hvd_free(me->death_told);
    hvd_free(me);
    return true;
}

static const struct hvd_transport_ops sim_ops = {
    .name = "sim",
    .send = sim_send,
    .receive = sim_receive,
    .recycle = sim_recycle,
    .add_set = sim_add_set,
    .remove_set = sim_remove_set,
    .start = sim_start,
    .test = sim_test,
    .abandon = sim_abandon,
    .awaits = sim_awaits,
    .moved = sim_moved,
    .host = sim_host,
    .host_number = sim_host_number,
    .destroy = sim_leave,
};

static void destroy_set(struct sim_set *set)
{
    hvd_free(set->ranks);
    hvd_free(set->n_started);
    hvd_free(set);
}

static void destroy_rounds(struct round *r)
{
    while (r) {
        struct round *next = r->next;
        destroy_round(r);
        r = next;
    }
}

/* The clock that the options ask for; false when out of memory. */
static bool make_clock(struct hvd_sim *sim)
{
    const int per_host = sim->options.ranks_per_host;
    const struct hvd_clock_options options = {.network = sim->options.network,
                                              .size = sim->options.size,
                                              .ranks_per_host =
                                                  per_host > 0 ? per_host : sim->options.size,
                                              .seed = sim->options.seed};

    return !options.network || hvd_loggp_create(&options, &sim->clock, NULL) == HVD_OK;
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
    sim->sets = create_set(0, NULL, options->size);
    if (!sim->ranks || !sim->dead || !sim->hosts || !sim->sets || !make_clock(sim) ||
        pthread_mutex_init(&sim->mu, NULL) != 0) {
        if (sim->sets)
            destroy_set(sim->sets);
        hvd_loggp_destroy(sim->clock);
        hvd_free(sim->ranks);
        hvd_free(sim->dead);
        hvd_free(sim->hosts);
        hvd_free(sim);
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a simulated world");
    }
    for (int rank = 0; rank < options->size; rank++)
        snprintf(sim->hosts[rank], sizeof(*sim->hosts), "sim-%d",
                 topology_of(&sim->options, rank).cross_rank);
    *out = sim;
    return HVD_OK;
}

void hvd_sim_destroy(struct hvd_sim *sim)
{
    if (!sim)
        return;
    destroy_rounds(sim->rounds);
    destroy_rounds(sim->old_rounds);
    destroy_letters(sim->letters);
    while (sim->sets) {
        struct sim_set *next = sim->sets->next;
        destroy_set(sim->sets);
        sim->sets = next;
    }
    hvd_free(sim->scratch);
    hvd_loggp_destroy(sim->clock);
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
    me->base.topology = topology_of(&sim->options, rank);
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

uint64_t hvd_sim_events(struct hvd_sim *sim)
{
    pthread_mutex_lock(&sim->mu);
    uint64_t n = sim->n_events;
    pthread_mutex_unlock(&sim->mu);
    return n;
}

/* What may come to a rank next. */
struct coming {
    int rank;
    int64_t at_ns;
};

static void consider(struct coming *next, int rank, int64_t at_ns)
{
    if (next->rank >= 0 && next->at_ns <= at_ns)
        return;
    next->rank = rank;
    next->at_ns = at_ns;
}

/* A letter that shows now was passed over by its receiver, or waits behind another: it counts too.
 */
static void consider_letters(const struct hvd_sim *sim, int rank, struct coming *next)
{
    for (const struct letter *l = sim->ranks[rank]->mailbox; l; l = l->next)
        consider(next, rank, l->comes_ns);
}

static void consider_round(const struct round *r, struct coming *next)
{
    for (int i = 0; i < r->set->size; i++)
        if (r->parts[i]) /* has not seen it */
            consider(next, r->set->ranks[i], r->done_ns);
}

int hvd_sim_advance(struct hvd_sim *sim)
{
    struct coming next = {.rank = -1};

    pthread_mutex_lock(&sim->mu);
    for (int rank = 0; rank < sim->options.size; rank++)
        if (sim->ranks[rank] && !sim->dead[rank])
            consider_letters(sim, rank, &next);
    for (const struct round *r = sim->rounds; r; r = r->next)
        if (r->is_done)
            consider_round(r, &next);
    if (next.rank >= 0 && next.at_ns > sim->now_ns)
        sim->now_ns = next.at_ns;
    pthread_mutex_unlock(&sim->mu);
    return next.rank;
}

int64_t hvd_sim_time(struct hvd_sim *sim, int rank)
{
    pthread_mutex_lock(&sim->mu);
    int64_t ns = rank < 0 || !sim->clock ? sim->now_ns : hvd_loggp_time(sim->clock, rank);
    pthread_mutex_unlock(&sim->mu);
    return ns;
}
