/*
 * The worker's sshd: command line and probes. sshd gives a session a fresh environment, but ranks
 * need the container's: the image's PATH, the template's env and envFrom. Only the container itself
 * knows it. So its start writes it, quoted by the shell that will read it (export -p), into a
 * volume in memory that only its user can read; sshd begins every session with that file. The
 * shell's texts are constants: they contain nothing from outside. No value appears in a command
 * line, which every process of the node may see. Pure.
 *
 * LogLevel FATAL: at ERROR and above sshd writes a line for every TCP probe.
 */
#include "operator/core/launch/sshd.h"

#include <string.h>

#define ENVIRONMENT HVD_RUN_DIR "/environment"

/* Omits the variables that a shell sets for itself. The umask applies to the file only. */
#define START                                                                                      \
    "unset PWD OLDPWD SHLVL; (umask 077 && export -p >" ENVIRONMENT                                \
    ") && exec /usr/sbin/sshd \"$@\""

/* The user's login shell runs this, whichever it is. It runs the command given to ssh as without
 * us; bash reads its .bashrc only in the outermost shell (SHLVL). */
#define SESSION                                                                                    \
    "exec /bin/sh -c 'set -- \"$SHELL\" \"$SSH_ORIGINAL_COMMAND\"; . " ENVIRONMENT                 \
    "; unset SSH_ORIGINAL_COMMAND SHLVL; [ -n \"$2\" ] || exec \"$1\" -l; "                        \
    "exec \"$1\" -c \"$2\"'"

void hvd_sshd_command(struct hvd_jb *jb, cJSON *container, int port)
{
    static const char start[] = START;
    static const char *const before[] = {"/bin/sh", "-c", start, "sshd", "-De", "-f", "/dev/null"};
    static const char *const options[] = {"AuthorizedKeysFile=/etc/horovod/ssh/id.pub",
                                          "StrictModes=no",
                                          "UsePAM=no",
                                          "PidFile=none",
                                          "PasswordAuthentication=no",
                                          "LogLevel=FATAL",
                                          "ForceCommand=" SESSION};
    cJSON *command = hvd_jb_array(jb, container, "command");

    for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++)
        hvd_jb_str(jb, command, NULL, before[i]);
    hvd_jb_str(jb, command, NULL, "-p");
    hvd_jb_fmt(jb, command, NULL, "%d", port);
    hvd_jb_str(jb, command, NULL, "-h");
    hvd_jb_str(jb, command, NULL, "/etc/horovod/ssh/id");
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        hvd_jb_str(jb, command, NULL, "-o");
        hvd_jb_str(jb, command, NULL, options[i]);
    }
}

static cJSON *tcp_probe(struct hvd_jb *jb, cJSON *container, const char *name, int port)
{
    cJSON *probe;

    if (!container || hvd_json_get(container, name))
        return NULL;
    probe = hvd_jb_object(jb, container, name);
    hvd_jb_int(jb, hvd_jb_object(jb, probe, "tcpSocket"), "port", port);
    return probe;
}

void hvd_sshd_probes(struct hvd_jb *jb, cJSON *container, int port, int startup_s)
{
    cJSON *ports = hvd_jb_ensure_array(jb, container, "ports");
    cJSON *entry = NULL;
    cJSON *probe;
    bool has_port = false, has_name = false;

    cJSON_ArrayForEach(entry, ports)
    {
        const char *name = hvd_json_str(entry, "name");

        has_port = has_port || hvd_json_int(entry, "containerPort", 0) == port;
        has_name = has_name || (name && strcmp(name, "ssh") == 0);
    }
    if (ports && !has_port) {
        entry = hvd_jb_object(jb, ports, NULL);
        if (!has_name) /* the template may use the name for another port; names are unique */
            hvd_jb_str(jb, entry, "name", "ssh");
        hvd_jb_int(jb, entry, "containerPort", port);
        hvd_jb_str(jb, entry, "protocol", "TCP");
    }
    probe = tcp_probe(jb, container, "startupProbe", port);
    hvd_jb_int(jb, probe, "periodSeconds", 1);
    hvd_jb_int(jb, probe, "failureThreshold", startup_s);
    probe = tcp_probe(jb, container, "readinessProbe", port);
    hvd_jb_int(jb, probe, "periodSeconds", 10);
}
