{{/* Environment as a pod has it, from a list (as in a pod) or a map NAME: value. */}}
{{- define "horovod.env" -}}
{{- if kindIs "map" . -}}
{{- range $name, $value := . }}
- name: {{ $name | quote }}
  value: {{ $value | toString | quote }}
{{- end -}}
{{- else -}}
{{- range . }}
- {{ toJson . }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "horovod.job.name" -}}
{{- default (include "horovod.fullname" .) .Values.job.name -}}
{{- end -}}

{{- define "horovod.job.image" -}}
{{- default (printf "localhost/horovod-worker:%s" .Chart.AppVersion) .Values.job.image -}}
{{- end -}}

{{/* "true" when a value is set that the short form of a HorovodJob cannot say. */}}
{{- define "horovod.job.needsTemplates" -}}
{{- $job := .Values.job -}}
{{- if or $job.master.args $job.master.env $job.master.resources $job.worker.env $job.imagePullPolicy $job.imagePullSecrets
          $job.hostNetwork $job.serviceAccountName $job.nodeSelector $job.tolerations $job.affinity $job.priorityClassName
          $job.volumes $job.volumeMounts -}}
true
{{- end -}}
{{- end -}}

{{/* What the values' schema cannot say. */}}
{{- define "horovod.job.check" -}}
{{- $job := .Values.job -}}
{{- if and $job.master.args $job.command -}}
{{- fail "job.command and job.master.args are both set: job.command is what horovodrun starts once per slot, job.master.args is the master's own command line instead; set one of them" -}}
{{- end -}}
{{- if not (or $job.master.args $job.command) -}}
{{- fail "job.enabled is true but there is nothing to run: set job.command (for example [python, train.py]) or job.master.args" -}}
{{- end -}}
{{- if and $job.args (not $job.command) -}}
{{- fail "job.args without job.command: job.args are the words after job.command" -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]{0,43}[a-z0-9])?$" (include "horovod.job.name" .)) -}}
{{- fail (printf "the job's name %q is not allowed: at most 45 lower-case letters, digits and '-', starting with a letter and not ending with '-'; set job.name" (include "horovod.job.name" .)) -}}
{{- end -}}
{{- end -}}

{{/* Ranks of the whole job: slots of a worker (a number, or its GPUs, or 1) times workers. */}}
{{- define "horovod.job.ranks" -}}
{{- $job := .Values.job -}}
{{- $slots := $job.slotsPerWorker -}}
{{- if eq (toString $slots) "auto" -}}
{{- $slots = 0 -}}
{{- range $resource, $amount := (($job.resources).limits) -}}
{{- if hasSuffix "/gpu" $resource -}}{{- $slots = add $slots (int64 $amount) -}}{{- end -}}
{{- end -}}
{{- $slots = max 1 $slots -}}
{{- end -}}
{{- mul (int64 $slots) (int64 $job.worker.number) -}}
{{- end -}}

{{/* The master's command in the long form. */}}
{{- define "horovod.job.masterCommand" -}}
{{- $job := .Values.job -}}
{{- if $job.master.args -}}
{{- list "/bin/sh" "-c" (join " " $job.master.args) | toJson -}}
{{- else -}}
{{- concat (list "horovodrun" "-np" (include "horovod.job.ranks" .) "--hostfile" "/etc/horovod/hosts/hostfile") $job.command $job.args | toJson -}}
{{- end -}}
{{- end -}}

{{/* What master and workers have in common around their container. The operator adds the security contexts. */}}
{{- define "horovod.job.pod" -}}
{{- $job := .Values.job -}}
{{- if $job.hostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- range $key := list "serviceAccountName" "priorityClassName" "imagePullSecrets" "nodeSelector" "tolerations" "affinity" "volumes" }}
{{- with index $job $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "horovod.job.container" -}}
{{- $job := .Values.job -}}
image: {{ include "horovod.job.image" . | quote }}
{{- with $job.imagePullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- with $job.volumeMounts }}
volumeMounts:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
