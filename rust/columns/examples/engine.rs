//! Figures of the engine on a synthetic pool: `cargo run --profile quick -p columns --example engine -- 100000 10 10`
//! (slots, submitters, autoclusters of each).

#![allow(clippy::print_stdout)]

use std::time::Instant;

use columns::{
    AdTable, EvalSettings, KeyRule, Matcher, Owner, PackHeader, PackWriter, Query, TextLoader,
    parse_constraint,
};
use testkit::{JobSpec, MachineSpec, job_ad, slot_ad, slot_name};

/// Processor time of this thread, ns: on a shared machine the wall clock says little.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(0)
}

fn timed<T>(what: &str, per: usize, work: impl FnOnce() -> T) -> T {
    let (start, before) = (Instant::now(), processor_ns());
    let out = work();
    let (wall, taken) = (
        start.elapsed().as_secs_f64(),
        (processor_ns() - before) as f64 / 1e9,
    );
    println!(
        "{what:<44} {:>9.2} ms {:>10.2} us each (wall {:.2} ms)",
        taken * 1e3,
        taken * 1e6 / per.max(1) as f64,
        wall * 1e3,
    );
    out
}

/// Reads the text of a large pool piece by piece.
fn load_text(table: &mut AdTable, spec: &MachineSpec, slots: u64) {
    let mut loader = TextLoader::new(KeyRule::Attribute(classad::Name::from("Name")), false, 0.0);
    for index in 0..slots {
        let text = testkit::slot_text(spec, index);
        loader.feed(table, text.as_bytes()).expect("good text");
        loader.feed(table, b"\n").expect("good text");
    }
    loader.finish(table).expect("good text");
    println!(
        "{slots} ads, memory: {} bytes an ad",
        table.heap_bytes() / slots as usize
    );
}

/// Whole ads and deltas, as a collector gets them.
fn updates(table: &mut AdTable, spec: &MachineSpec, slots: u64) {
    let mut packs = Vec::new();
    let mut attributes = 0;
    for start in (0..slots).step_by(1000) {
        let mut pack = PackWriter::new(PackHeader::default());
        for index in start..slots.min(start + 1000) {
            let ad = slot_ad(spec, index);
            attributes = ad.len();
            pack.upsert(slot_name(spec, index).as_bytes(), &ad);
        }
        packs.push(pack.finish());
    }
    let bytes: usize = packs.iter().map(Vec::len).sum();
    println!(
        "{slots} ads of {attributes} attributes; packed {} bytes each",
        bytes / slots as usize
    );
    timed("apply whole ads, new", slots as usize, || {
        for pack in &packs {
            table.apply(pack, 0.0, None).expect("a good pack");
        }
    });
    timed("apply whole ads, known", slots as usize, || {
        for pack in &packs {
            table.apply(pack, 1.0, None).expect("a good pack");
        }
    });
    println!(
        "memory: {} bytes an ad",
        table.heap_bytes() / slots as usize
    );
    let mut delta = PackWriter::new(PackHeader::default());
    for index in 0..slots {
        let index = testkit::mix(9, index) % slots;
        let mut change = classad::Ad::new();
        for (name, value) in [
            ("LastHeardFrom", 5),
            ("MyCurrentTime", 5),
            ("KeyboardIdle", 6),
            ("ConsoleIdle", 6),
            ("UpdateSequenceNumber", 9),
        ] {
            change.set(
                name,
                classad::Expr::Lit(classad::Value::Int(value + index as i64)),
            );
        }
        change.set(
            "LoadAvg",
            classad::Expr::Lit(classad::Value::Real(index as f64 / 64.0)),
        );
        delta.update(slot_name(spec, index).as_bytes(), &change, &[]);
    }
    let delta = delta.finish();
    timed("apply deltas of 6 attributes", slots as usize, || {
        table.apply(&delta, 2.0, None).expect("a good pack")
    });
}

/// Reading text, listings, a query.
fn text_and_queries(table: &AdTable, spec: &MachineSpec, slots: u64) {
    let mut text = String::new();
    for index in 0..slots {
        text.push_str(&testkit::slot_text(spec, index));
        text.push('\n');
    }
    println!("text: {} bytes an ad", text.len() / slots as usize);
    let mut read = AdTable::new();
    timed("read text", slots as usize, || {
        let mut loader =
            TextLoader::new(KeyRule::Attribute(classad::Name::from("Name")), false, 0.0);
        for piece in text.as_bytes().chunks(1 << 20) {
            loader.feed(&mut read, piece).expect("good text");
        }
        loader.finish(&mut read).expect("good text")
    });
    println!("memory: {} bytes an ad", read.heap_bytes() / slots as usize);
    let mut out = Vec::new();
    let rows: Vec<u32> = table.rows().collect();
    let all = table.projected(None, false);
    timed("long form of all", slots as usize, || {
        table.long_text(&rows, &all, usize::MAX, &mut out)
    });
    out.clear();
    timed("JSON of all", slots as usize, || {
        table.json_text(&rows, &all, usize::MAX, &mut out)
    });
    drop(out);
    timed("pack of all", slots as usize, || {
        table.pack_rows(&rows, &all, true).len()
    });
    let query = Query {
        constraint: parse_constraint(
            "Memory > 3000 && State == \"Unclaimed\" && regexp(\"node00\",Machine)",
        )
        .expect("parses"),
        projection: Some(
            ["Name", "Cpus", "Memory", "State", "Activity", "LoadAvg"]
                .map(classad::Name::from)
                .to_vec(),
        ),
        ..Query::default()
    };
    timed("query with constraint and projection", 1, || {
        let rows = table.select(&query);
        table
            .pack_rows(
                &rows,
                &table.projected(query.projection.as_deref(), false),
                false,
            )
            .len()
    });
}

fn main() {
    let args: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    let get = |at: usize, default: u64| args.get(at).copied().unwrap_or(default);
    let (slots, submitters, autoclusters) = (get(0, 20_000), get(1, 10), get(2, 10));
    let spec = MachineSpec {
        partitionable: get(3, 0) != 0,
        ..MachineSpec::default()
    };
    let settings = EvalSettings {
        now: spec.now,
        ..EvalSettings::default()
    };
    let mut table = AdTable::new();
    if slots > 200_000 {
        load_text(&mut table, &spec, slots);
    } else {
        updates(&mut table, &spec, slots);
        text_and_queries(&table, &spec, slots);
    }

    let mut jobs = Vec::new();
    for submitter in 0..submitters {
        for autocluster in 0..autoclusters {
            jobs.push(job_ad(&JobSpec {
                seed: 1,
                submitter,
                autocluster,
                proc: 0,
                now: spec.now,
            }));
        }
    }
    for _ in 0..get(4, 0) {
        let mut fresh = Matcher::new(settings);
        fresh.refresh(&table, settings);
        timed("first cycle again: matches", jobs.len(), || {
            jobs.iter()
                .map(|job| fresh.matches(&table, job).count())
                .sum::<usize>()
        });
    }
    let mut matcher = Matcher::new(settings);
    let cycle = |matcher: &mut Matcher, table: &AdTable, what: &str| {
        timed(&format!("{what}: refresh"), jobs.len(), || {
            matcher.refresh(table, settings)
        });
        let matched = timed(&format!("{what}: matches"), jobs.len(), || {
            jobs.iter()
                .map(|job| matcher.matches(table, job).count())
                .sum::<usize>()
        });
        let pre = classad::parse_expr(
            b"(10000000 * MY.Rank) + (1000000 * (RemoteOwner =?= undefined)) - (100000 * Cpus) - Memory",
            classad::Syntax::NORMAL,
        )
        .expect("parses");
        timed(&format!("{what}: job ranks"), jobs.len(), || {
            jobs.iter()
                .map(|job| matcher.job_rank(table, job).by_group().len())
                .sum::<usize>()
        });
        timed(&format!("{what}: pre-job ranks"), jobs.len(), || {
            jobs.iter()
                .map(|job| {
                    matcher
                        .numbers(table, &pre, Owner::Slot, Some(job))
                        .by_group()
                        .len()
                })
                .sum::<usize>()
        });
        println!("    {matched} matches");
    };
    cycle(&mut matcher, &table, "first cycle");
    cycle(&mut matcher, &table, "same again");
    for index in 0..slots / 100 {
        let name = slot_name(&spec, testkit::mix(77, index) % slots);
        let change: classad::Ad = [
            ("Memory", 1000 + index as i64 % 50),
            ("Disk", 5_000_000 + index as i64),
        ]
        .into_iter()
        .map(|(name, value)| {
            (
                classad::Name::from(name),
                classad::Expr::Lit(classad::Value::Int(value)),
            )
        })
        .collect();
        table
            .update(name.as_bytes(), &change, &[], 0.0)
            .expect("few names");
    }
    cycle(&mut matcher, &table, "1 % changed");
}
