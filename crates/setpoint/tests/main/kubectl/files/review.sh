# Approves all steps of the change set that $HOME/gate names, by a review of this name and in the name of this person. What
# else is said is for kubectl, such as whom to act as.
name=$1
reviewer=$2
shift 2
gate=$(cat "$HOME/gate")
digests=$(kubectl get changeset "$gate" --output 'jsonpath={range .status.steps[*]}"{.digest}",{end}')
kubectl create "$@" -f - <<REVIEW
apiVersion: setpoint.dev/v1alpha1
kind: Review
metadata:
  name: $name
spec:
  gate: $gate
  decision: Approve
  reviewer: $reviewer
  digests: [${digests%,}]
REVIEW
