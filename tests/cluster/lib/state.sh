# shellcheck shell=bash
# Where the cluster keeps what it makes, its addresses, and how to tell whether
# it runs. Needs steps.sh and process.sh.

# One cluster a machine: its link and its cgroups have fixed names too.
STATE=/var/lib/horovod-cluster

# The first half of every address: one /16 holds the link between host and
# node, the pods and the services.
NET=${HOROVOD_CLUSTER_NET:-10.197}
[[ $NET =~ ^[0-9]{1,3}\.[0-9]{1,3}$ ]] || die "HOROVOD_CLUSTER_NET must look like 10.197, not '$NET'"

# shellcheck disable=SC2034 # all of these are read by the files that source this one
{
	NODE_NAME=horovod-node
	HOST_LINK=horovod0
	HOST_IP=$NET.255.1
	NODE_IP=$NET.255.2
	PODS=$NET.0.0/20
	SERVICES=$NET.128.0/20
	API_SERVICE_IP=$NET.128.1
	DNS_IP=$NET.128.10
	API_URL=https://$NODE_IP:6443
	KUBECONFIG_FILE=$STATE/kubeconfig
	CONTAINERD_SOCKET=$STATE/containerd.sock
	CGROUP=horovod-cluster
	COMPONENTS=(etcd kube-apiserver kube-controller-manager kube-scheduler containerd kubelet kube-proxy coredns)
}

# cgroup_parents: the cgroup of ours in every mounted hierarchy (version 1 has
# one per controller, version 2 a single one).
cgroup_parents() {
	local device mount type rest
	# shellcheck disable=SC2034 # device and rest only take up the fields
	while read -r device mount type rest; do
		[[ $type == cgroup || $type == cgroup2 ]] && printf '%s\n' "$mount/$CGROUP"
	done </proc/self/mounts
}

# cluster_pids: every process of the cluster, its containers included. They are
# in our cgroups, whatever else happened to them.
cluster_pids() {
	local parent
	while IFS= read -r parent; do
		[[ -d $parent ]] || continue
		find "$parent" -name cgroup.procs -exec cat {} + 2>/dev/null || true
	done < <(cgroup_parents) | sort -un
}

# component_pids: "NAME PID" for every program of the node that runs, told by
# the name it was started by.
component_pids() {
	local pid argv name
	for pid in $(cluster_pids); do
		{ mapfile -d '' -t argv <"/proc/$pid/cmdline"; } 2>/dev/null || continue
		for name in "${COMPONENTS[@]}"; do
			[[ ${argv[0]:-} != */"$name" ]] || printf '%s %s\n' "$name" "$pid"
		done
	done
}

# node_is_ready BIN
node_is_ready() {
	[[ $("$1/kubectl" --kubeconfig="$KUBECONFIG_FILE" --request-timeout=2s get node "$NODE_NAME" \
		-o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' 2>/dev/null) == True ]]
}

# cluster_is_up: the node was started by `up`, every component runs, and the
# API server says that the node is ready.
cluster_is_up() {
	local running
	recorded_pid "$STATE/node.pid" >/dev/null && [[ -f $KUBECONFIG_FILE && -L $STATE/bin ]] || return 1
	running=$(component_pids | cut -d' ' -f1 | sort -u | wc -l)
	((running == ${#COMPONENTS[@]})) && node_is_ready "$STATE/bin"
}
