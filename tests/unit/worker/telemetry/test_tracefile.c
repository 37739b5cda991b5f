#include "tests/unit/support.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/worker/telemetry/support.h"
#include "worker/telemetry/tracefile.h"

static char path[] = "/tmp/hvd-tracefile-XXXXXX";

static int make_file(void **state)
{
    int fd = mkstemp(path);

    (void)state;
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

/* The number in the nth record. */
static int number_at(const cJSON *json, int n)
{
    return cJSON_GetObjectItem(cJSON_GetArrayItem(json, n), "n")->valueint;
}

static void the_file_is_an_array_after_every_addition(void **state)
{
    struct hvd_tracefile file;
    char line[5000];
    char filler[4000];

    (void)state;
    memset(filler, 'x', sizeof(filler));
    assert_int_equal(hvd_tracefile_open(&file, path, 0, NULL), HVD_OK);
    for (int i = 0; i < 300; i++) {
        const int fill = i % 7 == 0 ? i * 13 % 3999 : i % 90;
        int n = snprintf(line, sizeof(line), "{\"n\":%d,\"fill\":\"%.*s\"}\n", i, fill, filler);
        assert_int_equal(hvd_tracefile_add(&file, line, (size_t)n, NULL), HVD_OK);
        cJSON *json = parse_file(path);
        assert_non_null(json);
        assert_int_equal(cJSON_GetArraySize(json), i + 1);
        assert_int_equal(number_at(json, i), i);
        cJSON_Delete(json);
    }
    assert_int_equal(hvd_tracefile_close(&file, NULL), HVD_OK);
    char *text = read_file(path);
    assert_string_equal(text + strlen(text) - 4, "}\n]\n");
    free(text);
}

static void a_page_begins_with_a_whole_record(void **state)
{
    struct hvd_tracefile file;
    char line[200];

    (void)state;
    assert_int_equal(hvd_tracefile_open(&file, path, 0, NULL), HVD_OK);
    for (int i = 0; i < 2000; i++) {
        int n = snprintf(line, sizeof(line), "{\"n\":%d,\"fill\":\"%*d\"}\n", i, i % 97 + 1, 7);
        assert_int_equal(hvd_tracefile_add(&file, line, (size_t)n, NULL), HVD_OK);
    }
    assert_int_equal(hvd_tracefile_close(&file, NULL), HVD_OK);
    char *text = read_file(path);
    const size_t len = strlen(text);
    for (size_t at = 4096; at < len; at += 4096)
        assert_memory_equal(text + at, ",\n{", 3);
    free(text);
}

static void an_empty_file_is_an_empty_array(void **state)
{
    struct hvd_tracefile file;

    (void)state;
    assert_int_equal(hvd_tracefile_open(&file, path, 0, NULL), HVD_OK);
    assert_int_equal(hvd_tracefile_add(&file, NULL, 0, NULL), HVD_OK);
    assert_int_equal(hvd_tracefile_close(&file, NULL), HVD_OK);
    cJSON *json = parse_file(path);
    assert_true(cJSON_IsArray(json));
    assert_int_equal(cJSON_GetArraySize(json), 0);
    cJSON_Delete(json);
}

/* Adds 200 records at a time until the file is so large, then stops. */
static void write_until_killed(int64_t bytes)
{
    struct hvd_tracefile file;
    char lines[16384];

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
    if (hvd_tracefile_open(&file, path, 0, NULL) != HVD_OK)
        _exit(1);
    for (int i = 0; file.at < bytes; i += 200) {
        size_t len = 0;
        for (int k = i; k < i + 200; k++)
            len += (size_t)snprintf(lines + len, sizeof(lines) - len,
                                    "{\"n\":%d,\"name\":\"NEGOTIATE_ALLREDUCE\"}\n", k);
        if (hvd_tracefile_add(&file, lines, len, NULL) != HVD_OK)
            _exit(1);
    }
    raise(SIGSTOP);
    _exit(1);
}

/* Whether the file is an array of the records 0, 1, ... While the bracket moves, the old one and
 * the new one stand in the file: *is_moving. */
static bool is_array(bool *is_moving)
{
    char *text = read_file(path);
    const char *end = text;
    cJSON *json = text ? cJSON_ParseWithOpts(text, &end, 0) : NULL;
    const int n = cJSON_GetArraySize(json);
    bool ok = cJSON_IsArray(json) && (n == 0 || number_at(json, n - 1) == n - 1);

    cJSON_Delete(json);
    if (ok && end) {
        end += strspn(end, " \n");
        *is_moving = *end == ']';
        end += *is_moving;
        ok = end[strspn(end, " \n")] == '\0';
    }
    free(text);
    return ok;
}

static void a_process_killed_at_any_moment_leaves_an_array(void **state)
{
    (void)state;
    for (int round = 0; round < 15; round++) {
        unlink(path);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            write_until_killed(16 * 1024 * 1024);
        struct stat info = {0};
        while (stat(path, &info) != 0 || info.st_size == 0) /* it was not begun yet */
            usleep(100);
        usleep((useconds_t)(2000 + round * 137));
        kill(child, SIGKILL);
        int status = 0;
        bool is_moving = false;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_true(is_array(&is_moving));
    }
}

/* Runs the child until it stops: a system call begins or ends (SIGTRAP), or it stopped itself. */
static int next_stop(pid_t child)
{
    int status = 0;

    assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, NULL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSTOPPED(status));
    return WSTOPSIG(status);
}

/* Two writes move the bracket. A child that is stopped at every system call is stopped between
 * them twice: when the first ends, and when the second begins. */
static void the_bracket_moves_between_two_system_calls(void **state)
{
    int status = 0;
    int n_moving = 0;
    int n_moves = 0;

    (void)state;
    unlink(path);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        write_until_killed(128 * 1024);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSTOPPED(status));
    for (struct stat info = {0}; next_stop(child) == SIGTRAP;) {
        bool is_moving = false;
        if (info.st_size == 0 && (stat(path, &info) != 0 || info.st_size == 0))
            continue;
        assert_true(is_array(&is_moving));
        n_moving = is_moving ? n_moving + 1 : 0;
        n_moves += n_moving == 1;
        assert_in_range(n_moving, 0, 2);
    }
    assert_int_equal(n_moves, 2); /* to 64 KiB and to 128 and more */
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
}

static void a_file_that_cannot_be_made_is_named(void **state)
{
    struct hvd_tracefile file;
    struct hvd_err err = {0};

    (void)state;
    assert_int_equal(hvd_tracefile_open(&file, "/nowhere/t.json", 0, &err), HVD_ERR_SYSTEM);
    assert_non_null(strstr(err.msg, "/nowhere/t.json: No such file"));
}

static void a_full_disk_is_an_error(void **state)
{
    struct hvd_tracefile file;
    struct hvd_err err = {0};

    (void)state;
    assert_int_equal(hvd_tracefile_open(&file, "/dev/full", 0, &err), HVD_ERR_SYSTEM);
    assert_non_null(strstr(err.msg, "No space left"));
}

/* Adds records until one does not fit; how many did. */
static int fill_up(struct hvd_tracefile *file)
{
    char line[100];
    int n = 0;

    for (hvd_status_t st = HVD_OK; st == HVD_OK && n < 100000; n += st == HVD_OK) {
        const int len = snprintf(line, sizeof(line), "{\"n\":%d,\"name\":\"ALLREDUCE\"}\n", n);
        st = hvd_tracefile_add(file, line, (size_t)len, NULL);
    }
    return n;
}

static void a_small_disk_is_filled_to_its_last_page(void **state)
{
    const struct rlimit small = {.rlim_cur = 50000, .rlim_max = RLIM_INFINITY};
    const struct rlimit large = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    struct hvd_tracefile file;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(hvd_tracefile_open(&file, path, 0, NULL), HVD_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const int n = fill_up(&file);
    assert_int_equal(hvd_tracefile_close(&file, NULL), HVD_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &large), 0);
    assert_true(file.at > 50000 - 2 * 4096);
    cJSON *json = parse_file(path);
    assert_non_null(json);
    assert_int_equal(cJSON_GetArraySize(json), n);
    cJSON_Delete(json);
}

static void a_batch_that_does_not_fit_is_written_in_part(void **state)
{
    const struct rlimit small = {.rlim_cur = 100000, .rlim_max = RLIM_INFINITY};
    const struct rlimit large = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    static char lines[200000];
    struct hvd_tracefile file;
    size_t len = 0;

    (void)state;
    while (len + 20 < sizeof(lines))
        len += (size_t)snprintf(lines + len, sizeof(lines) - len, "{\"n\":1}\n");
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(hvd_tracefile_open(&file, path, 0, NULL), HVD_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(hvd_tracefile_add(&file, lines, len, NULL), HVD_ERR_SYSTEM);
    assert_true(file.at > 100000 - 5 * 4096);
    assert_int_equal(hvd_tracefile_add(&file, "{\"n\":2}\n", 8, NULL), HVD_OK);
    assert_int_equal(hvd_tracefile_close(&file, NULL), HVD_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &large), 0);
    cJSON *json = parse_file(path);
    assert_non_null(json);
    assert_int_equal(cJSON_GetArraySize(json), file.n_records);
    assert_int_equal(number_at(json, (int)file.n_records - 1), 2);
    cJSON_Delete(json);
}

static void a_first_record_that_does_not_fit_is_not_counted(void **state)
{
    const struct rlimit small = {.rlim_cur = 4096, .rlim_max = RLIM_INFINITY};
    const struct rlimit large = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    char line[5000];
    struct hvd_tracefile file;

    (void)state;
    const int len = snprintf(line, sizeof(line), "{\"n\":1,\"fill\":\"%4500d\"}\n", 7);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(hvd_tracefile_open(&file, path, 0, NULL), HVD_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(hvd_tracefile_add(&file, line, (size_t)len, NULL), HVD_ERR_SYSTEM);
    assert_int_equal(hvd_tracefile_add(&file, "{\"n\":2}\n", 8, NULL), HVD_OK);
    assert_int_equal(hvd_tracefile_close(&file, NULL), HVD_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &large), 0);
    cJSON *json = parse_file(path);
    assert_non_null(json);
    assert_int_equal(cJSON_GetArraySize(json), 1);
    cJSON_Delete(json);
}

static void no_more_is_reserved_than_the_limit_of_the_file(void **state)
{
    struct hvd_tracefile file;
    struct stat about;

    (void)state;
    assert_int_equal(hvd_tracefile_open(&file, path, 20000, NULL), HVD_OK);
    assert_int_equal(hvd_tracefile_add(&file, "{\"n\":0}\n", 8, NULL), HVD_OK);
    assert_int_equal(stat(path, &about), 0);
    assert_in_range(about.st_size, 16384, 20480);
    assert_int_equal(hvd_tracefile_close(&file, NULL), HVD_OK);
}

static void a_file_that_is_no_regular_one_is_written_as_it_comes(void **state)
{
    struct hvd_tracefile file;
    char fifo[sizeof(path) + 8];
    char text[100] = "";

    (void)state;
    snprintf(fifo, sizeof(fifo), "%s.fifo", path);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    const int from = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_int_equal(hvd_tracefile_open(&file, fifo, 0, NULL), HVD_OK);
    assert_int_equal(hvd_tracefile_add(&file, "{\"n\":0}\n{\"n\":1}\n", 16, NULL), HVD_OK);
    assert_int_equal(hvd_tracefile_close(&file, NULL), HVD_OK);
    assert_true(read(from, text, sizeof(text) - 1) > 0);
    assert_string_equal(text, "[\n{\"n\":0},\n{\"n\":1}\n]\n");
    close(from);
    unlink(fifo);
    assert_int_equal(hvd_tracefile_open(&file, "/dev/null", 0, NULL), HVD_OK);
    assert_int_equal(hvd_tracefile_add(&file, "{\"n\":0}\n", 8, NULL), HVD_OK);
    assert_int_equal(hvd_tracefile_close(&file, NULL), HVD_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_is_an_array_after_every_addition),
        cmocka_unit_test(a_page_begins_with_a_whole_record),
        cmocka_unit_test(an_empty_file_is_an_empty_array),
        cmocka_unit_test(a_process_killed_at_any_moment_leaves_an_array),
        cmocka_unit_test(the_bracket_moves_between_two_system_calls),
        cmocka_unit_test(a_file_that_cannot_be_made_is_named),
        cmocka_unit_test(a_full_disk_is_an_error),
        cmocka_unit_test(a_small_disk_is_filled_to_its_last_page),
        cmocka_unit_test(a_batch_that_does_not_fit_is_written_in_part),
        cmocka_unit_test(a_first_record_that_does_not_fit_is_not_counted),
        cmocka_unit_test(no_more_is_reserved_than_the_limit_of_the_file),
        cmocka_unit_test(a_file_that_is_no_regular_one_is_written_as_it_comes),
    };

    return cmocka_run_group_tests(tests, make_file, remove_file);
}
