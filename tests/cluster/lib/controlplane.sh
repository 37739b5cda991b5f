# shellcheck shell=bash
# The command lines of etcd, kube-apiserver and kube-controller-manager, the
# same for the whole cluster (up) and for an API server alone (apiserver).
# Each function prints one argument a line. Needs pki.sh.

# write_audit_policy FILE: who did what to which object, without the bodies;
# probes of health are left out.
write_audit_policy() {
	cat >"$1" <<-'YAML'
		apiVersion: audit.k8s.io/v1
		kind: Policy
		omitStages: [RequestReceived]
		rules:
		- level: None
		  nonResourceURLs: ["/readyz*", "/livez*", "/healthz*"]
		- level: Metadata
	YAML
}

# etcd_command BIN DATA CLIENT_PORT PEER_PORT: fsync is off, because the data
# need not survive a power cut and a slow disk would slow everything down.
etcd_command() {
	printf '%s\n' "$1/etcd" --name=node "--data-dir=$2" --unsafe-no-fsync --log-level=warn \
		"--listen-client-urls=http://127.0.0.1:$3" "--advertise-client-urls=http://127.0.0.1:$3" \
		"--listen-peer-urls=http://127.0.0.1:$4" "--initial-advertise-peer-urls=http://127.0.0.1:$4" \
		"--initial-cluster=node=http://127.0.0.1:$4"
}

# apiserver_command BIN PKI AUDIT_DIR ETCD_PORT ADDRESS PORT SERVICE_RANGE:
# role-based access and Pod Security are on; anonymous requests may ask for
# health alone, as the default roles say.
apiserver_command() {
	local bin=$1 pki=$2 audit=$3
	printf '%s\n' "$bin/kube-apiserver" "--etcd-servers=http://127.0.0.1:$4" \
		"--bind-address=$5" "--advertise-address=$5" "--secure-port=$6" "--service-cluster-ip-range=$7" \
		"--tls-cert-file=$pki/apiserver.crt" "--tls-private-key-file=$pki/apiserver.key" \
		"--client-ca-file=$pki/ca.crt" \
		"--requestheader-client-ca-file=$pki/ca.crt" --requestheader-allowed-names=front-proxy-client \
		--requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
		--requestheader-extra-headers-prefix=X-Remote-Extra- --authorization-mode=Node,RBAC \
		--enable-admission-plugins=NodeRestriction,PodSecurity --allow-privileged=true \
		--service-account-issuer=https://kubernetes.default.svc.cluster.local \
		"--service-account-key-file=$pki/sa.pub" "--service-account-signing-key-file=$pki/sa.key" \
		"--audit-policy-file=$audit/audit-policy.yaml" "--audit-log-path=$audit/audit.log" \
		--audit-log-maxsize=200 --audit-log-maxbackup=2 --profiling=false
}

# controller_manager_command BIN PKI KUBECONFIG ADDRESS PORT FLAGS...
controller_manager_command() {
	printf '%s\n' "$1/kube-controller-manager" "--kubeconfig=$3" "--authentication-kubeconfig=$3" \
		"--authorization-kubeconfig=$3" "--bind-address=$4" "--secure-port=$5" --leader-elect=false \
		"--root-ca-file=$2/ca.crt" "--service-account-private-key-file=$2/sa.key" \
		"--cluster-signing-cert-file=$2/ca.crt" "--cluster-signing-key-file=$2/ca.key" \
		--use-service-account-credentials=true --profiling=false "${@:6}"
}

# api_is_ready BIN KUBECONFIG
api_is_ready() {
	"$1/kubectl" --kubeconfig="$2" --request-timeout=2s get --raw=/readyz >/dev/null 2>&1
}
