# Makes a ReplicaSet and two Pods that it owns, of which "held" has a finalizer if one is named.
blocking=${1:-true}
finalizers=${2:+"[$2]"}
sed 's/OWNER/00000000-0000-0000-0000-000000000000/; s/REVISION/1/g; /ownerReferences/,/controller/d' replicaset.yaml |
  kubectl create -f -
uid=$(kubectl get replicaset shop-1 --output 'jsonpath={.metadata.uid}')
for name in free held; do
  kubectl create -f - <<END
apiVersion: v1
kind: Pod
metadata:
  name: $name
  labels: {app: shop, revision: "1"}
  finalizers: $([ $name = held ] && echo "${finalizers:-[]}" || echo "[]")
  ownerReferences:
  - {apiVersion: apps/v1, kind: ReplicaSet, name: shop-1, uid: $uid, controller: true, blockOwnerDeletion: $blocking}
spec:
  containers:
  - {name: shop, image: "shop:1"}
END
done
