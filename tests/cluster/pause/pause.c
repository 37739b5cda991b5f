/*
 * pause: the process that holds a pod's namespaces open.
 * It sleeps until it is told to stop, and reaps the children that a pod with a
 * shared process namespace leaves to it. Runs as PID 1 of a pod without any
 * library or file beside it, so it is linked statically.
 */
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static void stop(int signal_number)
{
    (void)signal_number;
    _exit(0);
}

static void reap(int signal_number)
{
    (void)signal_number;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

int main(void)
{
    struct sigaction on_stop = {.sa_handler = stop};
    struct sigaction on_child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};

    if (sigaction(SIGTERM, &on_stop, NULL) != 0 || sigaction(SIGINT, &on_stop, NULL) != 0 ||
        sigaction(SIGCHLD, &on_child, NULL) != 0) {
        return 1;
    }
    for (;;) {
        pause();
    }
}
