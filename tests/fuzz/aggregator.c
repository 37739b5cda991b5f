/*
 * Messages taken in, not only decoded: an aggregator or a coordinator that peers tell anything, in
 * any order, goes on or refuses, and what it sends itself is well-formed. The input is a stream of
 * branch(1) length(2) message; the first byte says who takes them in, and how many children it has.
 */
#include "worker/core/aggregator.h"
#include "tests/fuzz/fuzz.h"
#include "worker/core/negotiator.h"

#define N_RANKS 9
#define FAR_SLOT 512

static const int ranks[N_RANKS] = {0, 1, 2, 3, 4, 5, 6, 7, 8};

struct hearer {
    struct hvd_tree tree;
    struct hvd_node node;
    struct hvd_aggregator *aggregator; /* one of these */
    struct hvd_negotiator *root;
};

/* Out of memory, for a plan that names a slot far away, is a refusal too. */
static hvd_status_t open_hearer(struct hearer *h, uint8_t kind)
{
    const struct hvd_tree_options shape = {.size = N_RANKS, .fanout = 1 + kind / 2 % 4};
    struct hvd_err err = {0};
    hvd_status_t st = hvd_tree_init(&h->tree, &shape, &err);

    if (st == HVD_OK)
        st = hvd_tree_node_init(&h->node, &h->tree, kind % 2, &err);
    const struct hvd_aggregator_options aggregator = {.node = &h->node, .world_size = N_RANKS};
    const struct hvd_negotiator_options root = {.tree = &h->tree,
                                                .node = &h->node,
                                                .ranks = ranks,
                                                .world_size = N_RANKS,
                                                .cache_capacity = 70};
    if (st == HVD_OK && kind % 2)
        return h->node.n_children > 0 ? hvd_aggregator_create(&aggregator, &h->aggregator, &err)
                                      : HVD_ERR_INVALID;
    return st == HVD_OK ? hvd_negotiator_create(&root, &h->root, &err) : st;
}

static void close_hearer(struct hearer *h)
{
    hvd_aggregator_destroy(h->aggregator);
    hvd_negotiator_destroy(h->root);
    hvd_tree_node_fini(&h->node);
    hvd_tree_fini(&h->tree);
}

/* What is sent must be what a peer takes. */
static void check(const struct hvd_buf *message)
{
    struct hvd_reader reader;
    struct hvd_err err = {0};
    struct hvd_partial partial;
    struct hvd_strview text;
    struct hvd_pos_range who;
    struct hvd_step step;
    struct hvd_merged_request ask;
    enum hvd_leave_why why;

    MUST(hvd_message_open(&reader, message->data, message->len, &err) == HVD_OK);
    while (reader.left > 0) {
        if (reader.type == HVD_MESSAGE_PLAN)
            MUST(hvd_message_read_step(&reader, &step, &err) == HVD_OK);
        else if (reader.type == HVD_MESSAGE_REQUESTS)
            MUST(hvd_message_read_request(&reader, &ask, &err) == HVD_OK);
        else if (reader.type == HVD_MESSAGE_PARTIAL)
            MUST(hvd_message_read_partial(&reader, &partial, &err) == HVD_OK);
        else
            MUST(hvd_message_read_leave(&reader, &who, &why, &text, &err) == HVD_OK);
    }
}

static hvd_status_t hear_items(struct hearer *h, int branch, struct hvd_reader *reader,
                               struct hvd_err *err)
{
    struct hvd_strview text;
    struct hvd_pos_range who;
    struct hvd_merged_request ask;
    enum hvd_leave_why why;
    hvd_status_t st = HVD_OK;

    while (st == HVD_OK && reader->left > 0) {
        if (reader->type == HVD_MESSAGE_REQUESTS) {
            st = hvd_message_read_request(reader, &ask, err);
            if (st == HVD_OK)
                st = h->aggregator ? hvd_aggregator_request(h->aggregator, &ask, 1, err)
                                   : hvd_negotiator_request(h->root, &ask, 1, err);
        } else if (reader->type == HVD_MESSAGE_LEAVE) {
            st = hvd_message_read_leave(reader, &who, &why, &text, err);
            if (st == HVD_OK)
                st = h->aggregator
                         ? hvd_aggregator_leave(h->aggregator, who, why == HVD_LEAVE_FAILED, "why",
                                                err)
                         : hvd_negotiator_leave(h->root, who, why == HVD_LEAVE_FAILED, "why", err);
        } else if (h->root && reader->type == HVD_MESSAGE_PARTIAL) {
            st = hvd_negotiator_partial(h->root, branch, reader, 1, err);
        } else {
            return HVD_ERR_INVALID;
        }
    }
    return st;
}

/* Slots that are far away cost memory and time, and find nothing that near ones do not. */
static bool is_near(struct hvd_reader plan)
{
    struct hvd_err err = {0};
    struct hvd_step step;

    while (plan.left > 0)
        if (hvd_message_read_step(&plan, &step, &err) != HVD_OK ||
            (step.slot != HVD_CACHE_NO_SLOT && step.slot >= FAR_SLOT))
            return false;
    return true;
}

static hvd_status_t hear(struct hearer *h, int branch, const uint8_t *data, size_t size)
{
    struct hvd_reader reader;
    struct hvd_err err = {0};
    hvd_status_t st = hvd_message_open(&reader, data, size, &err);

    if (st != HVD_OK)
        return st;
    if (reader.type == HVD_MESSAGE_BITS)
        return h->aggregator ? hvd_aggregator_bits(h->aggregator, branch, &reader, 1, &err)
                             : hvd_negotiator_bits(h->root, branch, &reader, 1, &err);
    if (reader.type == HVD_MESSAGE_PLAN)
        return h->aggregator && is_near(reader) ? hvd_aggregator_plan(h->aggregator, reader, &err)
                                                : HVD_ERR_INVALID;
    return hear_items(h, branch, &reader, &err);
}

static void speak(struct hearer *h)
{
    const struct hvd_buf *message = NULL;
    struct hvd_err err = {0};
    struct hvd_buf report;

    hvd_buf_init(&report, 4096);
    if (h->aggregator) {
        MUST(hvd_aggregator_stalled(h->aggregator, 2000000, 1, &err) == HVD_OK);
        while (hvd_aggregator_next(h->aggregator, &message, &err) == HVD_OK && message)
            check(message);
    } else {
        (void)hvd_negotiator_stalled(h->root, 2000000, 1, &report);
        if (hvd_negotiator_plan(h->root, &message, &err) == HVD_OK && message)
            check(message);
        hvd_negotiator_plan_sent(h->root);
    }
    hvd_buf_fini(&report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hearer h = {0};
    bool good = size > 0 && open_hearer(&h, data[0]) == HVD_OK;

    for (size_t at = 1; good && size - at >= 3;) {
        const int branch = data[at] % (1 + h.node.n_children);
        const size_t len = (size_t)(data[at + 1] | data[at + 2] << 8);
        at += 3;
        if (len > size - at)
            break;
        good = hear(&h, branch, data + at, len) == HVD_OK;
        at += len;
        if (good)
            speak(&h);
    }
    close_hearer(&h);
    return 0;
}
