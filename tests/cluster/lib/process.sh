# shellcheck shell=bash
# Processes that outlive the program that starts them, recorded as a file
# "PID STARTTIME" each, so that a recycled pid is never taken for ours.
# Needs steps.sh.

# start_time PID: when the process started, in clock ticks since boot; empty
# when there is no such process. The name in field 2 may hold spaces.
start_time() {
	local stat
	{ stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 0
	stat=${stat##*) }
	# shellcheck disable=SC2086 # split into fields
	set -- $stat
	[[ $1 == Z ]] || printf '%s' "${20}"
}

# record_process FILE PID: writes the record; fails when the process is gone.
record_process() {
	local started
	started=$(start_time "$2")
	[[ -n $started ]] || return 1
	printf '%s %s\n' "$2" "$started" >"$1"
}

# recorded_pid FILE: the pid of a recorded process that still runs.
recorded_pid() {
	local pid started
	[[ -f $1 ]] && read -r pid started <"$1" || return 1
	[[ -n $started && $(start_time "$pid") == "$started" ]] || return 1
	printf '%s' "$pid"
}

# start_process PIDFILE LOG COMMAND...: in a session of its own, without our
# standard files and locks.
start_process() {
	local pidfile=$1 log=$2
	shift 2
	setsid "$@" </dev/null >>"$log" 2>&1 9>&- &
	record_process "$pidfile" $! || die "${1##*/} ended at once: $(tail -n 3 "$log")"
}

# kill_recorded FILE: ends a recorded process at once and waits until it is gone.
kill_recorded() {
	local pid
	if pid=$(recorded_pid "$1"); then
		kill -KILL "$pid" 2>/dev/null || true
		wait_until 10 "process $pid to end" process_is_gone "$1"
	fi
	rm -f "$1"
}

process_is_gone() { ! recorded_pid "$1" >/dev/null; }
