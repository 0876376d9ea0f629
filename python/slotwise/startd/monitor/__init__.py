"""What the startd observes and runs besides claims: host samples, benchmarks, devices, backfill clients."""
