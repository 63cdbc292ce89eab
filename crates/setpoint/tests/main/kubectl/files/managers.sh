# Prints who manages an object, and how.
kubectl get "$@" --show-managed-fields --output \
  'jsonpath={range .metadata.managedFields[*]}{.manager} {.operation} {.subresource} {.apiVersion} {.fieldsV1}{"\n"}{end}' |
  sort
