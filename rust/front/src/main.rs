//! The `slotwise` command: hands the call to the resident command server of the pool when there is one,
//! else starts the Python command line.
fn main() {}
