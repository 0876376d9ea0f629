//! The table against a plain map of ads: whatever is put in comes out, also through batches and mirrors.

use std::collections::BTreeMap;

use classad::{Ad, Expr, Name, Syntax, Value, parse_expr};
use columns::{AdTable, PackHeader, PackWriter, PackedOp, diff, unpack};
use proptest::prelude::*;

const NAMES: [&str; 9] = [
    "Memory",
    "memory",
    "Cpus",
    "Start",
    "Requirements",
    "Name",
    "OpSys",
    "Rank",
    "a b",
];
const TEXTS: [&str; 6] = [
    "MY.Cpus > 0 && TARGET.RequestCpus <= MY.Cpus",
    "{ 1,2,{ \"x\" } }",
    "[ a = 1; b = a + 1 ]",
    "ifThenElse(KeyboardIdle > 60,10,-1)",
    "Memory",
    "undefined",
];

fn literal() -> impl Strategy<Value = Expr> {
    prop_oneof![
        Just(Value::Undefined),
        Just(Value::Error),
        any::<bool>().prop_map(Value::Bool),
        (0i64..4).prop_map(Value::Int),
        any::<i64>().prop_map(Value::Int),
        prop_oneof![
            Just(0.0),
            Just(-0.0),
            Just(1.5),
            any::<f64>().prop_filter("not NaN", |x| !x.is_nan())
        ]
        .prop_map(Value::Real),
        "[a-c]{0,2}".prop_map(|text| Value::from(text.as_str())),
        proptest::collection::vec(any::<u8>(), 0..12).prop_map(Value::str),
    ]
    .prop_map(Expr::Lit)
}

fn expr() -> impl Strategy<Value = Expr> {
    prop_oneof![
        4 => literal(),
        1 => proptest::sample::select(&TEXTS[..]).prop_map(|text| parse_expr(text.as_bytes(), Syntax::NORMAL).unwrap()),
    ]
}

fn ad() -> impl Strategy<Value = Ad> {
    proptest::collection::vec((proptest::sample::select(&NAMES[..]), expr()), 0..8).prop_map(
        |entries| {
            entries
                .into_iter()
                .map(|(name, expr)| (Name::from(name), expr))
                .collect()
        },
    )
}

#[derive(Clone, Debug)]
enum Step {
    Upsert(u8, Ad),
    Update(u8, Ad, Vec<&'static str>),
    Remove(u8),
    Copies(u8, Ad),
    Collect,
    Mirror,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0u8..12;
    let gone = proptest::collection::vec(proptest::sample::select(&NAMES[..]), 0..2);
    prop_oneof![
        4 => (key.clone(), ad()).prop_map(|(key, ad)| Step::Upsert(key, ad)),
        4 => (key.clone(), ad(), gone).prop_map(|(key, ad, gone)| Step::Update(key, ad, gone)),
        2 => key.clone().prop_map(Step::Remove),
        1 => (key, ad()).prop_map(|(key, ad)| Step::Copies(key, ad)),
        1 => Just(Step::Collect),
        2 => Just(Step::Mirror),
    ]
}

/// Equal ads whose names are spelled alike.
fn same(a: &Ad, b: &Ad) -> bool {
    a == b
        && a.iter()
            .all(|(name, _)| b.iter().any(|(other, _)| other.same_spelling(name)))
}

type Model = BTreeMap<String, Ad>;

fn check(table: &AdTable, model: &Model) {
    assert_eq!(table.len(), model.len());
    for (key, ad) in model {
        let found = table
            .get(key.as_bytes())
            .unwrap_or_else(|| panic!("{key} is lost"));
        assert!(same(&found, ad), "{key}: {found:?} is not {ad:?}");
    }
}

fn apply(table: &mut AdTable, model: &mut Model, step: &Step, batched: bool) {
    let mut pack = PackWriter::new(PackHeader::default());
    match step {
        Step::Upsert(key, ad) => {
            let key = format!("k{key}");
            if batched {
                pack.upsert(key.as_bytes(), ad);
            } else {
                table.upsert(key.as_bytes(), ad, 1.0).unwrap();
            }
            model.insert(key, ad.clone());
        }
        Step::Update(key, delta, gone) => {
            let key = format!("k{key}");
            let gone: Vec<Name> = gone
                .iter()
                .map(|name| Name::from(*name))
                .filter(|name| !delta.contains(name))
                .collect();
            if batched {
                pack.update(key.as_bytes(), delta, &gone);
            } else {
                table.update(key.as_bytes(), delta, &gone, 2.0).unwrap();
            }
            if let Some(ad) = model.get_mut(&key) {
                for (name, expr) in delta.iter() {
                    ad.remove(name);
                    ad.insert(name.clone(), expr.clone());
                }
                for name in &gone {
                    ad.remove(name);
                }
            }
        }
        Step::Remove(key) => {
            let key = format!("k{key}");
            if batched {
                pack.remove(key.as_bytes());
            } else {
                assert_eq!(table.remove(key.as_bytes()), model.contains_key(&key));
            }
            model.remove(&key);
        }
        Step::Copies(first, ad) => {
            let keys: Vec<String> = (*first..first + 3).map(|key| format!("k{key}")).collect();
            let bytes: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
            let deltas: Vec<Ad> = (0..3)
                .map(|at| {
                    [(Name::from("ProcId"), Expr::Lit(Value::Int(at)))]
                        .into_iter()
                        .collect()
                })
                .collect();
            table
                .insert_from_template(ad, &bytes, &deltas, 3.0)
                .unwrap();
            for (key, delta) in keys.into_iter().zip(&deltas) {
                let mut whole = ad.clone();
                whole.update(delta);
                model.insert(key, whole);
            }
        }
        Step::Collect => table.collect(),
        Step::Mirror => {}
    }
    if batched {
        table.apply(&pack.finish(), 5.0, None).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_table_and_its_mirror_hold_what_was_put_in(
        steps in proptest::collection::vec((step(), any::<bool>()), 1..40),
        rare in proptest::sample::select(&[(512, 32), (0, 0), (0, 2), (3, 2), (0, 100)][..]),
        unused in any::<bool>(),
    ) {
        let mut table = AdTable::new().with_rare_from(rare.0, rare.1);
        if unused {
            // Names that no ad has are looked for after each change.
            table = table.with_name_bytes(1 << 20, 0);
        }
        let mut model = Model::new();
        let mut mirror = AdTable::new().with_rare_from(rare.0, rare.1);
        let mut seen = 0;
        for (step, batched) in &steps {
            apply(&mut table, &mut model, step, *batched);
            check(&table, &model);
            if matches!(step, Step::Mirror) {
                let report = mirror.apply(&table.changes_since(seen), 1.0, None).unwrap();
                prop_assert!(report.unknown.is_empty() && report.refused.is_empty());
                seen = report.header.to_version;
                check(&mirror, &model);
            }
        }
    }

    #[test]
    fn a_batch_gives_back_its_ads(ads in proptest::collection::vec(ad(), 0..6)) {
        let mut pack = PackWriter::new(PackHeader { from_version: 3, to_version: 9, reset: true });
        for (at, ad) in ads.iter().enumerate() {
            match at % 3 {
                0 => pack.ad(ad),
                1 => pack.upsert(b"key", ad),
                _ => pack.update(b"key", ad, &[Name::from("Gone")]),
            }
        }
        let (header, found) = unpack(&pack.finish()).unwrap();
        prop_assert_eq!(header.to_version, 9);
        prop_assert_eq!(found.len(), ads.len());
        for (op, ad) in found.iter().zip(&ads) {
            let (PackedOp::Full(_, got) | PackedOp::Delta(_, got, _)) = op else { panic!("no ad") };
            prop_assert!(same(got, ad));
        }
    }

    #[test]
    fn hostile_bytes_are_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), header in any::<bool>()) {
        if header {
            bytes.splice(0..0, *b"SWP\x01\x00\x00\x00");
        }
        let _ = unpack(&bytes);
        let mut table = AdTable::new();
        let _ = table.apply(&bytes, 0.0, None);
        for row in table.rows() {
            table.ad(row);
        }
    }

    #[test]
    fn a_damaged_batch_never_panics(ads in proptest::collection::vec(ad(), 1..4), at in any::<proptest::sample::Index>(), byte in any::<u8>()) {
        let mut pack = PackWriter::new(PackHeader::default());
        for ad in &ads {
            pack.upsert(b"key", ad);
        }
        let mut bytes = pack.finish();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = unpack(&bytes);
        let _ = AdTable::new().apply(&bytes, 0.0, None);
        let _ = unpack(&bytes[..at]);
    }

    #[test]
    fn a_delta_takes_one_ad_to_the_other(old in ad(), new in ad()) {
        let delta = diff(&old, &new);
        let mut ad = old.clone();
        ad.update(&delta.changed);
        for name in &delta.removed {
            ad.remove(name);
        }
        prop_assert_eq!(&ad, &new);
        prop_assert!(diff(&new, &new).is_empty());
    }
}

fn gpu_ad(machine: usize, gpus: usize) -> Ad {
    let mut ad = Ad::new();
    let names: Vec<String> = (0..gpus)
        .map(|gpu| format!("GPUs_GPU_{machine:04x}{gpu:04x}"))
        .collect();
    ad.set("Memory", Expr::Lit(Value::Int(1024)));
    let list = format!("{{ {} }}", names.join(","));
    ad.set(
        "AvailableGPUs",
        parse_expr(list.as_bytes(), Syntax::NORMAL).unwrap(),
    );
    for name in names {
        let device = format!("[ Id = \"{name}\"; Capability = 8.0 ]");
        ad.set(
            &name,
            parse_expr(device.as_bytes(), Syntax::NORMAL).unwrap(),
        );
    }
    ad
}

#[test]
fn an_attribute_for_each_gpu_of_a_large_pool_costs_what_its_text_does() {
    let machines = 4000;
    let mut table = AdTable::new();
    let mut model = Model::new();
    for machine in 0..machines {
        let ad = gpu_ad(machine, 8);
        table
            .upsert(format!("m{machine}").as_bytes(), &ad, 0.0)
            .unwrap();
        if machine % 500 == 7 {
            model.insert(format!("m{machine}"), ad);
        }
    }
    assert!(table.common_columns().len() < 600);
    assert!(
        table.heap_bytes() < machines * 6000,
        "{} bytes",
        table.heap_bytes()
    );
    let mut mirror = AdTable::new();
    mirror.apply(&table.changes_since(0), 0.0, None).unwrap();
    for (key, ad) in &model {
        assert!(same(&table.get(key.as_bytes()).unwrap(), ad));
        assert!(same(&mirror.get(key.as_bytes()).unwrap(), ad));
    }
    let row = table.row_of(b"m3007").unwrap();
    let mut text = Vec::new();
    table.long_text(&[row], &table.projected(None, false), usize::MAX, &mut text);
    let text = String::from_utf8(text).unwrap();
    let names: Vec<&str> = text
        .trim_end()
        .lines()
        .filter_map(|line| line.split(" = ").next())
        .collect();
    let mut sorted = names.clone();
    sorted.sort_by_key(|name| name.to_ascii_lowercase());
    assert_eq!((names.len(), &names), (10, &sorted));
}

#[test]
fn names_of_devices_that_are_gone_make_room() {
    let mut table = AdTable::new()
        .with_rare_from(4, 2)
        .with_name_bytes(20 << 20, 1000);
    let mut mirror = AdTable::new();
    let mut seen = 0;
    for machine in 0..12_000 {
        let ad = gpu_ad(machine, 8);
        table.upsert(b"m", &ad, 0.0).unwrap();
        if machine % 700 == 0 {
            let changes = table.changes_since(seen);
            seen = mirror.apply(&changes, 0.0, None).unwrap().header.to_version;
            assert!(same(&mirror.get(b"m").unwrap(), &ad));
        }
    }
    let names = table.column_ids().count();
    assert!(names < 70_000, "{names}");
    assert_eq!(
        table
            .column_ids()
            .filter(|id| table.column_name(*id).is("Memory"))
            .count(),
        1
    );
}

#[test]
fn names_are_bounded_by_their_bytes() {
    let mut table = AdTable::new().with_name_bytes(1 << 20, 0);
    let mut refused = 0;
    for number in 0..10_000 {
        let mut ad = Ad::new();
        ad.set(&format!("Name{number}"), Expr::Lit(Value::Int(1)));
        let key = format!("k{number}");
        refused += usize::from(table.upsert(key.as_bytes(), &ad, 0.0).is_err());
    }
    assert!((5000..9000).contains(&refused), "{refused}");
    let mut ad = Ad::new();
    ad.set("Name17", Expr::Lit(Value::Int(2)));
    table.upsert(b"known", &ad, 0.0).unwrap();
    assert!(table.heap_bytes() < 8 << 20);
}

#[test]
fn a_mirror_that_is_too_far_behind_starts_anew() {
    let mut table = AdTable::new();
    let mut model = Model::new();
    let mut ad = Ad::new();
    for round in 0..200_000i64 {
        ad.set("Memory", Expr::Lit(Value::Int(round)));
        let key = format!("k{}", round % 20_000);
        if round % 3 == 2 {
            table.remove(key.as_bytes());
            model.remove(&key);
        } else {
            table.upsert(key.as_bytes(), &ad, 0.0).unwrap();
            model.insert(key, ad.clone());
        }
    }
    let mut mirror = AdTable::new();
    mirror.upsert(b"stale", &ad, 0.0).unwrap();
    let report = mirror.apply(&table.changes_since(5), 0.0, None).unwrap();
    assert!(report.header.reset);
    check(&mirror, &model);
}

#[test]
fn stale_ads_expire_by_their_own_lifetime() {
    let mut table = AdTable::new();
    let short: Ad = [(Name::from("ClassAdLifetime"), Expr::Lit(Value::Int(10)))]
        .into_iter()
        .collect();
    table.upsert(b"short", &short, 100.0).unwrap();
    table.upsert(b"long", &Ad::new(), 100.0).unwrap();
    let lifetime = Name::from("ClassAdLifetime");
    assert!(table.expire(110.0, &lifetime, 900.0).is_empty());
    assert_eq!(table.expire(110.5, &lifetime, 900.0), [b"short".to_vec()]);
    assert_eq!(table.expire(1001.0, &lifetime, 900.0), [b"long".to_vec()]);
    assert!(table.is_empty());
}

#[test]
fn what_is_remembered_of_one_table_cannot_pass_for_another() {
    let (one, two) = (AdTable::new(), AdTable::new());
    assert_ne!(one.epoch(), two.epoch());
    let mut cleared = AdTable::new();
    let before = cleared.epoch();
    cleared.clear();
    assert!(![before, one.epoch(), two.epoch()].contains(&cleared.epoch()));
}

/// The names that a projection shows of an ad.
fn shown(ad: &[(&str, &str)], projection: &[&str], alone: bool) -> Vec<String> {
    let mut table = AdTable::new();
    let mut made = Ad::new();
    for (name, text) in ad {
        made.insert(
            Name::from(*name),
            parse_expr(text.as_bytes(), Syntax::NORMAL).unwrap(),
        );
    }
    table.upsert(b"a", &made, 0.0).unwrap();
    let row = table.row_of(b"a").unwrap();
    let names: Vec<Name> = projection.iter().map(|name| Name::from(*name)).collect();
    let mut text = Vec::new();
    table.long_text(
        &[row],
        &table.projected(Some(&names), alone),
        usize::MAX,
        &mut text,
    );
    String::from_utf8(text)
        .unwrap()
        .lines()
        .filter_map(|line| line.split_once(" = ").map(|(name, _)| name.to_owned()))
        .collect()
}

#[test]
fn a_projection_brings_along_what_its_expressions_read_to_any_depth() {
    let ad = [
        ("Deep1", "Deep2 + 1"),
        ("Deep2", "MY.Deep3 * 2"),
        ("Deep3", "cpus + offset"),
        ("Cpus", "4"),
        ("Listed", "{ Deep3,\"x\" }"),
        ("Nested", "[ a = Cpus; b = a ]"),
        ("OfOther", "TARGET.Memory"),
        ("Memory", "8"),
        ("Loop1", "Loop2"),
        ("Loop2", "Loop1"),
        ("Named", "eval(\"Cpus\")"),
        ("Made", "eval(Which)"),
        ("Which", "\"Cpus\""),
    ];
    assert_eq!(
        shown(&ad, &["deep1"], false),
        ["Cpus", "Deep1", "Deep2", "Deep3"]
    );
    assert_eq!(shown(&ad, &["Deep1", "Nope"], true), ["Deep1"]);
    assert_eq!(shown(&ad, &["Cpus"], false), ["Cpus"]);
    assert_eq!(shown(&ad, &["Listed"], false), ["Cpus", "Deep3", "Listed"]);
    assert_eq!(shown(&ad, &["Nested"], false), ["Cpus", "Nested"]);
    assert_eq!(shown(&ad, &["OfOther"], false), ["OfOther"]);
    assert_eq!(shown(&ad, &["Loop1"], false), ["Loop1", "Loop2"]);
    assert_eq!(shown(&ad, &["Named"], false), ["Cpus", "Named"]);
    // It may read anything.
    assert_eq!(shown(&ad, &["Made"], false).len(), ad.len());
}

#[test]
fn what_is_read_is_brought_along_by_those_ads_alone_that_read_it() {
    let mut table = AdTable::new();
    for (key, weight) in [("a", "Cpus"), ("b", "Memory"), ("c", "2")] {
        let mut ad = Ad::new();
        ad.set(
            "SlotWeight",
            parse_expr(weight.as_bytes(), Syntax::NORMAL).unwrap(),
        );
        ad.set("Cpus", Expr::Lit(Value::Int(4)));
        ad.set("Memory", Expr::Lit(Value::Int(8)));
        table.upsert(key.as_bytes(), &ad, 0.0).unwrap();
    }
    let rows: Vec<_> = [b"a", b"b", b"c"]
        .iter()
        .map(|key| table.row_of(*key).unwrap())
        .collect();
    let names = [Name::from("SlotWeight")];
    let pack = table.pack_rows(&rows, &table.projected(Some(&names), false), true);
    let mut mirror = AdTable::new();
    mirror.apply(&pack, 0.0, None).unwrap();
    let sizes: Vec<_> = [b"a", b"b", b"c"]
        .iter()
        .map(|key| mirror.get(*key).unwrap().iter().count())
        .collect();
    assert_eq!(sizes, [2, 2, 1]);
}
