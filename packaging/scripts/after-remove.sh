#!/bin/sh
# After the files are gone. Queue, history and accounting stay until the package is purged (Debian).
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
if [ "$1" = purge ]; then
    # Directories of other pools of root's may lie beside these.
    for part in run secrets log spool execute sandboxes config.d; do
        rm -rf "/var/lib/slotwise/$part"
    done
    rmdir /var/lib/slotwise 2>/dev/null || true
    rm -rf /etc/slotwise
    userdel slotwise 2>/dev/null || true
fi
