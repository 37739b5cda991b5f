/*
 * horovodrun: runs N processes of a program over Open MPI, here or on a list of hosts. mpirun
 * starts the same program in place of a rank; then it is the wrapper around the rank (rank.h).
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "worker/launch/build.h"
#include "worker/launch/config.h"
#include "worker/launch/core/exit_codes.h"
#include "worker/launch/core/options.h"
#include "worker/launch/launch.h"
#include "worker/launch/process.h"
#include "worker/launch/rank.h"
#include "worker/launch/report.h"
#include "worker/launch/session.h"

/* The command line, with the words of the configuration file if there is one. */
struct line {
    struct hvd_args words; /* with a file, options point to them */
    struct hvd_launch_options options;
};

/* Reads the words of the file into *words. */
static hvd_status_t read_config(const char *path, struct hvd_args *words, struct hvd_err *err)
{
    struct hvd_buf text = {0};
    hvd_status_t st;

    hvd_buf_init(&text, HVD_LAUNCH_CONFIG_MAX);
    st = hvd_process_read_file(path, &text, err);
    if (st == HVD_OK)
        st = hvd_launch_config_parse(
            (struct hvd_strview){.data = text.data ? text.data : "", .len = text.len}, words, err);
    hvd_buf_fini(&text);
    return st < 0 ? HVD_WRAP(err, st, "configuration file %.300s", path) : HVD_OK;
}

/* Inserts the words of the file after the flag that names it. */
static hvd_status_t insert_config(char *const *argv, struct line *line, struct hvd_err *err)
{
    const struct hvd_launch_options *o = &line->options;
    struct hvd_args words = {0};
    hvd_status_t st = read_config(o->config_file, &words, err);

    for (int i = 0; argv[i] && st == HVD_OK; i++) {
        if (i == o->config_at && words.n > 0)
            st = hvd_args_add_all(&line->words, (const char *const *)words.items, err);
        if (st == HVD_OK)
            st = hvd_args_add(&line->words, argv[i], err);
    }
    if (st == HVD_OK && !argv[o->config_at] && words.n > 0)
        st = hvd_args_add_all(&line->words, (const char *const *)words.items, err);
    hvd_args_fini(&words);
    return st;
}

static hvd_status_t parse(int argc, char **argv, struct line *line, struct hvd_err *err)
{
    const struct hvd_launch_around around = {.start_timeout = getenv("HOROVOD_START_TIMEOUT"),
                                             .stop_grace = getenv("HOROVOD_STOP_GRACE"),
                                             .is_pod = getenv("KUBERNETES_SERVICE_HOST") != NULL,
                                             .has_allocation = hvd_launch_has_allocation()};
    hvd_status_t st = hvd_launch_options_parse(argc, argv, &around, &line->options, err);

    if (st < 0 || !line->options.config_file)
        return st;
    st = insert_config(argv, line, err);
    hvd_launch_options_fini(&line->options);
    if (st == HVD_OK)
        st = hvd_launch_options_parse((int)line->words.n, line->words.items, &around,
                                      &line->options, err);
    return st;
}

static hvd_status_t show_build(struct hvd_err *err)
{
    struct hvd_buf text = {0};
    hvd_status_t st;

    hvd_buf_init(&text, 4096);
    st = hvd_build_describe(&text);
    if (st == HVD_OK)
        (void)fputs(text.data, stdout);
    else
        st = HVD_FAIL(err, st, 0, "%s", hvd_status_str(st));
    hvd_buf_fini(&text);
    return st;
}

/* Runs what the options request. */
static hvd_status_t act(const struct hvd_launch_options *o, int *code, struct hvd_err *err)
{
    if (o->wants_help) {
        (void)fputs(hvd_launch_help(), stdout);
        return HVD_OK;
    }
    if (o->wants_version) {
        (void)puts("horovodrun " HVD_VERSION);
        return HVD_OK;
    }
    if (o->wants_build)
        return show_build(err);
    if (o->report)
        return hvd_report_make(o->report, o->command, o->n_command, err);
    for (size_t i = 0; i < o->warnings.n; i++)
        (void)fprintf(stderr, "horovodrun: %s\n", o->warnings.items[i]);
    return hvd_launch(o, code, err);
}

/* Opens closed standard streams, because the next opened file would take their numbers. */
static void fill_standard_streams(void)
{
    int fd = open("/dev/null", O_RDWR);

    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = dup(fd);
    if (fd >= 0)
        (void)close(fd);
}

int main(int argc, char **argv)
{
    struct line line = {0};
    struct hvd_err err = {0};
    hvd_status_t st;
    int code = 0;

    fill_standard_streams();
    if (argc > 1 && strcmp(argv[1], HVD_RANK_EXEC) == 0)
        return hvd_rank_exec(argc, argv);
    if (argc > 1 && strcmp(argv[1], HVD_SESSION_KEEP) == 0)
        return hvd_session_keep(argc, argv);
    if (argc > 1 && strcmp(argv[1], HVD_SESSION_EXEC) == 0)
        return hvd_session_exec(argc, argv);
    st = parse(argc, argv, &line, &err);
    code = st < 0 ? HVD_EXIT_USAGE : 0;
    if (st == HVD_OK) {
        st = act(&line.options, &code, &err);
        if (st < 0 && code == 0)
            code = HVD_EXIT_OTHER;
        hvd_launch_options_fini(&line.options);
    }
    if (st < 0)
        (void)fprintf(stderr, "horovodrun: %s\n", err.msg);
    hvd_args_fini(&line.words);
    return code;
}
