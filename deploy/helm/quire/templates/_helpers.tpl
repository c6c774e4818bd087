{{- define "quire.labels" -}}
app.kubernetes.io/name: quire
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end }}

{{- define "quire.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "quire.deployment" -}}
{{- $labels := include "quire.labels" . -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  replicas: {{ .replicas }}
  selector:
    matchLabels:
      {{- $labels | nindent 6 }}
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: 0
      maxSurge: 1
  template:
    metadata:
      labels:
        {{- $labels | nindent 8 }}
    spec:
      automountServiceAccountToken: false
      enableServiceLinks: false
      # SHUTDOWN_DELAY (5 s for HTTP) and SHUTDOWN_TIMEOUT (30 s): work in hand is finished or handed back within them.
      terminationGracePeriodSeconds: 45
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        runAsGroup: 10001
        fsGroup: 10001
        seccompProfile:
          type: RuntimeDefault
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- $labels | nindent 14 }}
      containers:
        - name: quire
          image: {{ include "quire.image" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args:
            {{- toYaml .args | nindent 12 }}
          ports:
            - name: http
              containerPort: {{ .port }}
          envFrom:
            - configMapRef:
                name: {{ .root.Release.Name }}
            - secretRef:
                name: {{ .root.Values.existingSecret }}
          {{- with .env }}
          env:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          startupProbe:
            httpGet: {path: /health/live, port: http}
            periodSeconds: 2
            failureThreshold: 60
          livenessProbe:
            httpGet: {path: /health/live, port: http}
            periodSeconds: 15
            timeoutSeconds: 5
          readinessProbe:
            httpGet: {path: {{ .ready }}, port: http}
            periodSeconds: 5
            timeoutSeconds: 5
          resources:
            {{- toYaml .resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          volumeMounts:
            - name: data
              mountPath: /data
            - name: tmp
              mountPath: /tmp
      volumes:
        - name: data
          emptyDir:
            sizeLimit: {{ .root.Values.storage.dataSize }}
        - name: tmp
          emptyDir:
            sizeLimit: {{ .root.Values.storage.tmpSize }}
{{- end }}
