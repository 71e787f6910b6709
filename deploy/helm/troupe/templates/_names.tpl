{{- /* Labels of all objects, and of those of a role (a string). */ -}}
{{- define "troupe.labels" -}}
app: troupe
release: {{ .Release.Name }}
{{- end -}}
{{- define "troupe.node" -}}
{{ .release }}-{{ .role }}
{{- end -}}
{{- /* The door's probes; kubelet looks at no certificate. */ -}}
{{- define "troupe.probe-scheme" -}}
{{- if .Values.settings.http -}}
{{- if .Values.settings.http.tls_certificate -}}
, scheme: HTTPS
{{- end -}}
{{- end -}}
{{- end -}}
