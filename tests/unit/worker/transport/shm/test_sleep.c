#include "tests/unit/support.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/worker/transport/conformance.h"
#include "tests/unit/worker/transport/shm/shm_world.h"

/* --- Sleeping --------------------------------------------------------------------------------- */

/* Every message is waited for asleep, without a limit: a lost wake-up hangs. */
static const char *ping_pong(struct hvd_transport *t)
{
    const int peer = 1 - t->topology.rank;
    struct hvd_inbound in = {0};

    for (int n = 0; n < 300; n++) {
        if ((n % 2 == t->topology.rank) && t->ops->send(t, peer, &n, sizeof(n), NULL) != HVD_OK)
            return "a message is not sent";
        if (n % 2 == t->topology.rank)
            continue;
        while (t->ops->receive(t, &in, NULL) == HVD_INPROGRESS)
            t->ops->sleep(t, t->ops->listen(t), -1);
        if (in.len != sizeof(n) || memcmp(in.data, &n, sizeof(n)) != 0)
            return "a message is another one";
        hvd_free(in.data);
    }
    for (int n = 0; n < 300; n++) {
        int32_t one = 1;
        struct hvd_collective c = shm_sum(&one);
        if (t->ops->start(t, &c, NULL) != HVD_OK)
            return "an operation does not start";
        while (t->ops->test(t, &c, NULL) == HVD_INPROGRESS)
            t->ops->sleep(t, t->ops->listen(t), -1);
        if (one != 2)
            return "a sum is wrong";
    }
    return NULL;
}

static void a_sleeping_rank_is_woken_by_messages_and_data(void **state)
{
    struct shm_world w;

    (void)state;
    shm_world_open(&w, 2, 0);
    shm_world_run(&w, ping_pong);
    shm_world_close(&w);
}

static void a_wake_before_the_sleep_is_not_lost(void **state)
{
    struct shm_world w;

    (void)state;
    shm_world_open(&w, 1, 0);
    struct hvd_transport *t = w.ranks[0];
    const uint32_t ticket = t->ops->listen(t);
    t->ops->wake(t);
    t->ops->sleep(t, ticket, -1);
    t->ops->sleep(t, t->ops->listen(t), 1000);
    shm_world_close(&w);
}

/* --- Some of the ranks ------------------------------------------------------------------------ */

static const int members[] = {1, 3};

/* Memory of their own for some ranks of a world, where they sleep. */
static void open_subset(struct shm_world *sub, const struct shm_world *w)
{
    struct hvd_shm_options options = {.shape = {.n_ranks = 2}, .fd = -1, .doorbell_ranks = members};
    const size_t bytes = hvd_shm_size(&options.shape);

    *sub =
        (struct shm_world){.segment = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096), .size = 2};
    assert_non_null(sub->segment);
    memset(sub->segment, 0, bytes);
    options.segment = sub->segment;
    for (int rank = 0; rank < 2; rank++) {
        options.topology = (struct hvd_topology){.rank = rank, .size = 2};
        options.doorbell = w->ranks[members[rank]];
        assert_int_equal(hvd_shm_create(&options, &sub->ranks[rank], NULL), HVD_OK);
    }
}

static struct shm_world world_of_all;

/* Steps of the subset, waited for asleep in the world. */
static const char *step_in_subset(struct hvd_transport *t)
{
    struct hvd_transport *all = world_of_all.ranks[members[t->topology.rank]];

    for (int n = 0; n < 300; n++) {
        int32_t value = t->topology.rank + n;
        struct hvd_collective c = shm_sum(&value);
        if (t->ops->start(t, &c, NULL) != HVD_OK)
            return "an operation does not start";
        while (t->ops->test(t, &c, NULL) == HVD_INPROGRESS) {
            const uint32_t ticket = all->ops->listen(all);
            all->ops->sleep(all, ticket, hvd_shm_has_news(t) ? 0 : -1);
        }
        if (value != 2 * n + 1)
            return "a sum is not that of the subset";
    }
    return NULL;
}

static void a_subset_has_memory_and_numbers_of_its_own(void **state)
{
    struct shm_world sub;

    (void)state;
    shm_world_open(&world_of_all, 4, 0);
    open_subset(&sub, &world_of_all);
    shm_world_run(&sub, hvd_transport_conformance);
    shm_world_run(&sub, step_in_subset);
    shm_world_run(&world_of_all, hvd_transport_conformance);
    shm_world_close(&sub);
    shm_world_close(&world_of_all);
    assert_int_equal(hvd_mem_live(), 0);
}

/* --- Ranks that die --------------------------------------------------------------------------- */

/* What the two ranks are called in errors. */
static const int names[] = {4, 6};

/* A rank in a process of its own, on memory that both processes mapped. */
static struct hvd_transport *attach(int rank, int fd, void *segment)
{
    const struct hvd_shm_options options = {.shape = {.n_ranks = 2},
                                            .topology = {.rank = rank, .size = 2},
                                            .segment = segment,
                                            .fd = fd,
                                            .names = names};
    struct hvd_transport *t = NULL;

    return hvd_shm_create(&options, &t, NULL) == HVD_OK ? t : NULL;
}

/* Rank 1: says something, then waits to be killed, or leaves in agreement. Ends with its parent. */
_Noreturn static void be_a_peer(int fd, void *segment, bool leaves, int told)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct hvd_transport *t = attach(1, fd, segment);

    if (!t || t->ops->send(t, 0, "last", 4, NULL) != HVD_OK || write(told, "", 1) != 1)
        _exit(1);
    if (leaves)
        t->ops->destroy(t, true);
    else
        pause();
    _exit(0);
}

/* Rank 0, and rank 1 in another process that has sent a message. */
static struct hvd_transport *have_a_peer(bool leaves, pid_t *pid)
{
    const size_t bytes = hvd_shm_size(&(struct hvd_shm_shape){.n_ranks = 2});
    int fd = memfd_create("test", 0);
    int told[2];
    char byte;

    assert_true(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    void *segment = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(segment != MAP_FAILED);
    struct hvd_transport *t = attach(0, fd, segment);
    assert_non_null(t);
    assert_int_equal(pipe(told), 0);
    *pid = fork();
    if (*pid == 0)
        be_a_peer(fd, segment, leaves, told[1]);
    assert_true(*pid > 0);
    assert_int_equal(read(told[0], &byte, 1), 1); /* who has not attached yet looks lost */
    close(told[0]);
    close(told[1]);
    return t;
}

static void expect_last_message(struct hvd_transport *t)
{
    struct hvd_inbound in = {0};
    hvd_status_t st;

    while ((st = t->ops->receive(t, &in, NULL)) == HVD_INPROGRESS)
        sched_yield();
    assert_int_equal(st, HVD_OK);
    assert_memory_equal(in.data, "last", 4);
    hvd_free(in.data);
}

static void a_killed_rank_is_called_by_its_name_to_whoever_waits_for_it(void **state)
{
    int64_t data = 1;
    struct hvd_collective c = {.op = HVD_ALLREDUCE,
                               .dtype = HVD_INT64,
                               .reduce = HVD_SUM,
                               .scaling = shm_unscaled,
                               .input = &data,
                               .output = &data,
                               .count = 1};
    struct hvd_inbound in = {0};
    struct hvd_err err = {0};
    hvd_status_t st;
    pid_t pid = 0;

    (void)state;
    struct hvd_transport *t = have_a_peer(false, &pid);
    expect_last_message(t);
    assert_int_equal(t->ops->start(t, &c, NULL), HVD_OK);
    assert_int_equal(t->ops->test(t, &c, NULL), HVD_INPROGRESS);
    kill(pid, SIGKILL);
    while ((st = t->ops->test(t, &c, &err)) == HVD_INPROGRESS)
        t->ops->sleep(t, t->ops->listen(t), 10000000);
    assert_int_equal(st, HVD_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "rank 6"));
    t->ops->abandon(t, &c);
    hvd_err_clear(&err);
    assert_int_equal(t->ops->receive(t, &in, &err), HVD_ERR_GONE);
    assert_int_equal(in.from, 1);
    assert_non_null(strstr(err.msg, "rank 6"));
    assert_int_equal(t->ops->receive(t, &in, NULL), HVD_INPROGRESS);
    hvd_err_clear(&err);
    assert_int_equal(t->ops->send(t, 1, "x", 1, &err), HVD_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "rank 6"));
    assert_true(t->ops->destroy(t, false));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void a_rank_that_left_in_agreement_is_not_lost(void **state)
{
    struct hvd_inbound in = {0};
    int status = 1;
    pid_t pid = 0;

    (void)state;
    struct hvd_transport *t = have_a_peer(true, &pid);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    expect_last_message(t);
    for (int n = 0; n < 5; n++) { /* each nap is followed by a look */
        t->ops->sleep(t, t->ops->listen(t), 50000000);
        for (int i = 0; i < 2000; i++)
            assert_int_equal(t->ops->receive(t, &in, NULL), HVD_INPROGRESS);
    }
    assert_true(t->ops->destroy(t, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sleeping_rank_is_woken_by_messages_and_data),
        cmocka_unit_test(a_wake_before_the_sleep_is_not_lost),
        cmocka_unit_test(a_subset_has_memory_and_numbers_of_its_own),
        cmocka_unit_test(a_killed_rank_is_called_by_its_name_to_whoever_waits_for_it),
        cmocka_unit_test(a_rank_that_left_in_agreement_is_not_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
