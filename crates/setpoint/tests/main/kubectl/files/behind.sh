# Who is behind a Service, as its EndpointSlices tell it, and whether each Pod is told of at the port that it was given.
kubectl get endpointslices -l kubernetes.io/service-name="$1" -o jsonpath='{range .items[*]}{range .endpoints[*]}{.targetRef.name} {.addresses[0]} ready={.conditions.ready} terminating={.conditions.terminating}{"\n"}{end}{end}' | sort
