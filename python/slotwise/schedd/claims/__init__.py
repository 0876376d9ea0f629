"""The schedd's side of matches and claims: resource requests, claiming, runs on claims, reconnecting."""
