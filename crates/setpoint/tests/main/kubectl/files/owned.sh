# Makes a ConfigMap that is owned: by "apiVersion/kind/name/uid" each, where a uid may be left to be looked up.
name=$1
shift
{
  printf 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n  ownerReferences:\n' "$name"
  for owner in "$@"; do
    IFS=: read -r version kind owner uid <<<"$owner"
    uid=${uid:-$(kubectl get "$kind" "$owner" --output 'jsonpath={.metadata.uid}')}
    echo "  - {apiVersion: $version, kind: $kind, name: $owner, uid: $uid, blockOwnerDeletion: true}"
  done
} | kubectl create -f -
