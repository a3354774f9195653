{{- define "sluicegate.name" -}}
{{- if contains "sluicegate" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-sluicegate" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "sluicegate.selector" -}}
app.kubernetes.io/name: sluicegate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sluicegate.labels" -}}
{{ include "sluicegate.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
{{- end -}}

{{- define "sluicegate.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "sluicegate.config" -}}
{{ .Values.config | default (.Files.Get "sluicegate.toml") | trim }}
{{- end -}}

{{/* Where probes go in the node's network, if operators listen on its loopback; otherwise to the address of the pod. */}}
{{- define "sluicegate.adminHost" -}}
{{- if and .Values.hostNetwork (regexMatch (printf "[\"']127\\.0\\.0\\.1:%d[\"']" (int .Values.ports.admin)) (include "sluicegate.config" .)) -}}
{{- print "host: 127.0.0.1, " -}}
{{- end -}}
{{- end -}}

{{/* drain_timeout of the configuration in whole seconds, 30 if it sets none; 0 for one in smaller units. */}}
{{- define "sluicegate.drain" -}}
{{- $found := regexFind "(?m)^\\s*drain_timeout\\s*=\\s*\"[0-9hms]+\"" (include "sluicegate.config" .) -}}
{{- if $found -}}
{{- $value := regexFind "\"[0-9hms]+\"" $found | trimAll "\"" -}}
{{- $hours := regexFind "[0-9]+h" $value | trimSuffix "h" | default "0" | int -}}
{{- $minutes := regexFind "[0-9]+m($|[^s])" $value | regexFind "[0-9]+" | default "0" | int -}}
{{- $seconds := regexFind "[0-9]+s" (regexReplaceAll "[0-9]+ms" $value "") | trimSuffix "s" | default "0" | int -}}
{{- add (mul $hours 3600) (mul $minutes 60) $seconds -}}
{{- else -}}
30
{{- end -}}
{{- end -}}

{{/* Refuses values that do not fit the configuration or each other. */}}
{{- define "sluicegate.check" -}}
{{- $config := include "sluicegate.config" . -}}
{{- if not (has .Values.kind (list "Deployment" "DaemonSet")) -}}
{{- fail (printf "kind is %q: expected Deployment or DaemonSet" .Values.kind) -}}
{{- end -}}
{{- range $name, $port := .Values.ports -}}
{{- if and (int $port) (not (regexMatch (printf ":%d[\"']" (int $port)) $config)) -}}
{{- fail (printf "the configuration names no address with port %d: set ports.%s to its port there" (int $port) $name) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.sharedSecret (not (regexMatch "(?m)^\\s*secrets_file\\s*=" $config)) -}}
{{- fail "the configuration has no secrets_file, which sharedSecret is for: add secrets_file = \"secrets/secrets.txt\" to [server], or set sharedSecret to \"\"" -}}
{{- end -}}
{{- if regexMatch "(?m)^\\s*shutdown_delay\\s*=" $config -}}
{{- fail "the configuration has shutdown_delay, for which a pod has preStopSeconds: remove it" -}}
{{- end -}}
{{- $drain := include "sluicegate.drain" . | int -}}
{{- $grace := .Values.terminationGracePeriodSeconds | int -}}
{{- $needed := add (int .Values.preStopSeconds) $drain 5 | int -}}
{{- if lt $grace $needed -}}
{{- fail (printf "terminationGracePeriodSeconds is %d: preStopSeconds and drain_timeout (%ds) need %d" $grace $drain $needed) -}}
{{- end -}}
{{- /* The first failure may come at once. */ -}}
{{- $ready := mul (int .Values.probes.readiness.periodSeconds) (sub (int .Values.probes.readiness.failureThreshold) 1) | int -}}
{{- if le $ready $drain -}}
{{- fail (printf "probes.readiness fails after %ds, before drain_timeout (%ds) is over: raise failureThreshold" $ready $drain) -}}
{{- end -}}
{{- if and .Values.serverId.enabled (not (contains .Values.serverId.env $config)) -}}
{{- fail (printf "serverId is enabled, but the configuration does not read %s: see serverId in values.yaml" .Values.serverId.env) -}}
{{- end -}}
{{- if and .Values.hostPorts .Values.hostNetwork -}}
{{- fail "hostPorts and hostNetwork: the ports of a pod in the node's network are those of the node already" -}}
{{- end -}}
{{- if and .Values.hostNetwork .Values.sysctls -}}
{{- fail "sysctls and hostNetwork: the network is the node's, so set them there" -}}
{{- end -}}
{{- if and .Values.hostNetwork (regexMatch (printf "[\"'](0\\.0\\.0\\.0|\\[::\\]):%d[\"']" (int .Values.ports.admin)) $config) -}}
{{- fail (printf "hostNetwork: the admin port would be open at every address of the node, where no NetworkPolicy holds: set address = \"127.0.0.1:%d\" in [admin]" (int .Values.ports.admin)) -}}
{{- end -}}
{{- if and .Values.hostPorts (ne .Values.kind "DaemonSet") -}}
{{- fail "hostPorts needs kind: DaemonSet, because two pods cannot have a port of one node" -}}
{{- end -}}
{{- end -}}
