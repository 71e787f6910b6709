{{- /* Labels of all objects. */ -}}
{{- define "troupe.labels" -}}
app: troupe
release: {{ .Release.Name }}
{{- end -}}
{{- define "troupe.node" -}}
{{ .release }}-{{ .role }}
{{- end -}}
{{- /* Scheme of the HTTP server's probes; the kubelet does not verify certificates. */ -}}
{{- define "troupe.probe-scheme" -}}
{{- if .Values.settings.http -}}
{{- if .Values.settings.http.tls_certificate -}}
, scheme: HTTPS
{{- end -}}
{{- end -}}
{{- end -}}
