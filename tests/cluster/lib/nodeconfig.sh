# shellcheck shell=bash
# The files that the programs of the node read. Needs state.sh and pki.sh.

# lacks_sys_resource: without that capability nobody may lower an
# oom_score_adj, and containers would fail to start.
lacks_sys_resource() {
	local bits
	bits=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
	(((0x$bits >> 24 & 1) == 0))
}

# can_overlay DIR: some hosts are containers whose files cannot be layered.
can_overlay() {
	local dir=$1/overlay-test status=1
	mkdir -p "$dir"/{lower,upper,work,merged}
	if unshare --mount mount -t overlay overlay \
		-o "lowerdir=$dir/lower,upperdir=$dir/upper,workdir=$dir/work" "$dir/merged" 2>/dev/null; then
		status=0
	fi
	rm -rf "$dir"
	return $status
}

# write_containerd_config: the state directory lies on the node's private /run,
# so that no mount of a container is ever seen outside the node.
write_containerd_config() {
	local restrict=false snapshotter=overlayfs
	! lacks_sys_resource || restrict=true
	can_overlay "$STATE" || snapshotter=native
	cat >"$STATE/etc/containerd.toml" <<-TOML
		version = 2
		root = "$STATE/containerd"
		state = "/run/containerd-state"
		disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
		  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
		  "io.containerd.internal.v1.opt"]
		[grpc]
		  address = "$CONTAINERD_SOCKET"
		[plugins."io.containerd.grpc.v1.cri"]
		  sandbox_image = "$PAUSE_IMAGE"
		  restrict_oom_score_adj = $restrict
		  [plugins."io.containerd.grpc.v1.cri".cni]
		    bin_dir = "/usr/lib/cni"
		    conf_dir = "$STATE/etc/cni"
		  [plugins."io.containerd.grpc.v1.cri".containerd]
		    snapshotter = "$snapshotter"
		    default_runtime_name = "runc"
		    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
		      runtime_type = "io.containerd.runc.v2"
	TOML
}

write_cni_config() {
	mkdir -p "$STATE/etc/cni"
	cat >"$STATE/etc/cni/10-horovod.conflist" <<-JSON
		{
		  "cniVersion": "1.0.0",
		  "name": "horovod",
		  "plugins": [
		    {
		      "type": "bridge", "bridge": "cni0", "isDefaultGateway": true, "hairpinMode": true,
		      "ipam": {
		        "type": "host-local", "dataDir": "/run/cni-addresses",
		        "ranges": [[{"subnet": "$PODS"}]]
		      }
		    },
		    {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true}
		  ]
		}
	JSON
}

# write_kubelet_config: images cannot be fetched again, so none is ever
# collected; a disk that others fill must not evict pods before it is full.
write_kubelet_config() {
	cat >"$STATE/etc/kubelet.yaml" <<-YAML
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		address: $NODE_IP
		healthzBindAddress: 127.0.0.1
		authentication:
		  anonymous: {enabled: false}
		  webhook: {enabled: true}
		  x509: {clientCAFile: $STATE/pki/ca.crt}
		authorization: {mode: Webhook}
		tlsCertFile: $STATE/pki/kubelet.crt
		tlsPrivateKeyFile: $STATE/pki/kubelet.key
		containerRuntimeEndpoint: unix://$CONTAINERD_SOCKET
		cgroupDriver: cgroupfs
		cgroupRoot: /$CGROUP
		failCgroupV1: false
		failSwapOn: false
		clusterDNS: [$DNS_IP]
		clusterDomain: cluster.local
		resolvConf: ""
		imageGCHighThresholdPercent: 100
		imageGCLowThresholdPercent: 99
		evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
		volumePluginDir: /var/lib/kubelet/volume-plugins
	YAML
}

# write_proxy_config: sizes of the connection table belong to the host and are
# left alone.
write_proxy_config() {
	cat >"$STATE/etc/kube-proxy.yaml" <<-YAML
		apiVersion: kubeproxy.config.k8s.io/v1alpha1
		kind: KubeProxyConfiguration
		mode: iptables
		clusterCIDR: $PODS
		hostnameOverride: $NODE_NAME
		healthzBindAddress: 127.0.0.1:10256
		metricsBindAddress: 127.0.0.1:10249
		clientConnection: {kubeconfig: $STATE/etc/kube-proxy.kubeconfig}
		conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
	YAML
}

# write_dns_config: a name outside the cluster does not exist, and that is said
# at once: there is no resolver behind this one.
write_dns_config() {
	cat >"$STATE/etc/Corefile" <<-COREFILE
		cluster.local:53 in-addr.arpa:53 ip6.arpa:53 {
		    bind $NODE_IP 127.0.0.1
		    errors
		    health 127.0.0.1:8081
		    ready 127.0.0.1:8181
		    kubernetes {
		        kubeconfig $STATE/etc/coredns.kubeconfig
		        pods insecure
		        ttl 5
		    }
		    cache 30
		    loadbalance
		}
		.:53 {
		    bind $NODE_IP 127.0.0.1
		    errors
		    template ANY ANY . {
		        rcode NXDOMAIN
		    }
		}
	COREFILE
}

# write_bootstrap_objects FILE: what every cluster has and nobody else makes:
# the name service as a Service, and rights for it and for the API server at
# the kubelet.
write_bootstrap_objects() {
	cat >"$1" <<-YAML
		apiVersion: rbac.authorization.k8s.io/v1
		kind: ClusterRole
		metadata: {name: "system:coredns"}
		rules:
		- {apiGroups: [""], resources: [endpoints, services, pods, namespaces], verbs: [list, watch]}
		- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
		---
		apiVersion: rbac.authorization.k8s.io/v1
		kind: ClusterRoleBinding
		metadata: {name: "system:coredns"}
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:coredns"}
		subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:coredns"}]
		---
		apiVersion: rbac.authorization.k8s.io/v1
		kind: ClusterRoleBinding
		metadata: {name: "system:kube-apiserver-to-kubelet"}
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:kubelet-api-admin"}
		subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: kube-apiserver-kubelet-client}]
		---
		apiVersion: v1
		kind: Service
		metadata: {name: kube-dns, namespace: kube-system, labels: {k8s-app: kube-dns}}
		spec:
		  clusterIP: $DNS_IP
		  ports:
		  - {name: dns, port: 53, protocol: UDP}
		  - {name: dns-tcp, port: 53, protocol: TCP}
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata:
		  name: kube-dns-node
		  namespace: kube-system
		  labels: {kubernetes.io/service-name: kube-dns}
		addressType: IPv4
		endpoints: [{addresses: [$NODE_IP], conditions: {ready: true}}]
		ports:
		- {name: dns, port: 53, protocol: UDP}
		- {name: dns-tcp, port: 53, protocol: TCP}
	YAML
}

# write_client NAME SUBJECT FILE: a certificate and the kubeconfig around it.
write_client() {
	new_certificate "$STATE/pki" "$1" "$2"
	write_kubeconfig "$STATE/pki" "$1" "$API_URL" "$3"
}

write_keys() {
	local pki=$STATE/pki
	new_authority "$pki"
	new_certificate "$pki" apiserver /CN=kube-apiserver "DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local,IP:127.0.0.1,IP:$NODE_IP,IP:$API_SERVICE_IP"
	new_certificate "$pki" apiserver-kubelet /CN=kube-apiserver-kubelet-client
	new_certificate "$pki" kubelet "/O=system:nodes/CN=system:node:$NODE_NAME" "DNS:$NODE_NAME,IP:$NODE_IP"
	write_kubeconfig "$pki" kubelet "$API_URL" "$STATE/etc/kubelet.kubeconfig"
	write_client controller-manager /CN=system:kube-controller-manager "$STATE/etc/controller-manager.kubeconfig"
	write_client scheduler /CN=system:kube-scheduler "$STATE/etc/scheduler.kubeconfig"
	write_client kube-proxy /CN=system:kube-proxy "$STATE/etc/kube-proxy.kubeconfig"
	write_client coredns /CN=system:coredns "$STATE/etc/coredns.kubeconfig"
	write_client admin /O=system:masters/CN=admin "$KUBECONFIG_FILE"
}

write_node_files() {
	mkdir -p "$STATE"/{programs,etc,logs,audit,containerd,kubelet,var-log}
	mkdir -m 0700 "$STATE/etcd" "$STATE/pki"
	write_keys
	write_audit_policy "$STATE/audit/audit-policy.yaml"
	write_containerd_config
	write_cni_config
	write_kubelet_config
	write_proxy_config
	write_dns_config
	write_bootstrap_objects "$STATE/etc/bootstrap.yaml"
	printf '127.0.0.1 localhost\n::1 localhost\n%s %s\n' "$NODE_IP" "$NODE_NAME" >"$STATE/etc/hosts"
}
