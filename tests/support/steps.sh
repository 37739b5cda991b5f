# Sourced by the scripts: steps that say what they do and how long they took.
# shellcheck shell=bash

# say TEXT...: one line of progress, with the seconds since the script started.
say() {
    printf '%s [%3d s] %s\n' "${STEP_PREFIX:-==>}" "$SECONDS" "$*" >&2
}

# die TEXT...: the reason on standard error, exit 1.
die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# step TEXT COMMAND...: runs the command with its output in a log file; prints the text before and
# the time after; on failure prints the log's end and the file's name, and returns the status.
step() {
    local text=$1 begin=$SECONDS log status=0
    shift
    log=$(mktemp "${TMPDIR:-/tmp}/horovod-step.XXXXXX")
    say "$text ..."
    "$@" >"$log" 2>&1 || status=$?
    if [ "$status" -ne 0 ]; then
        tail -n 40 "$log" >&2
        say "$text: FAILED (exit $status) after $((SECONDS - begin)) s; whole log: $log"
        return "$status"
    fi
    rm -f "$log"
    say "$text: done in $((SECONDS - begin)) s"
}

# as_root COMMAND...: as it is for root, through sudo for others.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}
