# Runs a command and ends as it does, unless the object named first has changed.
object=$1
shift
revision() { kubectl get "$object" --output 'jsonpath={.metadata.resourceVersion}'; }
before=$(revision)
"$@"
code=$?
[ "$before" = "$(revision)" ] || { echo "$object has changed"; exit 99; }
exit $code
