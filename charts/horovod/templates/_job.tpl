{{/* Environment as a pod has it, from a list (as in a pod) or a map NAME: value. */}}
{{- define "horovod.env" -}}
{{- if kindIs "map" . -}}
{{- range $name, $value := . }}
- name: {{ $name | quote }}
  value: {{ ternary $value (toJson $value) (kindIs "string" $value) | quote }}
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
{{- if or $job.master.template $job.worker.template $job.master.args $job.master.env $job.master.resources $job.worker.env
          (include "horovod.set" (dict "in" $job "keys" (list "imagePullPolicy" "imagePullSecrets" "serviceAccountName"
                                                              "nodeSelector" "tolerations" "affinity" "volumes" "volumeMounts"))) -}}
true
{{- end -}}
{{- end -}}

{{/* Which of .keys are set in .in, as "a, b". */}}
{{- define "horovod.set" -}}
{{- $names := list -}}
{{- range $key := .keys -}}
{{- if index $.in $key -}}{{- $names = append $names $key -}}{{- end -}}
{{- end -}}
{{- join ", " $names -}}
{{- end -}}

{{/* The entries of a map that are set, as YAML; nothing when none is. */}}
{{- define "horovod.given" -}}
{{- $given := dict -}}
{{- range $key, $value := . -}}
{{- if $value -}}{{- $_ := set $given $key $value -}}{{- end -}}
{{- end -}}
{{- if $given -}}{{- toYaml $given -}}{{- end -}}
{{- end -}}

{{/* What the values' schema cannot say. */}}
{{- define "horovod.job.check" -}}
{{- $job := .Values.job -}}
{{- if and $job.master.args $job.command -}}
{{- fail "job.command and job.master.args are both set: job.command is what horovodrun starts once per slot, job.master.args is the master's own command line instead; set one of them" -}}
{{- end -}}
{{- if not (or $job.master.args $job.command $job.master.template) -}}
{{- fail "job.enabled is true but there is nothing to run: set job.command (for example [python, train.py]) or job.master.args" -}}
{{- end -}}
{{- include "horovod.job.checkTemplates" . -}}
{{- if and $job.args (not $job.command) -}}
{{- fail "job.args without job.command: job.args are the words after job.command" -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]{0,43}[a-z0-9])?$" (include "horovod.job.name" .)) -}}
{{- fail (printf "the job's name %q is not allowed: at most 45 lower-case letters, digits and '-', starting with a letter and not ending with '-'; set job.name" (include "horovod.job.name" .)) -}}
{{- end -}}
{{- end -}}

{{/* A template is a whole pod: what else is set of it would say nothing. */}}
{{- define "horovod.job.checkTemplates" -}}
{{- $job := .Values.job -}}
{{- if $job.master.template -}}
{{- with include "horovod.set" (dict "in" $job "keys" (list "command" "args")) -}}
{{- fail (printf "job.master.template is the whole master; unset job.%s" (replace ", " ", job." .)) -}}
{{- end -}}
{{- with include "horovod.set" (dict "in" $job.master "keys" (list "args" "env" "resources")) -}}
{{- fail (printf "job.master.template is the whole master; unset job.master.%s" (replace ", " ", job.master." .)) -}}
{{- end -}}
{{- end -}}
{{- if and $job.worker.template (or $job.worker.env $job.resources) -}}
{{- fail "job.worker.template is the whole worker; unset job.worker.env and job.resources" -}}
{{- end -}}
{{- if and $job.master.template $job.worker.template -}}
{{- with include "horovod.set" (dict "in" $job "keys" (list "image" "imagePullPolicy" "imagePullSecrets" "env" "serviceAccountName"
                                                            "nodeSelector" "tolerations" "affinity" "volumes" "volumeMounts")) -}}
{{- fail (printf "job.master.template and job.worker.template are whole pods; unset job.%s" (replace ", " ", job." .)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The master's command in the long form. Without -np horovodrun starts a rank per slot of the host list, however many workers
the job has by then. */}}
{{- define "horovod.job.masterCommand" -}}
{{- $job := .Values.job -}}
{{- if $job.master.args -}}
{{- list "/bin/sh" "-c" (join " " $job.master.args) | toJson -}}
{{- else -}}
{{- concat (list "horovodrun" "--hostfile" "/etc/horovod/hosts/hostfile") $job.command $job.args | toJson -}}
{{- end -}}
{{- end -}}

{{/* What master and workers have in common around their container. The operator adds the security contexts. */}}
{{- define "horovod.job.pod" -}}
{{- $job := .Values.job -}}
{{- range $key := list "serviceAccountName" "imagePullSecrets" "nodeSelector" "tolerations" "affinity" "volumes" }}
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

{{- define "horovod.job.sizes" -}}
{{- $worker := .Values.job.worker -}}
replicas: {{ toJson $worker.number }}
{{- range $key := list "minReplicas" "maxReplicas" }}
{{- with index $worker $key }}
{{ $key }}: {{ toJson . }}
{{- end }}
{{- end }}
{{- end -}}
