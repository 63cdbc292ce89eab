# Approves the looser policy of the Environment $1, and waits until it is in force or the Environment is gone. What follows
# $1 goes to `setpoint approve`.
environment=$1
shift
in_force() {
    kubectl get environment "$environment" -o 'jsonpath={.status.conditions[?(@.type=="PolicyInForce")].status}' 2> /dev/null
}
until [ "$(in_force)" = False ]; do
    kubectl get environment "$environment" > /dev/null 2>&1 || exit 0
    sleep 0.1
done
while [ "$(in_force)" = False ]; do
    sets="jsonpath={.items[?(@.spec.environment==\"$environment\")].metadata.name}"
    for set in $(kubectl get changesets -n kube-system -o "$sets"); do
        setpoint approve -y -n kube-system "$set" "$@" > /dev/null 2>&1
    done
    sleep 0.2
done
kubectl get environment "$environment" -o 'jsonpath={.metadata.deletionTimestamp}' 2> /dev/null | grep -q . || exit 0
kubectl wait --for=delete "environment/$environment" --timeout=60s > /dev/null
