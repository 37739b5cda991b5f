#include "tests/unit/support.h"

#include <string.h>

#include "worker/launch/core/mpirun.h"

static const char *const none[] = {NULL};
static const char *const command[] = {"train", "--name", "a b", NULL};
static const char *const wrapper[] = {"/bin/horovodrun", "--rank-exec", "n", "prefix", NULL};
static const char *const names[] = {"HOROVOD_LAUNCH_ENV", NULL};

static void versions_of_open_mpi_are_read_and_others_refused(void **state)
{
    static const struct {
        const char *text;
        int major; /* 0: refused */
    } cases[] = {
        {"mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/\n", 4},
        {"Warning: odd\nmpirun (Open MPI) 5.0.1\n", 5},
        {"HYDRA build details:\n    Version: 4.0.2\n", 0},
        {"bash: line 1: mpirun: command not found\n", 0},
        {"mpirun (Open MPI) x\n", 0},
        {"", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_err err = {0};
        int major = 0;

        assert_int_equal(hvd_mpirun_parse_version(hvd_strview_of(cases[i].text), &major, &err),
                         cases[i].major ? HVD_OK : HVD_ERR_NOT_FOUND);
        assert_int_equal(major, cases[i].major);
    }
}

/* Builds the command of the plan for a host list and compares it, quoted, with the expected one. */
static void check_command(struct hvd_mpirun_command given, const char *list, bool is_local,
                          const char *expected)
{
    struct hvd_hosts hosts = {0};
    struct hvd_args args = {0};
    struct hvd_buf text = {0};

    hvd_buf_init(&text, 10000);
    assert_int_equal(hvd_hosts_parse_list(list, &hosts, NULL), HVD_OK);
    for (size_t i = 0; i < hosts.n; i++)
        hosts.items[i].is_local = is_local;
    given.hosts = &hosts;
    assert_int_equal(hvd_mpirun_build(&given, &args, NULL), HVD_OK);
    assert_int_equal(hvd_args_quote_all(&text, &args), HVD_OK);
    assert_string_equal(text.data, expected);
    hvd_buf_fini(&text);
    hvd_args_fini(&args);
    hvd_hosts_fini(&hosts);
}

static void here_no_ssh_is_configured(void **state)
{
    const struct hvd_mpirun_command given = {.mpi_major = 4,
                                             .can_ptrace = true,
                                             .names = names,
                                             .rank_wrapper = wrapper,
                                             .command = command};

    (void)state;
    check_command(given, "localhost:2", true,
                  "mpirun -np 2 -H localhost:2 --bind-to none --map-by slot -x HOROVOD_LAUNCH_ENV "
                  "/bin/horovodrun --rank-exec n prefix train --name 'a b'");
}

static void ranks_of_one_host_open_no_port(void **state)
{
    struct hvd_mpirun_command given = {.mpi_major = 4,
                                       .can_ptrace = true,
                                       .is_alone = true,
                                       .names = none,
                                       .rank_wrapper = none,
                                       .command = command};

    (void)state;
    check_command(given, "localhost:2", true,
                  "mpirun -np 2 -H localhost:2 --bind-to none --map-by slot --mca pml ob1 --mca "
                  "btl self,vader train --name 'a b'");
    given.mpi_major = 5;
    check_command(given, "localhost:2", true,
                  "mpirun -np 2 -H localhost:2 --bind-to none --map-by slot --mca pml ob1 --mca "
                  "btl self,sm train --name 'a b'");
    given.is_tcp = true; /* asked for */
    check_command(given, "localhost:2", true,
                  "mpirun -np 2 -H localhost:2 --bind-to none --map-by slot --mca pml ob1 --mca "
                  "btl self,sm,tcp train --name 'a b'");
}

static void a_prompt_at_a_terminal_is_not_held_back_by_open_mpi_5(void **state)
{
    struct hvd_args more = {0};
    struct hvd_mpirun_command given = {.mpi_major = 5,
                                       .can_ptrace = true,
                                       .is_typed = true,
                                       .mpi_args = &more,
                                       .names = none,
                                       .rank_wrapper = none,
                                       .command = command};

    (void)state;
    check_command(given, "localhost:2", true,
                  "mpirun -np 2 -H localhost:2 --bind-to none --map-by slot --output :raw train "
                  "--name 'a b'");
    assert_int_equal(hvd_args_split(&more, "--output tag", NULL), HVD_OK);
    check_command(given, "localhost:2", true,
                  "mpirun -np 2 -H localhost:2 --bind-to none --map-by slot --output tag train "
                  "--name 'a b'");
    given.mpi_args = NULL;
    given.mpi_major = 4;
    check_command(given, "localhost:2", true,
                  "mpirun -np 2 -H localhost:2 --bind-to none --map-by slot train --name 'a b'");
    hvd_args_fini(&more);
}

/* Open MPI 4 begins with the machine that it is started on. */
static void ranks_follow_the_list_wherever_this_machine_stands_in_it(void **state)
{
    struct hvd_args binding = {0};
    struct hvd_args args = {0};
    struct hvd_buf text = {0};
    struct hvd_hosts hosts = {0};
    struct hvd_err err = {0};
    struct hvd_mpirun_command given = {.mpi_major = 4,
                                       .ssh = {.way = HVD_WAY_SRUN},
                                       .hosts = &hosts,
                                       .can_ptrace = true,
                                       .binding = &binding,
                                       .names = none,
                                       .rank_wrapper = none,
                                       .command = command};
    static const char *const expected[] = {
        "mpirun -np 4 -H w,w,e,s --bind-to none --map-by seq ",
        "mpirun -np 4 -H w:2,e:1,s:1 --bind-to none --map-by slot ",
        "mpirun -np 4 -H w:2,e:1,s:1 --map-by node ",
    };

    (void)state;
    hvd_buf_init(&text, 10000);
    assert_int_equal(hvd_hosts_parse_list("w:2,e:1,s:1", &hosts, NULL), HVD_OK);
    hosts.items[1].is_local = true;
    for (size_t i = 0; i < 3; i++) {
        given.mpi_major = i == 1 ? 5 : 4;
        if (i == 2)
            assert_int_equal(hvd_args_split(&binding, "--map-by node", NULL), HVD_OK);
        assert_int_equal(hvd_mpirun_build(&given, &args, NULL), HVD_OK);
        hvd_buf_reset(&text);
        assert_int_equal(hvd_args_quote_all(&text, &args), HVD_OK);
        assert_memory_equal(text.data, expected[i], strlen(expected[i]));
        hvd_args_fini(&args);
    }
    hvd_args_fini(&binding);
    hosts.items[0].slots = 100000;
    assert_int_equal(hvd_mpirun_build(&given, &args, &err), HVD_ERR_TOO_LARGE);
    assert_non_null(strstr(err.msg, "put this machine first"));
    hvd_hosts_fini(&hosts);
    hvd_buf_fini(&text);
}

static void root_crowding_and_missing_capabilities_are_told_to_open_mpi_4(void **state)
{
    const struct hvd_mpirun_command given = {.mpi_major = 4,
                                             .is_root = true,
                                             .is_crowded = true,
                                             .names = none,
                                             .rank_wrapper = none,
                                             .command = command};

    (void)state;
    check_command(given, "localhost:8", true,
                  "mpirun --allow-run-as-root -np 8 -H localhost:8 --bind-to none --map-by slot "
                  "--mca btl_vader_single_copy_mechanism none --mca mpi_yield_when_idle 1 "
                  "train --name 'a b'");
}

static void other_hosts_are_reached_by_open_mpi_4_with_the_users_port_and_key(void **state)
{
    const struct hvd_mpirun_command given = {.mpi_major = 4,
                                             .can_ptrace = true,
                                             .ssh = {.port = 2222, .identity = "/k"},
                                             .interfaces = "eth0",
                                             .daemon_wrapper = "/h --session-exec",
                                             .names = none,
                                             .rank_wrapper = none,
                                             .command = command};

    (void)state;
    check_command(given, "a.b:1,c.b:2", false,
                  "mpirun -np 3 -H a.b:1,c.b:2 --bind-to none --map-by slot "
                  "--mca plm_rsh_agent ssh --mca plm_rsh_args '-o BatchMode=yes "
                  "-o StrictHostKeyChecking=accept-new -p 2222 -i /k' "
                  "--mca orte_keep_fqdn_hostnames 1 "
                  "--mca orte_launch_agent '/h --session-exec orted' --mca oob_tcp_if_include eth0 "
                  "--mca btl_tcp_if_include eth0 train --name 'a b'");
}

static void open_mpi_5_has_its_own_names_and_the_operators_ssh_config_is_used(void **state)
{
    const struct hvd_mpirun_command given = {.mpi_major = 5,
                                             .ssh = {.config = "/etc/horovod/hosts/ssh_config"},
                                             .daemon_wrapper = "/h --session-exec",
                                             .names = none,
                                             .rank_wrapper = none,
                                             .command = command};

    (void)state;
    check_command(given, "a.b:1", false,
                  "mpirun -np 1 -H a.b:1 --bind-to none --map-by slot --prtemca plm_ssh_agent ssh "
                  "--prtemca plm_ssh_args '-o BatchMode=yes -F /etc/horovod/hosts/ssh_config' "
                  "--prtemca prte_keep_fqdn_hostnames 1 "
                  "--prtemca prte_launch_agent '/h --session-exec prted' "
                  "--mca smsc '^cma' train --name 'a b'");
}

static void the_users_own_arguments_come_last_and_replace_the_placing(void **state)
{
    static char *const words[] = {"--bind-to", "core", "--x y", NULL};
    struct hvd_args binding = {.items = (char **)words, .n = 2};
    struct hvd_args more = {.items = (char **)words + 2, .n = 1};
    const struct hvd_mpirun_command given = {.mpi_major = 5,
                                             .is_tcp = true,
                                             .can_ptrace = true,
                                             .binding = &binding,
                                             .mpi_args = &more,
                                             .names = none,
                                             .rank_wrapper = wrapper,
                                             .command = command};

    (void)state;
    check_command(given, "localhost:1", true,
                  "mpirun -np 1 -H localhost:1 --bind-to core --mca pml ob1 --mca btl self,sm,tcp "
                  "'--x y' /bin/horovodrun --rank-exec n prefix train --name 'a b'");
}

static void slurm_starts_the_daemons_itself(void **state)
{
    const struct hvd_mpirun_command given = {.mpi_major = 4,
                                             .can_ptrace = true,
                                             .ssh = {.way = HVD_WAY_SRUN, .port = 22},
                                             .names = none,
                                             .rank_wrapper = none,
                                             .command = command};

    (void)state;
    check_command(given, "n1:1", false,
                  "mpirun -np 1 -H n1:1 --bind-to none --map-by slot "
                  "--mca orte_keep_fqdn_hostnames 1 train --name 'a b'");
}

static void a_host_is_reached_by_the_way_that_there_is(void **state)
{
    static const struct {
        struct hvd_launch_ssh ssh;
        const char *expected;
        const char *name;
    } cases[] = {
        {{.port = 22, .identity = "/k"},
         "ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new -p 22 -i /k "
         "-o ConnectTimeout=7 h",
         "ssh"},
        {{.keeps_strictness = true}, "ssh -o BatchMode=yes -o ConnectTimeout=7 h", "ssh"},
        {{.way = HVD_WAY_SRUN},
         "srun --overlap --nodes=1 --ntasks=1 --mem=0 --input=none --quiet --nodelist=h sh -c",
         "srun"},
        {{.way = HVD_WAY_AGENT, .agent = "/etc/mpi/kubexec.sh -q"},
         "/etc/mpi/kubexec.sh -q h",
         "/etc/mpi/kubexec.sh -q"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_args args = {0};
        struct hvd_buf text = {0};

        hvd_buf_init(&text, 10000);
        assert_int_equal(hvd_mpirun_reach(&cases[i].ssh, "h", 7, &args, NULL), HVD_OK);
        assert_int_equal(hvd_args_quote_all(&text, &args), HVD_OK);
        assert_string_equal(text.data, cases[i].expected);
        assert_string_equal(hvd_mpirun_way_name(&cases[i].ssh), cases[i].name);
        hvd_buf_fini(&text);
        hvd_args_fini(&args);
    }
}

static void every_allocation_may_fail(void **state)
{
    struct hvd_hosts hosts = {0};
    const struct hvd_mpirun_command given = {.mpi_major = 4,
                                             .hosts = &hosts,
                                             .ssh = {.port = 1, .identity = "/k"},
                                             .interfaces = "eth0",
                                             .names = names,
                                             .rank_wrapper = wrapper,
                                             .command = command};

    (void)state;
    assert_int_equal(hvd_hosts_parse_list("a,b", &hosts, NULL), HVD_OK);
    HVD_MEM_TORTURE({
        struct hvd_args args = {0};
        hvd_status_t st = hvd_mpirun_build(&given, &args, NULL);

        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        assert_true(st == HVD_OK || args.n == 0);
        hvd_args_fini(&args);
    });
    hvd_hosts_fini(&hosts);
}

static void a_mpirun_that_may_go_on_without_a_rank_is_known(void **state)
{
    static char *words[] = {"--enable-recovery", "--continuous", "--runtime-options", "--with-ft",
                            "orte_abort_on_non_zero_status"};
    static char *const nothing[] = {NULL};
    static char *const others[] = {"PATH=/recovery", "OMPI_MCA_btl=tcp", "HOROVOD_X=abort", NULL};
    static char *const variables[][2] = {{"OMPI_MCA_orte_enable_recovery=1", NULL},
                                         {"PRTE_MCA_prte_enable_recovery=1", NULL},
                                         {"OMPI_MCA_orte_allowed_exit_without_sync=1", NULL}};
    static char *usual[] = {"--mca", "btl_tcp_if_exclude", "lo"};

    (void)state;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        assert_true(hvd_mpirun_may_go_on(&(struct hvd_args){.items = &words[i], .n = 1}, nothing));
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        assert_true(hvd_mpirun_may_go_on(NULL, variables[i]));
    assert_false(hvd_mpirun_may_go_on(&(struct hvd_args){.items = usual, .n = 3}, others));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_of_open_mpi_are_read_and_others_refused),
        cmocka_unit_test(here_no_ssh_is_configured),
        cmocka_unit_test(ranks_of_one_host_open_no_port),
        cmocka_unit_test(a_prompt_at_a_terminal_is_not_held_back_by_open_mpi_5),
        cmocka_unit_test(ranks_follow_the_list_wherever_this_machine_stands_in_it),
        cmocka_unit_test(root_crowding_and_missing_capabilities_are_told_to_open_mpi_4),
        cmocka_unit_test(other_hosts_are_reached_by_open_mpi_4_with_the_users_port_and_key),
        cmocka_unit_test(open_mpi_5_has_its_own_names_and_the_operators_ssh_config_is_used),
        cmocka_unit_test(the_users_own_arguments_come_last_and_replace_the_placing),
        cmocka_unit_test(slurm_starts_the_daemons_itself),
        cmocka_unit_test(a_host_is_reached_by_the_way_that_there_is),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_mpirun_that_may_go_on_without_a_rank_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
