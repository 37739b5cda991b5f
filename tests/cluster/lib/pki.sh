# shellcheck shell=bash
# Keys, certificates and kubeconfigs of a cluster, made with openssl. One
# authority signs everything; it lives as long as the cluster does.
# Needs steps.sh. Every function takes the directory of the keys first.

# new_key FILE: a P-256 key readable by its owner alone.
new_key() { (umask 077 && openssl ecparam -name prime256v1 -genkey -noout -out "$1"); }

# new_authority DIR: ca.key and ca.crt, and the key that signs the tokens of
# service accounts.
new_authority() {
	mkdir -p "$1"
	new_key "$1/ca.key"
	openssl req -x509 -new -key "$1/ca.key" -subj /CN=horovod-cluster -days 365 -out "$1/ca.crt" \
		-addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature
	new_key "$1/sa.key"
	openssl pkey -in "$1/sa.key" -pubout -out "$1/sa.pub"
}

# new_certificate DIR NAME SUBJECT [ALTERNATIVE_NAMES]: NAME.key and NAME.crt,
# for clients, and for servers when they are given names ("DNS:x,IP:y").
new_certificate() {
	local dir=$1 name=$2 subject=$3 names=${4:-} usage=clientAuth
	[[ -z $names ]] || usage=serverAuth,clientAuth
	new_key "$dir/$name.key"
	openssl req -new -key "$dir/$name.key" -subj "$subject" -out "$dir/$name.csr"
	{
		printf 'keyUsage=critical,digitalSignature\nextendedKeyUsage=%s\n' "$usage"
		[[ -z $names ]] || printf 'subjectAltName=%s\n' "$names"
	} >"$dir/$name.ext"
	openssl x509 -req -in "$dir/$name.csr" -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -CAcreateserial \
		-days 365 -extfile "$dir/$name.ext" -out "$dir/$name.crt" 2>/dev/null
	rm "$dir/$name.csr" "$dir/$name.ext"
}

# write_kubeconfig DIR NAME SERVER FILE: everything inside, so that the file
# can be copied.
write_kubeconfig() {
	local dir=$1 name=$2 server=$3 file=$4
	(
		umask 077
		cat >"$file.new" <<-YAML
			apiVersion: v1
			kind: Config
			clusters:
			- name: horovod-cluster
			  cluster:
			    server: $server
			    certificate-authority-data: $(base64 -w0 "$dir/ca.crt")
			users:
			- name: $name
			  user:
			    client-certificate-data: $(base64 -w0 "$dir/$name.crt")
			    client-key-data: $(base64 -w0 "$dir/$name.key")
			contexts:
			- name: horovod-cluster
			  context: {cluster: horovod-cluster, user: $name}
			current-context: horovod-cluster
		YAML
	)
	mv "$file.new" "$file"
}
