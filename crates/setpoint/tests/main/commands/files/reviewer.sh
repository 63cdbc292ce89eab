# Lets a user review in the namespace, and approve in every environment.
quiet() { "$@" > /dev/null 2>&1; }
quiet kubectl create rolebinding "$1" --clusterrole=setpoint:reviewer --user="$1"
quiet kubectl create clusterrole approver --verb=approve --resource=environments.setpoint.dev
quiet kubectl create rolebinding "$1-approves" --clusterrole=approver --user="$1"
