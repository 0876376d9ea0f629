"""Virtual machines: jobs of the VM universe, by qemu itself or by libvirt."""
