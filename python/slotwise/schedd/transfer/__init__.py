"""Files of jobs at the access point: what goes out, what comes back, and the rights they are opened with."""
