# shellcheck shell=bash
# Images into the node's containerd. Needs steps.sh, state.sh.

cluster_ctr() { ctr --address "$CONTAINERD_SOCKET" --namespace k8s.io "$@"; }

# load_archive FILE: a docker-archive (or OCI archive); "-" is stdin.
load_archive() {
	local names name
	names=$(cluster_ctr images import "$1" | sed -n 's/^unpacking \([^ ]*\) .*/\1/p')
	[[ -n $names ]] || die "$1 holds no image with a name"
	for name in $names; do
		wait_until 10 "containerd to show $name to the kubelet" is_known "$name"
		say "loaded $name"
	done
}

# is_known NAME: the kubelet's side of containerd marks what it has taken notice of.
is_known() { cluster_ctr images list "name==$1" | grep -q 'io.cri-containerd.image=managed'; }
