"""DAGs of jobs: HTCondor's DAG files, of which the Rust crate ``dag`` has the language and the graph."""
