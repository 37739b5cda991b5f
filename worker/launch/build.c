/*
 * What --check-build says. Controllers and operations are those of the library; a framework is
 * there when the python3 of the user finds both it and our package for it. Nothing of them is
 * imported, which would take seconds.
 */
#include "worker/launch/build.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/launch/process.h"

#define ANSWER_MAX ((size_t)4096)

/* Prints a word for each framework that can be used. */
static char search[] = "import importlib.util as u\n"
                       "def has(name):\n"
                       "    try:\n"
                       "        return u.find_spec(name) is not None\n"
                       "    except Exception:\n"
                       "        return False\n"
                       "for name, there in (('tensorflow', 'tensorflow'), ('torch', 'torch'), "
                       "('mxnet', 'mxnet')):\n"
                       "    if has(there) and has('horovod.' + name):\n"
                       "        print('found:' + name)\n";

/* Asks the python3 of PATH; without one the answer stays empty. */
static void ask_python(struct hvd_buf *answer)
{
    char *argv[] = {"python3", "-c", search, NULL};
    struct hvd_spawn spawn = {.argv = argv, .fds = {-1, -1, -1}, .death_signal = SIGKILL};
    int ends[2] = {-1, -1};
    char chunk[512];
    pid_t pid = 0;
    ssize_t n;

    if (hvd_process_pipe(ends, NULL) < 0)
        return;
    spawn.fds[1] = ends[1];
    if (hvd_process_spawn(&spawn, &pid, NULL) < 0)
        pid = 0;
    hvd_process_close(&ends[1]);
    while (pid && ((n = read(ends[0], chunk, sizeof(chunk))) > 0 || (n < 0 && errno == EINTR)))
        if (n > 0)
            (void)!hvd_buf_add(answer, chunk, (size_t)n);
    hvd_process_close(&ends[0]);
    if (pid)
        (void)waitpid(pid, NULL, 0);
}

static char mark(const struct hvd_buf *answer, const char *word)
{
    return answer->data && strstr(answer->data, word) ? 'X' : ' ';
}

hvd_status_t hvd_build_describe(struct hvd_buf *out)
{
    struct hvd_buf answer = {0};
    hvd_status_t st;

    hvd_buf_init(&answer, ANSWER_MAX);
    ask_python(&answer);
    st = hvd_buf_printf(out,
                        "Horovod v" HVD_VERSION ":\n"
                        "\n"
                        "Available Frameworks:\n"
                        "    [%c] TensorFlow\n"
                        "    [%c] PyTorch\n"
                        "    [%c] MXNet\n"
                        "\n"
                        "Available Controllers:\n"
                        "    [X] MPI\n"
                        "    [ ] Gloo\n"
                        "\n"
                        "Available Tensor Operations:\n"
                        "    [ ] NCCL\n"
                        "    [ ] DDL\n"
                        "    [ ] CCL\n"
                        "    [X] MPI\n"
                        "    [ ] Gloo\n",
                        mark(&answer, "found:tensorflow"), mark(&answer, "found:torch"),
                        mark(&answer, "found:mxnet"));
    hvd_buf_fini(&answer);
    return st;
}
