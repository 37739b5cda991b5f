# shellcheck shell=bash
# Removes what a cluster leaves: after `down`, and before `up` starts over the
# remains of a run that was killed. Needs steps.sh, process.sh and state.sh.

# end_processes: killing the node's first process ends all others; whatever is
# still in our cgroups (its record lost, for instance) is killed by them.
end_processes() {
	local pid
	kill_recorded "$STATE/node.pid"
	for pid in $(cluster_pids); do
		kill -KILL "$pid" 2>/dev/null || true
	done
	wait_until 20 "processes of the cluster to end ($(cluster_pids | tr '\n' ' '))" no_processes_left
}

no_processes_left() { [[ -z $(cluster_pids) ]]; }

remove_cgroup() { [[ ! -d $1 ]] || find "$1" -depth -type d -exec rmdir {} + 2>/dev/null; }

remove_cgroups() {
	local parent
	while IFS= read -r parent; do
		wait_until 10 "cgroup $parent to be removed" remove_cgroup "$parent"
	done < <(cgroup_parents)
}

# remove_link: the host's end of the link goes with the node's network, which
# the kernel takes down in the background; its routes go with it.
remove_link() { ip link delete "$HOST_LINK" 2>/dev/null || true; }

# remove_state: only a directory that says it is ours.
remove_state() {
	[[ -d $STATE ]] || return 0
	[[ -f $STATE/horovod-cluster || -z $(ls -A "$STATE") ]] || die "$STATE was not made by tests/cluster/up; not removing it"
	rm -rf --one-file-system "$STATE"
}

remove_cluster() {
	end_processes
	remove_cgroups
	remove_link
	remove_state
}

# is_anything_left: for `down`, to stay silent when there is nothing to do.
is_anything_left() {
	[[ -d $STATE || -n $(cluster_pids) || -e /sys/class/net/$HOST_LINK ]]
}
