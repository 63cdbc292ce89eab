"""Checks definitions, read as YAML documents, against the schema that Kubernetes publishes of them."""

import sys

import kubernetes_validate
import yaml

definitions = list(yaml.safe_load_all(sys.stdin))
for definition in definitions:
    kubernetes_validate.validate(definition, "1.36", strict=True)

# The check is worth what it refuses.
definitions[0]["spec"]["gruop"] = "setpoint.dev"
try:
    kubernetes_validate.validate(definitions[0], "1.36", strict=True)
except kubernetes_validate.ValidationError:
    print(len(definitions))
else:
    sys.exit("an unknown field passed")
