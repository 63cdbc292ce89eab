# Waits until the garbage collector has looked at everything that happened before: later garbage is collected later.
for _ in 1 2; do
  bash owned.sh last v1:ConfigMap:never:9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d >/dev/null
  bash gone.sh configmap last
done
