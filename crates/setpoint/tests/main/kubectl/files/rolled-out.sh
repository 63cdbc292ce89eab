# Waits until a Deployment is rolled out and what it replaced is gone, and prints how that ended.
kubectl rollout status "deployment/$1" --timeout=60s | tail -1
kubectl wait --for=jsonpath='{.status.terminatingReplicas}'=0 "deployment/$1" --timeout=60s >/dev/null
