{{- /* Labels of all objects, and of those of a role (a string). */ -}}
{{- define "troupe.labels" -}}
app: troupe
release: {{ .Release.Name }}
{{- end -}}
{{- define "troupe.node" -}}
{{ .release }}-{{ .role }}
{{- end -}}
