#!/bin/sh
# The remote shell of mpirun: kubexec.sh HOST COMMAND...
set -eu
folder=${TMPDIR:-/tmp}/.mpi-ssh-$(id -u)
if [ ! -r "$folder/key" ]; then
  umask 077
  mkdir -p "$folder"
  cp /etc/mpi-ssh/ssh-privatekey "$folder/key.$$"
  chmod 600 "$folder/key.$$"
  mv "$folder/key.$$" "$folder/key"
fi
# The worker may still be starting: wait for its name here, and for its sshd by ConnectionAttempts.
tries=0
until getent hosts "$1" >/dev/null 2>&1 || [ "$tries" -ge 120 ]; do
  tries=$((tries + 1))
  sleep 1
done
exec ssh -F /dev/null -p 2222 -i "$folder/key" -o IdentitiesOnly=yes -o BatchMode=yes \
  -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \
  -o ConnectionAttempts=60 -o ConnectTimeout=10 "$@"
