# Prints the revision of an object.
kubectl get "$1" --output 'jsonpath={.metadata.resourceVersion}'
