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
# the time after; on failure prints the log's end and the file's name, and returns the status. A
# function runs in a subshell that the first failing command ends (`f || ...` would go on after it).
step() {
    local text=$1 begin=$SECONDS log status
    shift
    log=$(mktemp "${TMPDIR:-/tmp}/horovod-step.XXXXXX")
    say "$text ..."
    set +e
    (set -e && "$@") >"$log" 2>&1
    status=$?
    set -e
    if [ "$status" -ne 0 ]; then
        tail -n 40 "$log" >&2
        say "$text: FAILED (exit $status) after $((SECONDS - begin)) s; whole log: $log"
        return "$status"
    fi
    rm -f "$log"
    say "$text: done in $((SECONDS - begin)) s"
}

# stage TEXT FUNCTION ARGS...: as step, in this shell and with the output as it comes, so that what the
# function sets stays set, and a failing command in it ends the script.
stage() {
    local text=$1 started
    shift
    started=$(now_ms)
    say "$text ..."
    "$@"
    say "$text: done in $(seconds_since "$started") s"
}

# now_ms: milliseconds since the epoch; $EPOCHREALTIME may use a decimal comma.
now_ms() {
    local t=${EPOCHREALTIME/,/.}
    printf '%s' $((${t%.*} * 1000 + 10#${t#*.} / 1000))
}

# seconds_since MS: the time passed since a now_ms, as "1.2".
seconds_since() {
    local d=$(($(now_ms) - $1))
    printf '%d.%d' $((d / 1000)) $((d % 1000 / 100))
}

# wait_until SECONDS WHAT COMMAND...: polls a command until it succeeds; says what was awaited and
# returns 1 when the time is over.
wait_until() {
    local limit=$1 what=$2 end
    shift 2
    end=$(($(now_ms) + limit * 1000))
    until "$@"; do
        if (($(now_ms) > end)); then
            say "error: $what: not within $limit s"
            return 1
        fi
        sleep 0.1
    done
}

# as_root COMMAND...: as it is for root, through sudo for others.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}
