/* What file systems say is put into the place of the C library's functions (-Wl,--wrap). */
#include "base/room.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tests/unit/support.h"

int __real_openat(int folder, const char *path, int flags, ...);
int __wrap_openat(int folder, const char *path, int flags, ...);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t len);
int __wrap_fstatvfs(int fd, struct statvfs *about);
uid_t __wrap_geteuid(void);

static struct file_system {
    struct statvfs about;
    uid_t user;
    int open_error;     /* errno; 0: it opens */
    int allocate_error; /* errno; 0: it has the bytes */
    off_t asked;        /* of fallocate */
} fs;

static char folder[sizeof("/tmp/horovod-test-XXXXXX")];
static int fd = -1;

static int result_of(int why)
{
    errno = why;
    return why ? -1 : 0;
}

int __wrap_openat(int at, const char *path, int flags, ...)
{
    return fs.open_error ? result_of(fs.open_error) : __real_openat(at, path, flags, 0600);
}

int __wrap_fallocate(int at, int mode, off_t offset, off_t len)
{
    (void)at;
    assert_int_equal(mode, 0);
    assert_int_equal(offset, 0);
    fs.asked = len;
    return result_of(fs.allocate_error);
}

int __wrap_fstatvfs(int at, struct statvfs *about)
{
    assert_int_equal(at, fd);
    *about = fs.about;
    return 0;
}

uid_t __wrap_geteuid(void)
{
    return fs.user;
}

static int set_up(void **state)
{
    (void)state;
    memcpy(folder, "/tmp/horovod-test-XXXXXX", sizeof(folder));
    fs = (struct file_system){.about = {.f_files = 1000, .f_ffree = 64, .f_favail = 64},
                              .user = 1000};
    fd = mkdtemp(folder) ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    return fd < 0 ? -1 : 0;
}

/* Nothing may be left in the folder. */
static int tear_down(void **state)
{
    (void)state;
    return close(fd) != 0 || rmdir(folder) != 0 ? -1 : 0;
}

static void a_folder_that_takes_the_bytes_has_room(void **state)
{
    (void)state;
    assert_true(hvd_room_is_in(fd, HVD_ROOM_MPI_4));
    assert_int_equal(fs.asked, HVD_ROOM_MPI_4);
}

static void a_full_file_system_or_quota_has_no_room(void **state)
{
    static const int lacking[] = {ENOSPC, EDQUOT};

    (void)state;
    for (int i = 0; i < 2; i++) {
        fs.allocate_error = lacking[i];
        fs.open_error = 0;
        assert_false(hvd_room_is_in(fd, 1));
        fs.allocate_error = 0;
        fs.open_error = lacking[i];
        assert_false(hvd_room_is_in(fd, 1));
    }
}

static void what_cannot_be_found_out_counts_as_room(void **state)
{
    (void)state;
    fs.allocate_error = EOPNOTSUPP;
    assert_true(hvd_room_is_in(fd, 1));
    fs.open_error = EACCES;
    assert_true(hvd_room_is_in(fd, 1));
    fs.about = (struct statvfs){0}; /* no count of files, as on btrfs */
    assert_true(hvd_room_is_in(fd, 1));
}

static void where_nothing_is_allocated_ahead_free_blocks_count(void **state)
{
    (void)state;
    fs.about.f_blocks = 1000;
    fs.about.f_frsize = 4096;
    fs.about.f_bavail = 2;
    fs.about.f_bfree = 3;
    fs.allocate_error = EOPNOTSUPP;
    assert_true(hvd_room_is_in(fd, (size_t)2 * 4096));
    assert_false(hvd_room_is_in(fd, (size_t)2 * 4096 + 1));
    fs.user = 0;
    assert_true(hvd_room_is_in(fd, (size_t)3 * 4096));
    assert_false(hvd_room_is_in(fd, (size_t)3 * 4096 + 1));
}

static void files_that_are_kept_for_root_are_room_for_root_alone(void **state)
{
    (void)state;
    fs.about.f_favail = 63;
    assert_false(hvd_room_is_in(fd, 1));
    fs.user = 0;
    assert_true(hvd_room_is_in(fd, 1));
    fs.about.f_ffree = 63;
    assert_false(hvd_room_is_in(fd, 1));
}

static void no_more_is_asked_for_than_a_file_may_have(void **state)
{
    struct rlimit before;
    struct rlimit limit;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 4096;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_true(hvd_room_is_in(fd, HVD_ROOM_MPI_4));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(fs.asked, 4096);
}

static void another_ones_file_of_that_name_stays(void **state)
{
    char path[sizeof(folder) + 64];
    int other;

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/horovod-room-%d", folder, (int)getpid());
    other = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(other >= 0);
    assert_true(hvd_room_is_in(fd, 1));
    assert_int_equal(unlink(path), 0);
    (void)close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_folder_that_takes_the_bytes_has_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_file_system_or_quota_has_no_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(where_nothing_is_allocated_ahead_free_blocks_count, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_found_out_counts_as_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(files_that_are_kept_for_root_are_room_for_root_alone,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_more_is_asked_for_than_a_file_may_have, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(another_ones_file_of_that_name_stays, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("room", tests, NULL, NULL);
}
