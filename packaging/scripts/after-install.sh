#!/bin/sh
# After the files are in place: the account, the directory, the service. $1: "configure" (Debian) or a number (RPM).
set -e
if ! getent passwd slotwise >/dev/null; then
    useradd --system --user-group --no-create-home --home-dir /var/lib/slotwise --shell /usr/sbin/nologin \
        --comment "Slotwise daemons" slotwise
fi
# Root's: what decides what root does lies there. The daemons give the account what is its own below it.
install -d -o root -g root -m 0755 /var/lib/slotwise /etc/slotwise/config.d
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    if systemctl is-active --quiet slotwise.service; then
        # An upgrade. The new master adopts the daemons that run; each is then started again, and finds its jobs.
        systemctl restart slotwise.service || true
    elif [ -z "$2" ] && [ "$1" != 2 ]; then
        systemctl enable --now slotwise.service || true
    fi
fi
