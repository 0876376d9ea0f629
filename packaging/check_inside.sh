# What packaging/check.py does in its chroot, with the package /package.$1. Each `must` names a step that has to be seen.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
case $1 in
deb)
    install() { apt-get install -y -qq --no-install-recommends /package.deb; }
    upgrade() { dpkg -i /package.deb; }
    remove() { dpkg -r slotwise; }
    ;;
rpm)
    # What the package needs is there, but RPM's database does not have what dpkg has installed.
    install() { rpm -i --nodeps /package.rpm; }
    upgrade() { rpm -U --nodeps --replacepkgs /package.rpm; }
    remove() { rpm -e --nodeps slotwise; }
    ;;
esac
must() {
    if eval "$2"; then echo "ok: $1"; else echo "FAILED: $1"; tail -n 20 /var/lib/slotwise/log/*Log /tmp/manager.log || true; exit 1; fi
}
as_alice() { setpriv --reuid alice --regid alice --init-groups env HOME=/home/alice PATH="$PATH" sh -c "cd; $1" >/tmp/alice.out; }
# In place of systemd: the service's own command line, with a socket that its reports are heard at.
cat > /tmp/manager.py <<'END'
import os, shlex, socket, subprocess, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind("/run/manager"); s.settimeout(120)
env = {"PATH": os.environ["PATH"], "NOTIFY_SOCKET": "/run/manager"}
line = next(l for l in open("/usr/lib/systemd/system/slotwise.service") if l.startswith("ExecStart="))
# systemd names the process that it starts, so that what that starts does not take itself for the service.
named = ["/bin/sh", "-c", 'export SYSTEMD_EXEC_PID=$$; exec "$@"', "sh", *shlex.split(line.partition("=")[2])]
master = subprocess.Popen(named, env=env)
seen = ""
while "all daemons are running" not in seen:
    seen = s.recv(4096).decode()
    print(seen, flush=True)
open("/run/master.pid", "w").write(str(master.pid))
sys.exit(master.wait())
END
start() {
    rm -f /run/manager /run/master.pid
    /usr/bin/python3.11 /tmp/manager.py > /tmp/manager.log 2>&1 &
    for _ in $(seq 1800); do [ -s /run/master.pid ] && return; sleep 0.1; done
    must "the service starts" false
}
running() { for _ in $(seq 300); do as_alice "slotwise q -run -totals"; grep -q "1 running" /tmp/alice.out && return; sleep 0.1; done; false; }

remove >/dev/null 2>&1 || true
dpkg -P slotwise >/dev/null 2>&1 || true
rm -rf /var/lib/slotwise /etc/slotwise
userdel -r alice >/dev/null 2>&1 || true
useradd --create-home alice
must "the package is installed" 'install >/tmp/install.log 2>&1 || { cat /tmp/install.log; false; }'
must "the account exists" 'getent passwd slotwise >/dev/null'
must "the directory of the pool is root's" '[ "$(stat -c %U:%a /var/lib/slotwise)" = root:755 ]'
must "man pages of the commands and of the files are there" \
    '[ -s /usr/share/man/man1/slotwise.1.gz ] && [ -s /usr/share/man/man1/slotwise-submit.1.gz ] && ls /usr/share/man/man5/*slotwise* >/dev/null'
must "the shells complete the command" 'bash -c ". /usr/share/bash-completion/completions/slotwise; complete -p slotwise" >/dev/null &&
    grep -q "^#compdef slotwise" /usr/share/zsh/*/_slotwise && [ -s /usr/share/fish/vendor_completions.d/slotwise.fish ]'
start
must "the service reports that it is ready" 'grep -q READY=1 /tmp/manager.log'
must "root finds the pool of the host" 'slotwise ping >/dev/null'
printf 'executable=/usr/bin/id\narguments=-un\noutput=out\nlog=log\nqueue\n' > /home/alice/a.sub
must "a job of alice's ends" 'as_alice "slotwise submit a.sub && slotwise wait -wait 60 log"'
must "it ran as alice" '[ "$(cat /home/alice/out)" = alice ]'
must "HTCondor's names are there" 'as_alice "PATH=\$(slotwise condor-names):\$PATH condor_q -totals"'
printf '#!/bin/sh\nuntil [ -e /home/alice/go ]; do sleep 1; done\n' > /home/alice/b.sh
chmod 755 /home/alice /home/alice/b.sh
printf 'executable=b.sh\nlog=long.log\nqueue\n' > /home/alice/b.sub
must "a job runs" 'as_alice "slotwise submit b.sub" && running'
must "an upgrade is installed" 'upgrade >/tmp/upgrade.log 2>&1'
former=$(cat /run/master.pid)
kill -9 "$former"
while kill -0 "$former" 2>/dev/null; do sleep 0.1; done
start
former=$(slotwise up -json)
must "the daemons are started again" '/usr/lib/slotwise/renew-daemons && [ "$(slotwise up -json)" != "$former" ]'
must "the job still runs" 'running'
touch /home/alice/go
must "it ends" 'as_alice "slotwise wait -wait 120 long.log"'
must "it ran once" '[ "$(grep -c "Job executing" /home/alice/long.log)" = 1 ] && grep -q "return value 0" /home/alice/long.log'
must "the host becomes the first one of a larger pool" \
    'slotwise node install --role cm,ap,ep --port 19618 >/tmp/node.log 2>&1 || { cat /tmp/node.log; false; }'
must "it shows the fingerprint of its authority" 'grep -q "$(slotwise node fingerprint)" /tmp/node.log'
must "it is in the list of its hosts" 'slotwise node list | grep -q "^cm.example *cm,ap,ep *up "'
must "nobody else can read the keys" '[ -z "$(find /var/lib/slotwise/tls/host.key /var/lib/slotwise/secrets -perm /077 -type f)" ]'
must "a job runs there" 'as_alice "rm -f log; slotwise submit a.sub && slotwise wait -wait 120 log"'
must "a join token is made" 'slotwise node token --role ep --file /tmp/join 2>/dev/null && [ "$(stat -c %a /tmp/join)" = 600 ]'
must "the host leaves that pool" 'slotwise node uninstall >/tmp/node.log 2>&1 || { cat /tmp/node.log; false; }'
must "that leaves nothing but the queue" \
    '[ ! -e /etc/slotwise/config.d/10-node.conf ] && [ ! -e /var/lib/slotwise/tls ] && [ ! -e /var/lib/slotwise/secrets/signing ]'
must "the host is a pool of its own again" 'slotwise up >/dev/null && as_alice "slotwise q -totals"'
must "the package is removed" 'remove >/dev/null 2>&1'
must "that stops the daemons" '! pgrep -af "^slotwise daemon"'
must "it keeps the queue" '[ -d /var/lib/slotwise/spool ]'
must "and no program" '[ ! -e /usr/lib/slotwise ] && [ ! -e /usr/bin/slotwise ] && [ ! -e /usr/lib/systemd/system/slotwise.service ]'
[ "$1" = deb ] || { rm -rf /var/lib/slotwise /etc/slotwise; userdel slotwise; echo "every step was seen"; exit 0; }
dpkg -P slotwise >/dev/null 2>&1
must "purging leaves nothing" '[ ! -e /var/lib/slotwise ] && [ ! -e /etc/slotwise ] && ! getent passwd slotwise >/dev/null'
echo "every step was seen"
