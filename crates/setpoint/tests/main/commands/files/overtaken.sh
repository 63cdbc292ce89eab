# Applies slow.yaml with a guest that takes its time, and changes the Machine for somebody else meanwhile.
sed -e 's/startMs: .*/startMs: 60000/' slow.yaml > "$HOME/slower.yaml"
setpoint apply -y -f "$HOME/slower.yaml" > "$HOME/applied" 2> "$HOME/said" &
until kubectl patch machine slow --type=merge -p '{"spec": {"description": "for others"}}' > /dev/null 2>&1; do sleep 0.1; done
wait $!
code=$?
tail -n 1 "$HOME/applied"
tail -n 1 "$HOME/said"
exit $code
