//! What a DAG may cost, whatever its files say. Beyond any DAG that a schedd could run.

/// Splices and included files within one another.
pub const DEPTH: usize = 500;
/// Times that a file is read: splices may name one file again and again.
pub const FILES: usize = 200_000;
/// Bytes of all files, each counted as often as it is read.
pub const BYTES: u64 = 1 << 30;
/// Nodes, those made to join others included.
pub const NODES: usize = 20_000_000;
/// Bytes of all nodes' names, and of everything else that is kept of the files.
pub const NAMES: usize = 1 << 31;
/// Dependencies.
pub const EDGES: usize = 200_000_000;
/// Bytes of a node's name, its splices' included.
pub const NAME: usize = 16_384;
/// Pins of a splice.
pub const PINS: i32 = 1_000_000;
/// Problems that are kept; the others are counted.
pub const PROBLEMS: usize = 1_000;
/// Variables of all nodes together.
pub const VARS: usize = 100_000_000;
