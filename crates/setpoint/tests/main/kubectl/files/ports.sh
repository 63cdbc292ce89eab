# Whether each Pod behind a Service is told of at the port that its process was given.
kubectl get endpointslices -l kubernetes.io/service-name="$1" -o jsonpath='{range .items[*]}{.endpoints[0].targetRef.name} {.ports[0].port}{"\n"}{end}' | sort | while read -r pod port; do
  given=$(kubectl exec "$pod" -- sh -c 'echo "$PORT"' </dev/null)
  [ "$given" = "$port" ] && echo "$pod is reached at its own port" || echo "$pod listens at $given, not at $port"
done
