# shellcheck shell=bash
# Messages and timing, shared by the programs in tests/cluster.
# Everything that is said goes to stderr, so that the one line of result
# (a path) stands alone on stdout.

SAY_NAME=${SAY_NAME:-cluster}

# say TEXT...: one line of progress.
say() { printf '%s: %s\n' "$SAY_NAME" "$*" >&2; }

# die TEXT...: an error that ends the program.
die() {
	printf '%s: error: %s\n' "$SAY_NAME" "$*" >&2
	exit 1
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

# step TEXT FUNCTION ARGS...: says what is done, does it, says how long it took.
step() {
	local text=$1 started
	shift
	started=$(now_ms)
	say "$text ..."
	"$@"
	say "$text: $(seconds_since "$started") s"
}

# wait_until SECONDS WHAT COMMAND...: polls a command until it succeeds; fails
# with a message that names WHAT when the time is over.
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
