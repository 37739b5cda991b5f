/* Memory is handed out while other processes, of this user and of others, hold the door. */
#include "tests/unit/support.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/transport/shm/segment.h"

#define SIZE ((size_t)4096)
#define TIMEOUT_MS 20000
#define NOBODY 65534

/* A rank that takes what is offered. */
struct taker {
    const struct hvd_shm_offer *offer;
    pthread_t thread;
    hvd_status_t st;
    int fd;
};

static void *take(void *arg)
{
    struct taker *t = arg;

    t->st = hvd_shm_offer_take(t->offer, SIZE, TIMEOUT_MS, &t->fd, NULL);
    return NULL;
}

static void taker_start(struct taker *t, const struct hvd_shm_offer *offer)
{
    *t = (struct taker){.offer = offer, .fd = -1};
    assert_int_equal(pthread_create(&t->thread, NULL, take, t), 0);
}

static hvd_status_t taker_end(struct taker *t)
{
    assert_int_equal(pthread_join(t->thread, NULL), 0);
    if (t->fd >= 0)
        close(t->fd);
    return t->st;
}

/* A connection to the door; -1: there is none. */
static int knock(const struct hvd_shm_offer *offer)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(address.sun_path, offer->name, offer->name_len);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address,
                           (socklen_t)(sizeof(address.sun_family) + offer->name_len)) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static void open_offer(struct hvd_shm_offer *offer)
{
    assert_int_equal(hvd_shm_offer_init(offer, SIZE, NULL), HVD_OK);
}

static void guests_that_say_nothing_are_not_waited_for(void **state)
{
    struct hvd_shm_offer offer;
    struct taker takers[2];
    int guests[100];

    (void)state;
    open_offer(&offer);
    for (int i = 0; i < 100; i++)
        assert_true((guests[i] = knock(&offer)) >= 0);
    assert_int_equal(send(guests[0], &offer.token, 3, MSG_NOSIGNAL), 3);
    for (int i = 0; i < 2; i++)
        taker_start(&takers[i], &offer);
    assert_int_equal(hvd_shm_offer_serve(&offer, 2, TIMEOUT_MS, NULL), HVD_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(taker_end(&takers[i]), HVD_OK);
    for (int i = 0; i < 100; i++)
        close(guests[i]);
    hvd_shm_offer_fini(&offer);
}

/* Connects again and again, from another process and, as root, another user. */
static pid_t crowd_start(const struct hvd_shm_offer *offer)
{
    const pid_t pid = fork();

    if (pid != 0)
        return pid;
    if (geteuid() == 0 && setuid(NOBODY) != 0)
        _exit(1);
    for (;;) {
        int held[32];
        for (int i = 0; i < 32; i++)
            held[i] = knock(offer);
        for (int i = 0; i < 32; i++)
            if (held[i] >= 0)
                close(held[i]);
    }
}

static void a_crowd_of_another_user_keeps_nobody_out(void **state)
{
    struct hvd_shm_offer offer;
    struct taker takers[8];

    (void)state;
    open_offer(&offer);
    const pid_t crowd = crowd_start(&offer);
    assert_true(crowd > 0);
    for (int i = 0; i < 8; i++)
        taker_start(&takers[i], &offer);
    assert_int_equal(hvd_shm_offer_serve(&offer, 8, TIMEOUT_MS, NULL), HVD_OK);
    for (int i = 0; i < 8; i++)
        assert_int_equal(taker_end(&takers[i]), HVD_OK);
    assert_int_equal(kill(crowd, SIGKILL), 0);
    assert_int_equal(waitpid(crowd, NULL, 0), crowd);
    hvd_shm_offer_fini(&offer);
}

/* Holds 300 connections as another user; returns once all are made. */
static pid_t strangers_start(const struct hvd_shm_offer *offer)
{
    int ready[2];
    char byte;

    assert_int_equal(pipe(ready), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        if (setuid(NOBODY) != 0)
            _exit(1);
        for (int i = 0; i < 300; i++)
            (void)knock(offer);
        (void)!write(ready[1], "", 1);
        pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void *serve_one(void *arg)
{
    return hvd_shm_offer_serve(arg, 1, TIMEOUT_MS, NULL) == HVD_OK ? arg : NULL;
}

/* The socket's queue holds 129 of the 300 strangers, so the service has dismissed some. */
static void strangers_give_up_their_places_first(void **state)
{
    struct hvd_shm_offer offer;
    pthread_t server;
    void *served = NULL;
    uint64_t proof = 0;

    (void)state;
    if (geteuid() != 0)
        skip(); /* only root can be two users */
    open_offer(&offer);
    const int early = knock(&offer);
    assert_int_equal(send(early, &offer.token, 3, MSG_NOSIGNAL), 3);
    assert_int_equal(pthread_create(&server, NULL, serve_one, &offer), 0);
    const pid_t strangers = strangers_start(&offer);
    assert_int_equal(send(early, (char *)&offer.token + 3, sizeof(offer.token) - 3, MSG_NOSIGNAL),
                     sizeof(offer.token) - 3);
    assert_int_equal(recv(early, &proof, sizeof(proof), MSG_WAITALL), sizeof(proof));
    assert_true(proof == offer.proof);
    assert_int_equal(pthread_join(server, &served), 0);
    assert_ptr_equal(served, &offer);
    assert_int_equal(kill(strangers, SIGKILL), 0);
    assert_int_equal(waitpid(strangers, NULL, 0), strangers);
    close(early);
    hvd_shm_offer_fini(&offer);
}

static void a_wrong_token_gets_nothing(void **state)
{
    struct hvd_shm_offer offer;
    struct hvd_shm_offer wrong;
    struct taker takers[2];

    (void)state;
    open_offer(&offer);
    wrong = offer;
    wrong.token++;
    taker_start(&takers[0], &wrong);
    taker_start(&takers[1], &offer);
    assert_int_equal(hvd_shm_offer_serve(&offer, 1, TIMEOUT_MS, NULL), HVD_OK);
    hvd_shm_offer_fini(&offer); /* who is still in the queue is turned away by this */
    assert_int_equal(taker_end(&takers[0]), HVD_ERR_SYSTEM);
    assert_int_equal(taker_end(&takers[1]), HVD_OK);
}

/* The name of a process that is gone is free for everybody. */
static void memory_of_an_impostor_is_not_taken(void **state)
{
    struct hvd_shm_offer impostor;
    struct hvd_shm_offer offer;
    struct taker taker;

    (void)state;
    open_offer(&impostor);
    offer = impostor;
    offer.proof++;
    taker_start(&taker, &offer);
    assert_int_equal(hvd_shm_offer_serve(&impostor, 1, TIMEOUT_MS, NULL), HVD_OK);
    assert_int_equal(taker_end(&taker), HVD_ERR_SYSTEM);
    hvd_shm_offer_fini(&impostor);
}

static void descriptors_that_run_out_cost_the_silent_ones_their_place(void **state)
{
    struct hvd_shm_offer offer;
    struct rlimit before;
    int guests[8];
    int status = 1;

    (void)state;
    open_offer(&offer);
    for (int i = 0; i < 8; i++)
        assert_true((guests[i] = knock(&offer)) >= 0);
    const pid_t taker = fork();
    if (taker == 0) {
        int fd;
        _exit(hvd_shm_offer_take(&offer, SIZE, TIMEOUT_MS, &fd, NULL) != HVD_OK);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit room_for_two = {.rlim_cur = (rlim_t)guests[7] + 3,
                                        .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &room_for_two), 0);
    const hvd_status_t st = hvd_shm_offer_serve(&offer, 1, TIMEOUT_MS, NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(st, HVD_OK);
    assert_int_equal(waitpid(taker, &status, 0), taker);
    assert_int_equal(status, 0);
    for (int i = 0; i < 8; i++)
        close(guests[i]);
    hvd_shm_offer_fini(&offer);
}

static void memory_that_runs_out_is_reported(void **state)
{
    struct hvd_shm_offer offer;
    struct hvd_err err = {0};

    (void)state;
    open_offer(&offer);
    for (unsigned long nth = 1; nth <= 2; nth++) {
        hvd_mem_fail_nth(nth);
        assert_int_equal(hvd_shm_offer_serve(&offer, 1, TIMEOUT_MS, &err), HVD_ERR_NOMEM);
        hvd_mem_fail_nth(0);
    }
    hvd_shm_offer_fini(&offer);
    assert_int_equal(hvd_mem_live(), 0);
}

static void memory_beyond_the_largest_file_size_is_refused(void **state)
{
    struct hvd_shm_offer offer;
    struct hvd_err err = {0};
    struct rlimit before, small;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = SIZE;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(hvd_shm_offer_init(&offer, SIZE + 1, &err), HVD_ERR_SYSTEM);
    hvd_shm_offer_fini(&offer);
    const hvd_status_t fits = hvd_shm_offer_init(&offer, SIZE, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(fits, HVD_OK);
    hvd_shm_offer_fini(&offer);
    assert_non_null(
        strstr(err.msg, "4097 bytes of shared memory are more than ulimit -f allows (4 KiB)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guests_that_say_nothing_are_not_waited_for),
        cmocka_unit_test(a_crowd_of_another_user_keeps_nobody_out),
        cmocka_unit_test(strangers_give_up_their_places_first),
        cmocka_unit_test(a_wrong_token_gets_nothing),
        cmocka_unit_test(memory_of_an_impostor_is_not_taken),
        cmocka_unit_test(descriptors_that_run_out_cost_the_silent_ones_their_place),
        cmocka_unit_test(memory_that_runs_out_is_reported),
        cmocka_unit_test(memory_beyond_the_largest_file_size_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
