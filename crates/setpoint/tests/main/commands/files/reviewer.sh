# Lets a user review in the namespace, and approve steps in an environment.
kubectl create rolebinding "$1" --clusterrole=setpoint:reviewer --user="$1" > /dev/null
setpoint env grant "$2" --user "$1" --verbs approve > /dev/null
