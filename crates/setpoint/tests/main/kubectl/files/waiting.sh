# Waits until a Machine waits for people in a change set of its own, and prints the name of that and of its gate.
for _ in $(seq 600); do
  gate=$(kubectl get changesets --output 'jsonpath={range .items[?(@.status.phase=="Waiting")]}{.metadata.ownerReferences[0].name} {.status.gateRef.name}{"\n"}{end}' |
    awk -v machine="$1" '$1 == machine {print $2}')
  [ -n "$gate" ] && break
  sleep 0.1
done
echo "$gate"
