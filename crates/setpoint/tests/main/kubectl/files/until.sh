# Runs a command until it prints what is expected, for a minute at most, and prints what it printed last.
expected=$1
shift
for _ in $(seq 600); do
  actual=$("$@" 2>&1)
  [ "$actual" = "$expected" ] && break
  sleep 0.1
done
echo "$actual"
