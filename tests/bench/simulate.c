/*
 * How long ranks take to agree, from 16 to 27,360 of them, simulated: the real coordinator and
 * aggregators, their real messages, and a modelled network (simulation.h). Prints tables, or with
 * --json a line for each run. What is counted is exact, what is a time is modelled.
 */
#include <stdio.h>
#include <string.h>

#include "tests/bench/simulation.h"

#define RANKS_PER_HOST 6
#define TENSORS 110
#define HOP_NS 3000

static const int sizes[] = {16, 64, 256, 1024, 4096, 27360};
#define N_SIZES ((int)(sizeof(sizes) / sizeof(sizes[0])))

static const int fanouts[] = {2, 4, 8, 16, 32};
#define N_FANOUTS ((int)(sizeof(fanouts) / sizeof(fanouts[0])))

static struct simulation_options options_of(int n_ranks)
{
    return (struct simulation_options){.n_ranks = n_ranks,
                                       .ranks_per_host = RANKS_PER_HOST,
                                       .n_tensors = TENSORS,
                                       .network = &simulation_network,
                                       .item_ns = 200,
                                       .word_ns = 10};
}

static double us(int64_t ns)
{
    return (double)ns / 1000;
}

/* Hops of a recursive doubling over all ranks, as modelled elsewhere: 3 us each. */
static int64_t doubling_ns(int n_ranks)
{
    int64_t ns = 0;

    for (int n = 1; n < n_ranks; n *= 2)
        ns += HOP_NS;
    return ns;
}

static bool run(const struct simulation_options *options, struct simulation *out)
{
    const char *problem = simulation_run(options, out);

    if (problem)
        fprintf(stderr, "simulate: %d ranks: %s\n", options->n_ranks, problem);
    return problem == NULL;
}

static void print_json(const struct simulation_options *options, const char *design, int radix,
                       const struct simulation *s)
{
    const struct simulation_step *steps[] = {&s->first, &s->cached};
    static const char *const names[] = {"first", "cached"};

    for (int i = 0; i < 2; i++)
        printf("{\"step\": \"%s\", \"design\": \"%s\", \"ranks\": %d, \"fanout\": %d, "
               "\"tensors\": %d, \"modelled_us\": %.3f, \"floor_us\": %.3f, \"doubling_us\": %.3f, "
               "\"depth\": %d, \"children_max\": %d, \"messages\": %llu, \"bytes\": %llu, "
               "\"root_messages_in\": %llu, \"root_bytes_in\": %llu, \"root_bytes_out\": %llu, "
               "\"root_requests\": %llu, \"up_max\": %d, \"down_max\": %d, "
               "\"root_real_us\": %.1f}\n",
               names[i], design, options->n_ranks, radix, options->n_tensors, us(steps[i]->ns),
               us(s->floor_ns), us(doubling_ns(options->n_ranks)), s->depth, s->children_max,
               (unsigned long long)steps[i]->messages, (unsigned long long)steps[i]->bytes,
               (unsigned long long)steps[i]->root_messages_in,
               (unsigned long long)steps[i]->root_bytes_in,
               (unsigned long long)steps[i]->root_bytes_out,
               (unsigned long long)steps[i]->root_items, steps[i]->up_max, steps[i]->down_max,
               us(steps[i]->root_real_ns));
}

static void print_sizes(void)
{
    printf("%d tensors, %d ranks a host; times modelled, counts exact\n\n", TENSORS,
           RANKS_PER_HOST);
    printf("              cached step                               | first time\n");
    printf("  ranks depth    tree  floor x floor doubling      star |     tree       star  ratio"
           "  root in: bytes  requests  messages a rank up/down\n");
}

static bool compare_sizes(bool is_json)
{
    if (!is_json)
        print_sizes();
    for (int i = 0; i < N_SIZES; i++) {
        struct simulation_options options = options_of(sizes[i]);
        struct simulation tree;
        struct simulation star;
        if (!run(&options, &tree))
            return false;
        options.is_star = true;
        if (!run(&options, &star))
            return false;
        if (is_json) {
            print_json(&options, "tree", 0, &tree);
            print_json(&options, "star", 0, &star);
            continue;
        }
        printf("%7d %5d %6.1f us %5.1f  %5.2f %6.0f us %7.0f us | %5.0f us %7.0f us 1/%-5.0f %8llu "
               "%9llu  %d/%d\n",
               sizes[i], tree.depth, us(tree.cached.ns), us(tree.floor_ns),
               (double)tree.cached.ns / (double)tree.floor_ns, us(doubling_ns(sizes[i])),
               us(star.cached.ns), us(tree.first.ns), us(star.first.ns),
               (double)star.first.ns / (double)tree.first.ns,
               (unsigned long long)tree.first.root_bytes_in,
               (unsigned long long)tree.first.root_items, tree.cached.up_max, tree.cached.down_max);
    }
    return true;
}

static bool compare_fanouts(bool is_json)
{
    struct simulation_options options = options_of(sizes[N_SIZES - 1]);
    struct simulation s;

    if (!is_json)
        printf("\n%d ranks, by fan-out between hosts\n fan-out depth children   cached    first\n",
               options.n_ranks);
    for (int i = 0; i <= N_FANOUTS; i++) {
        options.fanout = i < N_FANOUTS ? fanouts[i] : 0;
        if (!run(&options, &s))
            return false;
        if (is_json)
            print_json(&options, "fanout", options.fanout, &s);
        else if (options.fanout > 0)
            printf("%8d %5d %8d %5.1f us %5.0f us\n", options.fanout, s.depth, s.children_max,
                   us(s.cached.ns), us(s.first.ns));
        else
            printf("  chosen %5d %8d %5.1f us %5.0f us\n", s.depth, s.children_max, us(s.cached.ns),
                   us(s.first.ns));
    }
    return true;
}

static bool compare_rounds(bool is_json)
{
    static const int radices[] = {2, 3, 4, 6, 9, 17};
    struct simulation_rounds r;

    if (!is_json)
        printf("\nanother design for cached steps: rounds of exchanges without a root\n"
               " between radix rounds     time  messages in all, sent by a rank\n");
    for (int i = 0; i < 2 * (int)(sizeof(radices) / sizeof(radices[0])); i++) {
        const int radix = radices[i / 2];
        struct simulation_options options = options_of(sizes[N_SIZES - 1]);
        if (i % 2)
            options.ranks_per_host = 1;
        const char *problem = simulation_rounds(&options, radix, &r);
        if (problem) {
            fprintf(stderr, "simulate: %s\n", problem);
            return false;
        }
        if (is_json)
            printf("{\"step\": \"cached\", \"design\": \"rounds\", \"ranks\": %d, "
                   "\"between\": \"%s\", \"radix\": %d, \"rounds\": %d, \"modelled_us\": %.3f, "
                   "\"messages\": %llu, \"sent_max\": %d}\n",
                   options.n_ranks, i % 2 ? "ranks" : "hosts", radix, r.n_rounds, us(r.ns),
                   (unsigned long long)r.messages, r.sent_max);
        else
            printf("   %s %5d %6d %5.1f us %16llu %16d\n", i % 2 ? "ranks" : "hosts", radix,
                   r.n_rounds, us(r.ns), (unsigned long long)r.messages, r.sent_max);
    }
    return true;
}

int main(int argc, char **argv)
{
    const bool is_json = argc > 1 && strcmp(argv[1], "--json") == 0;

    return compare_sizes(is_json) && compare_fanouts(is_json) && compare_rounds(is_json) ? 0 : 1;
}
