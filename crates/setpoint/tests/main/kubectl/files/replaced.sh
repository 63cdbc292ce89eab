# Deletes the first of the Pods that a selector selects; says whether it came back under its name.
pod=$(kubectl get pods --selector "$1" --output name | head -1)
kubectl delete "$pod" >/dev/null
kubectl get "$pod" --output name 2>/dev/null || echo gone
