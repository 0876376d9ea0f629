#!/bin/bash
# Runs the tests of sleeping and waking (test_sleeping_guest.py) on a machine with systemd in emulation: a Debian root file
# system with this tree's package, a kernel, and an initial file system that resumes. (The guest of guest.sh cannot sleep: it
# has this host's files by 9p.) Nothing of the host is changed.
#
#   tests/host/power_guest.sh [WORD...]         words for pytest, such as -k S3
#
# Needs root, qemu, mmdebstrap, a static busybox, depmod, cpio, mkfs.ext4, ssh, openssl, and apt-get to fetch a Debian kernel.
# What is missing is named and the tests are skipped (exit 0). WORK keeps the root file system and the kernel, which are made
# once. SLOTWISE_TEST_PATIENCE is how much longer than on a quiet machine it may take.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(realpath -m "${WORK:-$top/build/power-guest}")
python=$(realpath -s "${PYTHON:-$(command -v python3)}")

missing() { echo "tests of sleeping skipped: needs $1"; exit 0; }
[ "$(id -u)" = 0 ] || missing root
for tool in qemu-system-x86_64 qemu-img mmdebstrap busybox depmod modprobe cpio gzip mkfs.ext4 ssh-keygen ssh tar ip openssl; do
  command -v $tool >/dev/null || missing "$tool"
done
busybox=$(command -v busybox)
ldd "$busybox" >/dev/null 2>&1 && missing "a static busybox (package busybox-static)"
mkdir -p "$work"; cd "$work"

if [ ! -d kernel/boot ]; then
  package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image-[0-9]/{print $2; exit}')
  [ -n "$package" ] || missing "a Debian kernel (apt-get update?)"
  apt-get download "$package" >/dev/null 2>&1 || missing "the package $package"
  dpkg-deb -x "$package"_*.deb kernel
  rm -f "$package"_*.deb
fi
version=$(basename "$(ls -d kernel/lib/modules/*)")
if [ ! -s root.tar ]; then
  mmdebstrap --quiet --variant=minbase --include=systemd-sysv,libpam-systemd,dbus,udev,kmod,procps,util-linux,e2fsprogs,python3,openssh-server,iproute2,ethtool,pm-utils \
    bookworm root.tar.new >mmdebstrap.log 2>&1 || missing "a Debian mirror ($(tail -1 mmdebstrap.log))"
  mv root.tar.new root.tar
fi
[ "$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')" = 3.11 ] || missing "the package in Python 3.11, which the guest has"
[ -s key ] || ssh-keygen -q -t ed25519 -N '' -f key

rm -rf root; mkdir root
tar -C root -xf root.tar --exclude='./dev/*'
mkdir -p "root/lib/modules/$version/kernel"
for part in kernel/drivers/net/ethernet/intel kernel/drivers/input kernel/drivers/acpi; do
  [ -d "kernel/lib/modules/$version/$part" ] || continue
  mkdir -p "root/lib/modules/$version/$(dirname $part)"
  cp -a "kernel/lib/modules/$version/$part" "root/lib/modules/$version/$part"
done
cp kernel/lib/modules/"$version"/modules.{order,builtin,builtin.modinfo} "root/lib/modules/$version/"
depmod -b root "$version"
echo ep.example > root/etc/hostname
echo "127.0.0.1 localhost" > root/etc/hosts
rm -f root/etc/resolv.conf
: > root/etc/resolv.conf   # nobody on its wire answers questions about names: each would wait for that
install -d -m 700 root/root/.ssh
cp key.pub root/root/.ssh/authorized_keys
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer getty@tty1.service systemd-timesyncd.service; do
  ln -sf /dev/null "root/etc/systemd/system/$unit"
done
cat > root/etc/systemd/system/guest-network.service <<'END'
[Unit]
Before=ssh.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/sbin/modprobe e1000
ExecStart=/bin/sh -c 'for n in 1 2 3 4 5 6 7 8 9 10; do ls /sys/class/net | grep -qv lo && break; sleep 0.5; done'
ExecStart=/bin/sh -c 'dev=$(ls /sys/class/net | grep -v lo | head -1); ip link set $dev up; ip addr add 10.76.0.2/24 dev $dev; ip route add default via 10.76.0.1'
[Install]
WantedBy=multi-user.target
END
ln -sf ../guest-network.service root/etc/systemd/system/multi-user.target.wants/guest-network.service
# The package and what it stands on, for the same interpreter.
site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p root/opt/slotwise
for name in slotwise grpc google psutil rich jwt cryptography cffi _cffi_backend\* pygments markdown_it mdurl pynvml typing_extensions.py pycparser slotwise_\* slotwise-\*; do
  for found in "$site"/$name; do [ -e "$found" ] && cp -a "$found" root/opt/slotwise/; done
done
cat > root/usr/local/bin/slotwise <<'END'
#!/bin/sh
export PYTHONPATH=/opt/slotwise SLOTWISE_HOME=/var/lib/slotwise CONDOR_CONFIG=/etc/slotwise/config
exec python3 -m slotwise "$@"
END
chmod 755 root/usr/local/bin/slotwise
cat > root/etc/systemd/system/slotwise.service <<'END'
[Unit]
After=guest-network.service
ConditionPathExists=/etc/slotwise/config
[Service]
Delegate=yes
ExecStart=/bin/sh -c 'slotwise up && exec sleep infinity'
[Install]
WantedBy=multi-user.target
END
ln -sf ../slotwise.service root/etc/systemd/system/multi-user.target.wants/slotwise.service
rm -f root.ext4
mkfs.ext4 -q -d root root.ext4 2500M
rm -rf root

rm -rf initrd; mkdir -p initrd/{bin,dev,proc,sys,newroot,mods}
cp "$busybox" initrd/bin/busybox
number=100
depmod -b kernel "$version"
for name in virtio_pci virtio_blk crc32c_generic ext4; do
  for file in $(modprobe -d kernel -S "$version" --show-depends $name 2>/dev/null | awk '/^insmod/{print $2}'); do
    ls initrd/mods/*-"$(basename "$file")" >/dev/null 2>&1 && continue
    number=$((number + 1)); cp "$file" initrd/mods/$number-"$(basename "$file")"
  done
done
cat > initrd/init <<'END'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for file in /mods/*; do insmod $file; done
while [ ! -b /dev/vdb ]; do sleep 0.1; done
cat /sys/class/block/vdb/dev > /sys/power/resume
mount -t ext4 /dev/vda /newroot
for place in dev proc sys; do mount --move /$place /newroot/$place; done
exec switch_root /newroot /sbin/init
END
chmod +x initrd/init
(cd initrd && find . | cpio -o -H newc 2>/dev/null | gzip -1) > initrd.gz
cp kernel/boot/vmlinuz-* vmlinuz
cd "$top"
SLOTWISE_POWER_GUEST=$work SLOTWISE_TEST_PATIENCE=${SLOTWISE_TEST_PATIENCE:-2} \
  "$python" -m pytest -v -rs -p no:cacheprovider tests/host/test_sleeping_guest.py "$@"
