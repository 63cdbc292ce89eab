# Waits until a Deployment is rolled out, and prints how that ended.
kubectl rollout status "deployment/$1" --timeout=60s | tail -1
