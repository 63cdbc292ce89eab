# Prints what a watch on the ConfigMap "watched" shows while two changes are made to it.
set -e
out=$(mktemp)
trap 'kill "$watch" 2>/dev/null; rm -f "$out"' EXIT
lines() { for _ in $(seq 200); do [ "$(wc -l <"$out")" -ge "$1" ] && return; sleep 0.05; done; echo "no line $1"; exit 1; }
kubectl get configmap watched --watch --output 'jsonpath={.data.step}{"\n"}' >"$out" &
watch=$!
lines 1
kubectl patch configmap watched --type merge --patch '{"data":{"step":"two"}}' >/dev/null
kubectl patch configmap watched --type merge --patch '{"data":{"step":"three"}}' >/dev/null
lines 3
cat "$out"
