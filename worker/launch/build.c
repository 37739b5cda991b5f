/*
 * The output of --check-build. The library determines controllers and operations. A framework
 * counts as available if the user's python3 finds both the framework and our package for it. That
 * is the python3 beside horovodrun, as in an environment that need not be activated, or else that
 * of PATH. The search imports none of them, which would take seconds.
 */
#include "worker/launch/build.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/launch/process.h"

#define ANSWER_MAX ((size_t)4096)

/* Prints a word for each available framework, and for NCCL: that of PyTorch's wheels, or one that
 * the loader finds. */
static char search[] = "import ctypes\n"
                       "import importlib.util as u\n"
                       "import os\n"
                       "def has(name):\n"
                       "    try:\n"
                       "        return u.find_spec(name) is not None\n"
                       "    except Exception:\n"
                       "        return False\n"
                       "for name, there in (('tensorflow', 'tensorflow'), ('torch', 'torch'), "
                       "('mxnet', 'mxnet')):\n"
                       "    if has(there) and has('horovod.' + name):\n"
                       "        print('found:' + name)\n"
                       "def has_nccl():\n"
                       "    try:\n"
                       "        folders = u.find_spec('nvidia.nccl').submodule_search_locations\n"
                       "        if any(os.path.exists(os.path.join(f, 'lib', 'libnccl.so.2'))\n"
                       "               for f in folders):\n"
                       "            return True\n"
                       "    except Exception:\n"
                       "        pass\n"
                       "    try:\n"
                       "        return bool(ctypes.CDLL('libnccl.so.2'))\n"
                       "    except OSError:\n"
                       "        return False\n"
                       "if has_nccl():\n"
                       "    print('found:nccl')\n";

/* Writes the path of a program beside this one; false when it does not exist, or cannot be run. */
static bool find_beside(const char *name, char path[PATH_MAX])
{
    char self[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (n <= 0)
        return false;
    self[n] = '\0';
    char *slash = strrchr(self, '/');
    if (!slash)
        return false;
    *slash = '\0';
    const int length = snprintf(path, PATH_MAX, "%s/%s", self, name);
    return length > 0 && length < PATH_MAX && access(path, X_OK) == 0;
}

/* Asks the python3 beside this program, or else that of PATH. The answer stays empty without
 * one. */
static void ask_python(struct hvd_buf *answer)
{
    char beside[PATH_MAX];
    char *python = find_beside("python3", beside) ? beside : "python3";
    char *argv[] = {python, "-c", search, NULL};
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
                        "    [%c] NCCL\n"
                        "    [ ] DDL\n"
                        "    [ ] CCL\n"
                        "    [X] MPI\n"
                        "    [ ] Gloo\n",
                        mark(&answer, "found:tensorflow"), mark(&answer, "found:torch"),
                        mark(&answer, "found:mxnet"), mark(&answer, "found:nccl"));
    hvd_buf_fini(&answer);
    return st;
}
