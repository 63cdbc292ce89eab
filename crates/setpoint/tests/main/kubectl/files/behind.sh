# Who is behind a Service, as its EndpointSlices tell it.
kubectl get endpointslices -l kubernetes.io/service-name="$1" -o jsonpath='{range .items[*]}{range .endpoints[*]}{.targetRef.name} {.addresses[0]} ready={.conditions.ready} terminating={.conditions.terminating}{"\n"}{end}{end}' | sort
