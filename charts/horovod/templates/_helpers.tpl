{{- define "horovod.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 45 | trimSuffix "-" -}}
{{- end -}}

{{/* The release's full name: what everything of the operator is named after, and the job unless job.name is set. */}}
{{- define "horovod.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 45 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "horovod.operator" -}}
{{- printf "%s-operator" (include "horovod.fullname" .) -}}
{{- end -}}

{{/* Cluster-wide objects carry the namespace too, so that two releases do not share them. */}}
{{- define "horovod.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "horovod.operator" .) -}}
{{- end -}}

{{/* What the roles of users are named after. */}}
{{- define "horovod.userRole" -}}
{{- printf "%s-%s-horovodjob" .Release.Namespace (include "horovod.fullname" .) -}}
{{- end -}}

{{- define "horovod.image" -}}
{{- $repository := .Values.image.repository -}}
{{- with .Values.image.registry -}}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) (trimPrefix "localhost/" $repository) -}}
{{- end -}}
{{- printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}

{{/* Of the operator's pod. With TLS the group of its process, unless another is named, reads the Secret. */}}
{{- define "horovod.podSecurityContext" -}}
{{- $context := deepCopy (default dict .Values.operator.podSecurityContext) -}}
{{- if and .Values.operator.metrics.tls.enabled $context.runAsGroup (not (hasKey $context "fsGroup")) -}}
{{- $_ := set $context "fsGroup" $context.runAsGroup -}}
{{- end -}}
{{- toYaml $context -}}
{{- end -}}

{{- define "horovod.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "horovod.operator" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Selectors never change between versions of the chart: no version, no chart label in here. */}}
{{- define "horovod.selector" -}}
app.kubernetes.io/name: {{ include "horovod.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "horovod.labels" -}}
app.kubernetes.io/name: {{ include "horovod.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* What all monitors say about how to read the metrics. */}}
{{- define "horovod.endpoint" -}}
port: http
path: /metrics
{{- if .Values.operator.metrics.tls.enabled }}
scheme: https
# The certificate names a Service or nothing, and pods are asked by address.
tlsConfig: {insecureSkipVerify: true}
{{- end }}
{{- end -}}
