#!/bin/bash
# The Debian package on a host that systemd runs: as root, on a machine that may be thrown away, as the guest of
# `INIT=systemd COMMAND="bash packaging/check_systemd.sh dist/slotwise_*.deb" tests/host/guest.sh` is.
#
# Seen to work: the service starts by itself and reports that it is ready; jobs run in groups of slotwise-jobs.service;
# they outlast a restart of the service, a master that is killed, and an upgrade; a stop sends them home and ends every
# daemon; the drop-in for hosts without jobs closes the system; removal stops the service and keeps the state.
set -u
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
package=$1
failed=0
must() {
    if eval "$2"; then echo "ok: $1"; else echo "FAILED: $1"; failed=1; tail -n 15 /var/lib/slotwise/log/*Log; slotwise status; as_alice "slotwise q -better-analyze" | tail -n 30; fi
}
until_true() { for _ in $(seq 300); do eval "$1" >/dev/null 2>&1 && return; sleep 1; done; false; }
as_alice() { setpriv --reuid alice --regid alice --init-groups env HOME=/home/alice PATH="$PATH" sh -c "cd; $1"; }
master() { systemctl show -P MainPID slotwise; }

dpkg -P slotwise >/dev/null 2>&1
useradd --create-home alice 2>/dev/null
chmod 755 /home/alice
must "the package is installed" 'dpkg -i --no-triggers "$package" >/tmp/install.log 2>&1 || { cat /tmp/install.log; false; }'
must "the service is enabled" 'systemctl is-enabled --quiet slotwise'
must "the service is active, which it is when all daemons run" 'until_true "systemctl is-active --quiet slotwise"'
must "systemd has its status line" 'systemctl show -P StatusText slotwise | grep -q .'
must "root finds the pool of the host" 'until_true "slotwise ping"'

printf 'executable=/bin/cat\narguments=/proc/self/cgroup\ntransfer_executable=false\noutput=out\nlog=log\nrequest_disk=10M\nqueue\n' > /home/alice/a.sub
chown -R alice: /home/alice
must "a job of an ordinary user ends" 'as_alice "slotwise submit a.sub && slotwise wait -wait 1200 log" >/dev/null'
cat /home/alice/out
must "its group is below slotwise-jobs.service" 'grep -q "slotwise-jobs.service/" /home/alice/out'

printf '#!/bin/sh\nuntil [ -e /home/alice/go ]; do sleep 1; done\n' > /home/alice/b.sh
printf 'executable=b.sh\nlog=long.log\nrequest_disk=10M\nqueue\n' > /home/alice/b.sub
chmod 755 /home/alice/b.sh
running() { as_alice "slotwise q -run -totals" 2>/dev/null | grep -q "1 running"; }
starts() { grep -c "Job executing" /home/alice/long.log; }
must "a job runs" 'as_alice "slotwise submit b.sub" >/dev/null && until_true running'
before=$(master)
must "the service is restarted" 'systemctl restart slotwise && [ "$(master)" != "$before" ]'
must "the job still runs" 'until_true running && [ "$(starts)" = 1 ]'
before=$(master)
kill -9 "$before"
must "a master that is killed is started again" 'until_true "[ \$(master) != $before ] && [ \$(master) != 0 ] && systemctl is-active --quiet slotwise"'
must "the job still runs" 'until_true running && [ "$(starts)" = 1 ]'
must "an upgrade is installed" 'dpkg -i --no-triggers "$package" >/tmp/upgrade.log 2>&1 || { cat /tmp/upgrade.log; false; }'
must "the service is active again" 'until_true "systemctl is-active --quiet slotwise && slotwise ping"'
must "the job still runs" 'until_true running && [ "$(starts)" = 1 ]'
touch /home/alice/go
must "it ends" 'as_alice "slotwise wait -wait 1200 long.log" >/dev/null'
must "it ran once" '[ "$(starts)" = 1 ] && grep -q "return value 0" /home/alice/long.log'

rm -f /home/alice/go
must "another job runs" 'as_alice "slotwise submit b.sub" >/dev/null && until_true running'
must "the service is stopped" 'systemctl stop slotwise && ! systemctl is-active --quiet slotwise'
must "no daemon and no job is left" '! pgrep -f "slotwise daemon" && ! pgrep -u alice'

mkdir -p /etc/systemd/system/slotwise.service.d
cp /usr/share/doc/slotwise/examples/no-jobs.conf /etc/systemd/system/slotwise.service.d/
printf 'DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR, SCHEDD\n' > /etc/slotwise/config.d/50-no-jobs.conf
must "with the drop-in for hosts without jobs it starts" 'systemctl daemon-reload && systemctl start slotwise && until_true "slotwise ping"'
must "the system is closed to the daemons" 'systemctl show -P ProtectSystem slotwise | grep -qE "strict|full"'
must "jobs are queued there" 'as_alice "slotwise submit a.sub" >/dev/null'

must "the package is removed" 'dpkg -r --no-triggers slotwise >/tmp/remove.log 2>&1 || { cat /tmp/remove.log; false; }'
must "no daemon is left" '! pgrep -f "slotwise daemon"'
must "the queue is kept" '[ -d /var/lib/slotwise/spool ]'
must "the package is purged" 'dpkg -P --no-triggers slotwise >/tmp/purge.log 2>&1 || { cat /tmp/purge.log; false; }'
parts() { ls -d /etc/slotwise /var/lib/slotwise/{run,secrets,log,spool,execute,sandboxes,config.d} 2>/dev/null; }
must "nothing of it is left" '! parts | grep . && ! getent passwd slotwise >/dev/null'
exit $failed
