"""How a machine is divided: shares, layout, custom resources, carving. Decides, does no I/O."""
