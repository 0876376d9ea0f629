//! Prints a synthetic pool as ad text: `synthetic-pool slots 1000 [seed=1 classes=8 slots_per_machine=32
//! partitionable=0 claimed_every=0 now=1800000000]` or `synthetic-pool jobs SUBMITTERS AUTOCLUSTERS JOBS
//! [seed=1 now=...]`.

use std::io::{BufWriter, Write};

use testkit::{JobSpec, MachineSpec, job_text, slot_text};

const USAGE: &str = "usage: synthetic-pool slots COUNT [name=number...] | jobs SUBMITTERS AUTOCLUSTERS JOBS [name=number...]";

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let option = |name: &str, default: u64| {
        let given = words
            .iter()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok());
        given.unwrap_or(default)
    };
    let now = option("now", 1_800_000_000) as i64;
    let mut out = BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
    match (words.first().map(String::as_str), &*numbers) {
        (Some("slots"), [count, ..]) => {
            let spec = MachineSpec {
                seed: option("seed", 1),
                classes: option("classes", 8),
                slots_per_machine: option("slots_per_machine", 32),
                partitionable: option("partitionable", 0) != 0,
                claimed_every: option("claimed_every", 0),
                now,
            };
            for index in 0..*count {
                writeln!(out, "{}", slot_text(&spec, index))?;
            }
        }
        (Some("jobs"), [submitters, autoclusters, jobs, ..]) => {
            let seed = option("seed", 1);
            for submitter in 0..*submitters {
                for autocluster in 0..*autoclusters {
                    for proc in 0..*jobs {
                        let spec = JobSpec {
                            seed,
                            submitter,
                            autocluster,
                            proc,
                            now,
                        };
                        writeln!(out, "{}", job_text(&spec))?;
                    }
                }
            }
        }
        _ => return Err(std::io::Error::other(USAGE)),
    }
    out.flush()
}
