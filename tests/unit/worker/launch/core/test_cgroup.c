#include "tests/unit/support.h"

#include "worker/launch/core/cgroup.h"

static const struct {
    const char *name;
    const char *cgroup;
    const char *mountinfo;
    int version; /* 0: not found */
    const char *dir;
} places[] = {
    {"a machine with version 1", "8:pids:/\n4:memory:/jobs/a\n0::/\n",
     "30 24 0:26 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
     "31 24 0:27 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n",
     1, "/sys/fs/cgroup/memory/jobs/a"},
    {"a container with version 1, its own cgroup as root of the mount",
     "4:cpu,memory:/kubepods/pod1/c1\n",
     "31 24 0:27 /kubepods/pod1/c1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n", 1,
     "/sys/fs/cgroup/memory"},
    {"a process below the container's root", "4:memory:/kubepods/pod1/c1/inner\n",
     "31 24 0:27 /kubepods/pod1/c1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n", 1,
     "/sys/fs/cgroup/memory/inner"},
    {"a process outside of what the mount shows", "4:memory:/other/pod2\n",
     "31 24 0:27 /kubepods/pod1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n", 1,
     "/sys/fs/cgroup/memory"},
    {"a mount of a longer name is another one", "4:memory:/pod11\n",
     "31 24 0:27 /pod1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n", 1,
     "/sys/fs/cgroup/memory"},
    {"version 2", "0::/user.slice/x\n", "25 20 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", 2,
     "/sys/fs/cgroup/user.slice/x"},
    {"version 2 in a namespace", "0::/\n", "25 20 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
     2, "/sys/fs/cgroup"},
    {"version 2 above the namespace", "0::/../other\n",
     "25 20 0:22 /.. /sys/fs/cgroup rw - cgroup2 cgroup rw\n", 2, "/sys/fs/cgroup"},
    {"no cgroups", "", "25 20 0:22 / /proc rw - proc proc rw\n", 0, ""},
    {"a mount without a place", "0::/\n", "25 20 0:22 / cgroup2 rw - cgroup2 cgroup rw\n", 0, ""},
    {"texts cut short", "0:", "25 20 0:22", 0, ""},
};

static void the_directory_is_found_on_machines_and_in_containers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct hvd_cgroup found = {0};

        assert_int_equal(hvd_cgroup_locate(places[i].cgroup, places[i].mountinfo, &found),
                         places[i].version ? HVD_OK : HVD_ERR_NOT_FOUND);
        if (found.version != places[i].version)
            fail_msg("%s: version %d", places[i].name, found.version);
        assert_string_equal(found.dir, places[i].dir);
    }
}

static void kills_are_counted_in_both_versions(void **state)
{
    int64_t kills = -1;

    (void)state;
    assert_int_equal(hvd_cgroup_oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", &kills),
                     HVD_OK);
    assert_int_equal(kills, 3);
    assert_int_equal(hvd_cgroup_oom_kills("low 0\nhigh 0\nmax 9\noom 4\noom_kill 2\n", &kills),
                     HVD_OK);
    assert_int_equal(kills, 2);
    assert_int_equal(hvd_cgroup_oom_kills("oom_kill_disable 0\nunder_oom 0\n", &kills),
                     HVD_ERR_NOT_FOUND);
    assert_int_equal(hvd_cgroup_oom_kills("", &kills), HVD_ERR_NOT_FOUND);
    assert_int_equal(hvd_cgroup_oom_kills("oom_kill x\n", &kills), HVD_ERR_INVALID);
}

static void a_limit_is_a_number_or_none(void **state)
{
    int64_t limit = 0;

    (void)state;
    assert_int_equal(hvd_cgroup_limit("67108864\n", &limit), HVD_OK);
    assert_int_equal(limit, 67108864);
    assert_int_equal(hvd_cgroup_limit("max\n", &limit), HVD_OK);
    assert_true(limit == INT64_MAX);
    assert_int_equal(hvd_cgroup_limit("9223372036854771712\n", &limit), HVD_OK);
    assert_true(limit == INT64_MAX);
    assert_int_equal(hvd_cgroup_limit("much\n", &limit), HVD_ERR_INVALID);
    assert_int_equal(hvd_cgroup_limit("", &limit), HVD_ERR_INVALID);
}

static void sizes_are_written_as_kubernetes_writes_them(void **state)
{
    static const struct {
        int64_t bytes;
        const char *text;
    } cases[] = {
        {67108864, "64Mi"}, {1073741824, "1Gi"},       {1572864, "1536Ki"},         {1000, "1000"},
        {0, "0"},           {(int64_t)3 << 40, "3Ti"}, {(int64_t)5 << 50, "5120Ti"}};
    char out[32];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hvd_cgroup_format_size(cases[i].bytes, out, sizeof(out));
        assert_string_equal(out, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_directory_is_found_on_machines_and_in_containers),
        cmocka_unit_test(kills_are_counted_in_both_versions),
        cmocka_unit_test(a_limit_is_a_number_or_none),
        cmocka_unit_test(sizes_are_written_as_kubernetes_writes_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
