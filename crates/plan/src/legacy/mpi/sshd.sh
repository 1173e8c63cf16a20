#!/bin/sh
# The default command of a worker: an sshd of its own, which lets in the job's key and nothing else.
set -eu
umask 077
folder=${TMPDIR:-/tmp}/.mpi-sshd-$(id -u)
rm -rf "$folder"
mkdir -p "$folder"
if [ "$(id -u)" = 0 ]; then mkdir -p /run/sshd && chmod 755 /run/sshd; fi
ssh-keygen -q -t ed25519 -N '' -f "$folder/host_key"
# Ranks get the environment of this container, as they would if they were started in it.
{
  export -p
  echo "cd \"${PWD}\" 2>/dev/null || true"
  echo 'if [ -n "${SSH_ORIGINAL_COMMAND:-}" ]; then exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"; fi'
  echo 'exec /bin/sh'
} > "$folder/session"
cat > "$folder/config" <<CONFIG
Port 2222
HostKey $folder/host_key
AuthorizedKeysFile /etc/mpi-ssh/ssh-publickey
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
X11Forwarding no
AllowTcpForwarding no
PrintMotd no
MaxStartups 1000
LogLevel FATAL
ForceCommand /bin/sh $folder/session
CONFIG
# An sshd that is to start sessions calls itself again, and therefore needs its full path.
exec "$(command -v sshd || echo /usr/sbin/sshd)" -D -e -f "$folder/config"
