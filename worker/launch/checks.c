/*
 * The checks before the start. One ssh per host asks all questions about it; up to 64 run at once,
 * each with a pipe that this file reads. The checks exist because mpirun's own messages do not name
 * a host that is down, or has another Open MPI.
 */
#include "worker/launch/checks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "worker/launch/core/args.h"
#include "worker/launch/process.h"

#define SIDE_BY_SIDE 64
#define ATTEMPTS 5
#define RETRY_AFTER_MS 500
#define PROGRESS_EVERY_MS 2000
#define TEXT_MAX ((size_t)16384)
#define SSH_FAILED 255
#define QUESTION_MAX ((size_t)1 << 20)
#define NO_PROGRAM "horovodrun:no-program"
#define NAMES_SHOWN 3 /* of hosts with a pending check */

/* The check of one host. */
struct probe {
    struct hvd_host *host;
    pid_t pid; /* 0: no ssh runs */
    int from;
    struct hvd_buf text; /* output of ssh and of the host */
    int attempts;
    int64_t start_at_ms; /* when the next attempt is due */
    bool is_done;
};

struct round {
    const struct hvd_checks *checks;
    struct probe *probes;
    size_t n;
    size_t n_running;
    size_t n_done;
    int64_t deadline_ms;
    int64_t progress_at_ms;
    int null_fd;
};

/*
 * Appends a shell command that searches for the program of the ranks and prints NO_PROGRAM where it
 * is missing. The command uses this process's PATH, as ranks do, and its folder where the host has
 * it.
 */
static hvd_status_t add_search(const struct round *r, struct hvd_buf *script)
{
    const char *program = r->checks->program;
    const char *path = getenv("PATH");
    char *folder = get_current_dir_name();
    hvd_status_t st = hvd_buf_puts(script, "cd ");

    if (st == HVD_OK)
        st = hvd_args_quote(script, folder ? folder : "/");
    free(folder);
    if (st == HVD_OK)
        st = hvd_buf_puts(script, " 2>/dev/null; PATH=");
    if (st == HVD_OK)
        st = hvd_args_quote(script, path ? path : "/bin:/usr/bin");
    if (st == HVD_OK)
        st = hvd_buf_puts(script, strchr(program, '/') ? "; test -x " : "; command -v -- ");
    if (st == HVD_OK)
        st = hvd_args_quote(script, program);
    return st == HVD_OK ? hvd_buf_puts(script, " >/dev/null 2>&1 || echo " NO_PROGRAM) : st;
}

/* Appends the whole command, for a shell of any kind. */
static hvd_status_t add_question(const struct round *r, struct hvd_buf *question)
{
    struct hvd_buf script = {0};
    hvd_status_t st = hvd_buf_puts(question, "mpirun --version; ");

    hvd_buf_init(&script, QUESTION_MAX);
    if (st == HVD_OK)
        st = hvd_args_quote(question, r->checks->self);
    if (st == HVD_OK)
        st = hvd_buf_puts(question, " --version; sh -c ");
    if (st == HVD_OK)
        st = add_search(r, &script);
    if (st == HVD_OK)
        st = hvd_args_quote(question, script.data);
    hvd_buf_fini(&script);
    return st;
}

/* Builds the arguments of ssh or its substitute. The command is the only text that a shell
 * reads. */
static hvd_status_t build_question(const struct round *r, const struct hvd_host *host,
                                   struct hvd_args *out, struct hvd_err *err)
{
    struct hvd_buf question = {0};
    hvd_status_t st = hvd_mpirun_reach(&r->checks->ssh, host->name, r->checks->timeout_s, out, err);

    hvd_buf_init(&question, QUESTION_MAX);
    if (st == HVD_OK && add_question(r, &question) == HVD_OK)
        st = hvd_args_add(out, question.data, err);
    else if (st == HVD_OK)
        st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the checks");
    hvd_buf_fini(&question);
    return st;
}

static hvd_status_t start(struct round *r, struct probe *probe, struct hvd_err *err)
{
    struct hvd_args args = {0};
    int ends[2] = {-1, -1};
    hvd_status_t st = build_question(r, probe->host, &args, err);

    if (st == HVD_OK)
        st = hvd_process_pipe(ends, err);
    if (st == HVD_OK) {
        struct hvd_spawn spawn = {
            .argv = args.items, .fds = {r->null_fd, ends[1], ends[1]}, .death_signal = SIGKILL};

        st = hvd_process_spawn(&spawn, &probe->pid, err);
        if (st == HVD_ERR_NOT_FOUND && r->checks->ssh.way == HVD_WAY_SSH)
            st = HVD_WRAP(err, st, "install openssh-client to reach other hosts");
    }
    hvd_process_close(&ends[1]);
    if (st == HVD_OK) {
        (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
        probe->from = ends[0];
        probe->attempts++;
        r->n_running++;
    } else {
        hvd_process_close(&ends[0]);
    }
    hvd_buf_reset(&probe->text);
    hvd_args_fini(&args);
    return st;
}

/* The last line of ssh's output that is not a mere warning; "no answer" when there is none. */
static struct hvd_strview last_words(const struct probe *probe)
{
    struct hvd_strview rest = {.data = probe->text.data ? probe->text.data : "",
                               .len = probe->text.len};
    struct hvd_strview best = hvd_strview_of("no answer");

    while (rest.data) {
        struct hvd_strview line = hvd_strview_trim(hvd_strview_cut(&rest, '\n'));

        if (line.len > 0 && (line.len < 8 || memcmp(line.data, "Warning:", 8) != 0))
            best = line;
    }
    return best;
}

static hvd_status_t fail_unreachable(const struct round *r, const struct probe *probe, bool is_late,
                                     struct hvd_err *err)
{
    struct hvd_strview words = last_words(probe);
    const char *way = hvd_mpirun_way_name(&r->checks->ssh);

    if (!is_late)
        return HVD_FAIL(err, HVD_ERR_UNAVAILABLE, 0, "host %s cannot be reached by %.100s: %.*s",
                        probe->host->name, way, words.len > 300 ? 300 : (int)words.len, words.data);
    return HVD_FAIL(err, HVD_ERR_UNAVAILABLE, 0,
                    "host %s cannot be reached by %.100s within %" PRId64
                    " s (--start-timeout): %.*s",
                    probe->host->name, way, r->checks->timeout_s,
                    words.len > 300 ? 300 : (int)words.len, words.data);
}

/* Whether another attempt is pointless, as when the host answered and refused the connection. */
static bool is_final(const struct probe *probe)
{
    const char *text = probe->text.data ? probe->text.data : "";

    return probe->attempts >= ATTEMPTS || strstr(text, "Permission denied") ||
           strstr(text, "Host key verification failed") || strstr(text, "no such identity");
}

/* Evaluates the host's answer. */
static hvd_status_t understand(const struct round *r, struct probe *probe, struct hvd_err *err)
{
    struct hvd_strview text = {.data = probe->text.data ? probe->text.data : "",
                               .len = probe->text.len};
    struct hvd_strview rest = text;
    hvd_status_t st = hvd_mpirun_parse_version(text, &probe->host->mpi_major, err);

    if (st < 0)
        return HVD_WRAP(err, st, "host %s has no Open MPI (install openmpi-bin there)",
                        probe->host->name);
    while (rest.data) {
        struct hvd_strview line = hvd_strview_trim(hvd_strview_cut(&rest, '\n'));

        if (hvd_strview_equal(line, "horovodrun " HVD_VERSION))
            probe->host->has_wrapper = true;
        if (hvd_strview_equal(line, NO_PROGRAM) && r->checks->lacks_program)
            *r->checks->lacks_program = true;
        if (hvd_strview_equal(line, NO_PROGRAM))
            return HVD_FAIL(err, HVD_ERR_NOT_FOUND, 0,
                            "host %s has no program \"%.200s\" that can be run: install it there, "
                            "or write its whole path",
                            probe->host->name, r->checks->program);
    }
    if (r->checks->is_verbose)
        (void)fprintf(stderr, "horovodrun: host %s: Open MPI %d, %s\n", probe->host->name,
                      probe->host->mpi_major,
                      probe->host->has_wrapper ? "horovodrun " HVD_VERSION : "no horovodrun");
    return HVD_OK;
}

/* Whether ssh did not reach the host. Its substitutes have no exit code for that: they failed if
 * the output answers none of the questions. */
static bool has_failed(const struct round *r, const struct probe *probe, int status)
{
    const char *text = probe->text.data ? probe->text.data : "";

    if (r->checks->ssh.way == HVD_WAY_SSH)
        return !WIFEXITED(status) || WEXITSTATUS(status) == SSH_FAILED;
    return status != 0 && !strstr(text, "Open MPI") && !strstr(text, NO_PROGRAM) &&
           !strstr(text, "not found");
}

/* Ends a probe whose ssh has closed its pipe. */
static hvd_status_t finish(struct round *r, struct probe *probe, struct hvd_err *err)
{
    int status = 0;

    hvd_process_close(&probe->from);
    (void)waitpid(probe->pid, &status, 0);
    probe->pid = 0;
    r->n_running--;
    if (has_failed(r, probe, status)) {
        if (is_final(probe))
            return fail_unreachable(r, probe, false, err);
        probe->start_at_ms = hvd_process_now_ms() + RETRY_AFTER_MS;
        return HVD_OK;
    }
    probe->is_done = true;
    r->n_done++;
    return understand(r, probe, err);
}

static hvd_status_t take(struct round *r, struct probe *probe, struct hvd_err *err)
{
    char chunk[2048];
    ssize_t n = read(probe->from, chunk, sizeof(chunk));

    if (n > 0) {
        (void)!hvd_buf_add(&probe->text, chunk, (size_t)n);
        return HVD_OK;
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? HVD_OK : finish(r, probe, err);
}

static hvd_status_t start_due(struct round *r, struct hvd_err *err)
{
    int64_t now_ms = hvd_process_now_ms();
    hvd_status_t st = HVD_OK;

    for (size_t i = 0; i < r->n && st == HVD_OK && r->n_running < SIDE_BY_SIDE; i++) {
        struct probe *probe = &r->probes[i];

        if (!probe->is_done && probe->pid == 0 && probe->start_at_ms <= now_ms)
            st = start(r, probe, err);
    }
    return st;
}

static hvd_status_t wait_some(struct round *r, struct hvd_err *err)
{
    struct pollfd fds[SIDE_BY_SIDE];
    struct probe *of[SIDE_BY_SIDE];
    nfds_t n = 0;
    hvd_status_t st = HVD_OK;

    for (size_t i = 0; i < r->n && n < SIDE_BY_SIDE; i++)
        if (r->probes[i].pid) {
            fds[n] = (struct pollfd){.fd = r->probes[i].from, .events = POLLIN};
            of[n++] = &r->probes[i];
        }
    if (poll(fds, n, 100) > 0)
        for (nfds_t i = 0; i < n && st == HVD_OK; i++)
            if (fds[i].revents)
                st = take(r, of[i], err);
    return st;
}

/* Reports the progress of checks that take long. */
static void show_progress(struct round *r)
{
    if (r->n_done == r->n || hvd_process_now_ms() < r->progress_at_ms)
        return;
    r->progress_at_ms += PROGRESS_EVERY_MS;
    (void)fprintf(stderr, "horovodrun: checked %zu of %zu hosts, waiting for", r->n_done, r->n);
    for (size_t i = 0, n = 0; i < r->n && n <= NAMES_SHOWN; i++) {
        if (r->probes[i].is_done)
            continue;
        (void)fprintf(stderr, "%s%s", n ? ", " : " ",
                      n < NAMES_SHOWN ? r->probes[i].host->name : "...");
        n++;
    }
    (void)fputc('\n', stderr);
}

static hvd_status_t run(struct round *r, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    while (st == HVD_OK && r->n_done < r->n) {
        st = start_due(r, err);
        if (st == HVD_OK)
            st = wait_some(r, err);
        if (st == HVD_OK)
            show_progress(r);
        if (st == HVD_OK && r->n_done < r->n && hvd_process_now_ms() > r->deadline_ms)
            for (size_t i = 0; i < r->n && st == HVD_OK; i++)
                if (!r->probes[i].is_done)
                    st = fail_unreachable(r, &r->probes[i], true, err);
    }
    return st;
}

static void stop(struct round *r)
{
    for (size_t i = 0; i < r->n; i++) {
        struct probe *probe = &r->probes[i];

        if (probe->pid) {
            (void)kill(probe->pid, SIGKILL);
            (void)waitpid(probe->pid, NULL, 0);
        }
        hvd_process_close(&probe->from);
        hvd_buf_fini(&probe->text);
    }
    hvd_free(r->probes);
    hvd_process_close(&r->null_fd);
}

hvd_status_t hvd_checks_run(const struct hvd_checks *checks, struct hvd_hosts *hosts,
                            struct hvd_err *err)
{
    int64_t now_ms = hvd_process_now_ms();
    struct round r = {.checks = checks,
                      .deadline_ms = now_ms + checks->timeout_s * 1000,
                      .progress_at_ms = now_ms + PROGRESS_EVERY_MS};
    hvd_status_t st;

    r.null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    r.probes = hvd_calloc(hosts->n + 1, sizeof(*r.probes));
    if (!r.probes) {
        hvd_process_close(&r.null_fd);
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the checks");
    }
    for (size_t i = 0; i < hosts->n; i++)
        if (!hosts->items[i].is_local) {
            r.probes[r.n] = (struct probe){.host = &hosts->items[i], .from = -1};
            hvd_buf_init(&r.probes[r.n++].text, TEXT_MAX);
        }
    st = run(&r, err);
    stop(&r);
    return st;
}
