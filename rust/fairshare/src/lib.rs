//! Numbers of fair share: usage, decay, priority, group quotas, limits.
