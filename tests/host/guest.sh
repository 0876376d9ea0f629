#!/bin/bash
# Runs host tests on a kernel with cgroup version 2 and all controllers: a guest in emulation that sees this host's files
# read-only (9p) below a writable layer in memory. Nothing is installed in it, nothing of the host is changed.
#
#   tests/host/guest.sh [TEST...]        default: tests/host. COMMAND="bash script" runs something else instead.
#
# INIT=systemd: systemd is the first process, and Docker's cgroups are its slices; otherwise nothing is started but the tests.
#
# Needs root, qemu-system-x86_64, busybox (static), depmod, cpio, and apt-get to fetch a Debian kernel. What is missing is
# named and the tests are skipped (exit 0). Emulation is slow: ten minutes to an hour for all. WORK keeps kernel and log.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
work=${WORK:-$top/build/guest}
python=${PYTHON:-$(command -v python3)}
tests=${*:-tests/host}

skip() { echo "guest tests skipped: needs $1"; exit 0; }
[ "$(id -u)" = 0 ] || skip root
for tool in qemu-system-x86_64 busybox depmod modprobe cpio gzip; do
  command -v $tool >/dev/null || skip "$tool"
done
busybox=$(command -v busybox)
ldd "$busybox" >/dev/null 2>&1 && skip "a static busybox (package busybox-static)"
mkdir -p "$work"; cd "$work"

if [ ! -d kernel/boot ]; then
  package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image-[0-9]/{print $2; exit}')
  [ -n "$package" ] || skip "a Debian kernel (apt-get update?)"
  apt-get download "$package" >/dev/null 2>&1 || skip "the package $package"
  dpkg-deb -x "$package"_*.deb kernel
fi
vmlinuz=$(ls kernel/boot/vmlinuz-* | head -1); version=${vmlinuz##*/vmlinuz-}
depmod -b kernel "$version"

rm -rf initrd; mkdir -p initrd/{bin,dev,proc,sys,newroot,mods,host,rw}
cp "$busybox" initrd/bin/busybox
number=100
for name in virtio_pci virtio_blk 9pnet_virtio 9p overlay loop ext4 crc32c_generic dm_mod dm_thin_pool dm_snapshot dm_crypt xts aes_generic veth bridge; do
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
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro host /host || poweroff -f
mount -t tmpfs tmpfs /rw; mkdir /rw/up /rw/work
mount -t overlay -o lowerdir=/host,upperdir=/rw/up,workdir=/rw/work overlay /newroot || poweroff -f
for place in dev proc sys; do mount --move /$place /newroot/$place; done
mkdir -p /newroot/dev/shm
# The disk, where there is one, is /var/tmp: files on a real file system are page cache, on a tmpfs they are memory.
mount -t ext4 /newroot/dev/vda /newroot/var/tmp 2>/dev/null || mount -t tmpfs tmpfs /newroot/var/tmp
for place in dev/shm tmp; do mount -t tmpfs tmpfs /newroot/$place; done
for place in dev/shm tmp var/tmp; do chmod 1777 /newroot/$place; done
ifconfig lo up
cp /run-tests /newroot/tmp/run-tests
exec switch_root /newroot /bin/bash /tmp/run-tests
END
start=''
if [ "${INIT:-}" = systemd ]; then
  [ -x /lib/systemd/systemd ] || skip systemd
  # The first process becomes this host's systemd, with one unit: this script once more.
  start='if [ $$ = 1 ]; then
    printf "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/bash /tmp/run-tests\nStandardOutput=tty\nTTYPath=/dev/ttyS0\nStandardError=tty\nTasksMax=infinity\n" > /etc/systemd/system/guest-tests.service
    exec /lib/systemd/systemd --unit=guest-tests.service --log-target=null
  fi'
fi
cat > initrd/run-tests <<END
$start
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup
cd "$top"
[ -e "$top"/python/slotwise/_native.abi3.so ] && export PYTHONPATH="$top/python"
export PYTHONDONTWRITEBYTECODE=1 SLOTWISE_TEST_PATIENCE=15 PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME=/tmp
${COMMAND:-"$python" -m pytest -v -rsfE --no-fold-skipped --durations=10 -p no:cacheprovider --color=no --timeout 1800 $tests}
echo "guest: exit \$?"
sync; echo o > /proc/sysrq-trigger; sleep 9
END
chmod +x initrd/init
(cd initrd && find . | cpio -o -H newc 2>/dev/null | gzip -1) > initrd.gz
disk=()
if command -v mkfs.ext4 >/dev/null; then
  rm -f disk.img; truncate -s 2G disk.img; mkfs.ext4 -q -E lazy_itable_init=1 disk.img
  disk=(-drive file=disk.img,if=virtio,format=raw,cache=unsafe)
fi
timeout "${LIMIT:-7200}" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -M pc -m 2048 -smp 2 -display none -nodefaults \
  -no-reboot -serial stdio -kernel "$vmlinuz" -initrd initrd.gz \
  "${disk[@]}" -append "console=ttyS0 mitigations=off nokaslr quiet cgroup_no_v1=all" \
  -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap </dev/null | tee guest.log
grep -q "guest: exit 0" guest.log
