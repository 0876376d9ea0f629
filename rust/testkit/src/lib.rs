//! Builders, strategies and synthetic pools for tests and benches.
