# What packaging/check.py does in its chroot. Each `must` names a step that has to be seen.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
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
master = subprocess.Popen(shlex.split(line.partition("=")[2]), env=env)
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
    for _ in $(seq 600); do [ -s /run/master.pid ] && return; sleep 0.1; done
    must "the service starts" false
}
running() { for _ in $(seq 300); do as_alice "slotwise q -run -totals"; grep -q "1 running" /tmp/alice.out && return; sleep 0.1; done; false; }

dpkg -P slotwise >/dev/null 2>&1 || true
userdel -r alice >/dev/null 2>&1 || true
useradd --create-home alice
apt-get install -y -qq --no-install-recommends /package.deb >/dev/null 2>&1
must "the account exists" 'getent passwd slotwise >/dev/null'
must "the directory of the pool is root's" '[ "$(stat -c %U:%a /var/lib/slotwise)" = root:755 ]'
start
must "the service reports that it is ready" 'grep -q READY=1 /tmp/manager.log'
must "root finds the pool of the host" 'slotwise ping >/dev/null'
printf 'executable=/usr/bin/id\narguments=-un\noutput=out\nlog=log\nqueue\n' > /home/alice/a.sub
must "a job of alice's ends" 'as_alice "slotwise submit a.sub && slotwise wait -wait 60 log"'
must "it ran as alice" '[ "$(cat /home/alice/out)" = alice ]'
must "HTCondor's names are there" 'as_alice "PATH=\$(slotwise condor-names):\$PATH condor_q -totals"'
printf 'executable=/bin/sleep\narguments=60\nlog=long.log\nqueue\n' > /home/alice/b.sub
must "a job runs" 'as_alice "slotwise submit b.sub" && running'
kill -9 "$(cat /run/master.pid)"
sleep 1
must "an upgrade is installed" 'dpkg -i /package.deb >/tmp/upgrade.log 2>&1'
start
former=$(slotwise up -json)
must "the daemons are started again" '/usr/lib/slotwise/renew-daemons && [ "$(slotwise up -json)" != "$former" ]'
must "the job still runs" 'running'
must "it ends" 'as_alice "slotwise wait -wait 120 long.log"'
must "it ran once" '[ "$(grep -c "Job executing" /home/alice/long.log)" = 1 ] && grep -q "return value 0" /home/alice/long.log'
must "the package is removed" 'dpkg -r slotwise >/dev/null 2>&1'
must "that stops the daemons" '! pgrep -af "^slotwise daemon"'
must "it keeps the queue" '[ -d /var/lib/slotwise/spool ]'
dpkg -P slotwise >/dev/null 2>&1
must "purging leaves nothing" '[ ! -e /var/lib/slotwise ] && [ ! -e /etc/slotwise ] && [ ! -e /usr/lib/slotwise ] &&
    ! getent passwd slotwise >/dev/null'
echo "every step was seen"
