# shellcheck shell=bash
# Where the built programs are, and what identifies them. Needs steps.sh and
# CLUSTER_DIR (the directory tests/cluster).

KUBERNETES_VERSION=v1.34.4
HELM_VERSION=v3.19.4
# shellcheck disable=SC2034 # read by the programs that source this file
PAUSE_IMAGE=localhost/horovod-pause:1

CACHE_DIR=${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/horovod
BINARIES_ROOT=$CACHE_DIR/cluster

# shellcheck disable=SC2034 # likewise
PROGRAMS=(etcd kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl)

# link_flags: what the linker is told: no symbols, and the versions that the
# programs report.
link_flags() {
	local version=${KUBERNETES_VERSION#v} package
	local major=${version%%.*} minor=${version#*.}
	minor=${minor%%.*}
	printf -- '-s -w'
	for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
		printf -- ' -X %s.gitVersion=%s -X %s.gitMajor=%s -X %s.gitMinor=%s' \
			"$package" "$KUBERNETES_VERSION" "$package" "$major" "$package" "$minor"
	done
	printf -- ' -X helm.sh/helm/v3/internal/version.version=%s' "$HELM_VERSION"
	for package in chartutil lint/rules; do
		printf -- ' -X helm.sh/helm/v3/pkg/%s.k8sVersionMajor=%s -X helm.sh/helm/v3/pkg/%s.k8sVersionMinor=%s' \
			"$package" "$major" "$package" "$minor"
	done
}

# binaries_dir GO: the directory of the programs as this Go builds them from
# the sources as they are now.
binaries_dir() {
	local key
	key=$({
		"$1" env GOVERSION GOOS GOARCH
		link_flags
		cat "$CLUSTER_DIR"/kube/go.mod "$CLUSTER_DIR"/kube/go.sum \
			"$CLUSTER_DIR"/kube/main.go "$CLUSTER_DIR"/kube/coredns/main.go \
			"$CLUSTER_DIR"/pause/pause.c
	} | sha256sum)
	printf '%s/%s\n' "$BINARIES_ROOT" "${key:0:16}"
}

# need_programs NAME[=PACKAGE]...: fails naming every missing program at once,
# with the Debian packages that bring them.
need_programs() {
	local item missing=() packages=()
	for item in "$@"; do
		command -v "${item%%=*}" >/dev/null && continue
		missing+=("${item%%=*}")
		packages+=("${item#*=}")
	done
	((${#missing[@]} == 0)) ||
		die "missing: ${missing[*]}; on Debian: apt-get install ${packages[*]}"
}
