#!/bin/sh
# After the files are gone. Queue, history and accounting stay until the package is purged (Debian).
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
if [ "$1" = purge ]; then
    rm -rf /var/lib/slotwise /etc/slotwise
    userdel slotwise 2>/dev/null || true
fi
