# Waits until an object is gone.
for _ in $(seq 200); do
  [ -z "$(kubectl get "$@" --ignore-not-found --output name)" ] && exit
  sleep 0.05
done
echo "$* is still there"
exit 1
