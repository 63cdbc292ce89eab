# Prints what a watch on ConfigMaps, with the token in the file $1, shows until the rolebinding $2 is taken away.
set -e
out=$(mktemp)
trap 'kill "$watch" 2>/dev/null || true; rm -f "$out"' EXIT
lines() { for _ in $(seq 200); do [ "$(wc -l <"$out")" -ge "$1" ] && return; sleep 0.05; done; echo "no line $1"; exit 1; }
timeout 20 kubectl get configmaps --watch --token "$(cat "$1")" >"$out" &
watch=$!
lines 2
# A change that is shown is shown by a watch that is open.
kubectl patch configmap settings --type merge --patch '{"data":{"size":"large"}}' >/dev/null
lines 3
kubectl delete rolebinding "$2"
wait "$watch" || echo "the watch ended with $?"
cat "$out"
