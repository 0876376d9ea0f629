"""What a host can enforce on its jobs: accounts, cores, devices."""
