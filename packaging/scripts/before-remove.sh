#!/bin/sh
# Before the files go. $1: "remove", "upgrade" (Debian) or the number of versions that stay (RPM).
set -e
case "$1" in
remove | 0)
    if [ -d /run/systemd/system ]; then
        systemctl disable --now slotwise.service || true
        systemctl stop slotwise-jobs.service || true
    else
        SLOTWISE_HOME="$(head -n 1 /etc/slotwise/home)" /usr/bin/slotwise down || true
    fi
    ;;
esac
