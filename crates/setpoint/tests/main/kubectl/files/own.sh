# Makes a ConfigMap and another one that it owns.
kubectl create configmap owner
uid=$(kubectl get configmap owner --output 'jsonpath={.metadata.uid}')
kubectl create -f - <<END
apiVersion: v1
kind: ConfigMap
metadata:
  name: owned
  ownerReferences:
  - {apiVersion: v1, kind: ConfigMap, name: owner, uid: $uid, blockOwnerDeletion: true}
END
