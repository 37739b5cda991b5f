{{- define "horovod.job.name" -}}
{{- default (include "horovod.fullname" .) .Values.job.name -}}
{{- end -}}

{{/* What the values' schema cannot express. */}}
{{- define "horovod.job.check" -}}
{{- $spec := default dict .Values.job.spec -}}
{{- $worker := default dict $spec.worker -}}
{{- $isShort := false -}}
{{- range list "image" "command" "args" "env" "resources" -}}
{{- $isShort = or $isShort (hasKey $spec .) -}}
{{- end -}}
{{- $isLong := or (hasKey $spec "master") (hasKey $worker "template") -}}
{{- $isWhole := ternary (and (hasKey $spec "image") (hasKey $spec "command")) (and (hasKey $spec "master") (hasKey $worker "template")) $isShort -}}
{{- if or (eq $isShort $isLong) (not $isWhole) -}}
{{- fail "job.spec needs one of two forms: image and command (short form, with args, env and resources), or master.template and worker.template (long form)" -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]{0,43}[a-z0-9])?$" (include "horovod.job.name" .)) -}}
{{- fail (printf "the job's name %q is not allowed: at most 45 lower-case letters, digits and '-', starting with a letter and not ending with '-'; set job.name" (include "horovod.job.name" .)) -}}
{{- end -}}
{{- end -}}
