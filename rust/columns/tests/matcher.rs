//! The matcher against the plain evaluator: the same answer for every row, also after changes.

use classad::{Ad, Context, Expr, Name, Syntax, Value, matching, parse_expr};
use columns::{AdTable, EvalSettings, ExternalsRef, Matcher, Owner, Query, Row, Truth};
use proptest::prelude::*;

const SETTINGS: EvalSettings = EvalSettings {
    now: 1_800_000_000,
    utc_offset_s: 3600,
    seed: 7,
    strict: false,
    externals: ExternalsRef(None),
};

const NAMES: [&str; 10] = [
    "Requirements",
    "Start",
    "Memory",
    "Cpus",
    "OpSys",
    "Owner",
    "Rank",
    "Sub",
    "Items",
    "CurrentTime",
];

/// Functions of the language that an argument may be left out of, or be anything.
fn call(inner: &BoxedStrategy<String>) -> BoxedStrategy<String> {
    let table = classad::builtins::table();
    let args = proptest::collection::vec(inner.clone(), 0..4);
    (0..table.len(), args)
        .prop_map(move |(at, mut args)| {
            let spec = &table[at];
            let least = usize::from(spec.min_args);
            while args.len() < least {
                args.push(["Memory", "Items", "OpSys"][args.len() % 3].to_owned());
            }
            args.truncate(usize::from(spec.max_args).max(least));
            format!("{}({})", spec.name, args.join(","))
        })
        .boxed()
}

/// Calls of the kinds that are written in real policies.
fn useful(inner: &BoxedStrategy<String>) -> BoxedStrategy<String> {
    const FORMS: &[&str] = &[
        "member(#, {#, #})",
        "identicalMember(#, Items)",
        "sum({#, #})",
        "max({1, #})",
        "min(Items)",
        "avg({#, Memory})",
        "anyCompare(\"<\", {#, Cpus}, #)",
        "allCompare(\">=\", Items, #)",
        "split(OpSys)[#]",
        "versionGE(split(OpSys)[1], \"25.1\")",
        "stringListMember(#, \"a,A,LINUX\")",
        "stringListIMember(OpSys, \"linux\")",
        "regexp(\"^l\", #, \"i\")",
        "regexpMember(\"a\", {#, OpSys})",
        "substr(OpSys, #)",
        "join(\",\", #, Memory)",
        "quantize(#, {1, 4, 16})",
        "sum(evalInEachContext(Memory + #, Items))",
        "countMatches(Memory > #, Items)",
        "countMatches(MY.Start, Items)",
        "countMatches(TARGET.Start, Items) >= #",
        "evalInEachContext(Start, MY.Items)",
        "unresolved(Start)",
        "unparse(Start)",
        "ifThenElse(#, #, #)",
        "(# ? # : #)",
        "(# ?: #)",
        "interval(#)",
        "formatTime(#, \"%H\")",
        "(CurrentTime - #)",
        "TARGET[\"Memory\"]",
        "MY[#]",
        "Sub.Memory",
        "TARGET.Sub.Memory",
        "eval(\"Memory + 1\")",
        "eval(strcat(\"Mem\", \"ory\"))",
        "eval(strcat(\"Cpus + \", Memory))",
        "eval(OpSys)",
        "eval(ifThenElse(Memory > 1, \"Start\", \"TARGET.Cpus > #\"))",
        "eval(strcat(\"Cpus\", \" > \", string(Memory)))",
        ".Memory",
        "size(MY)",
        "userMap(\"m\", OpSys, #, \"x\")",
        "absTime(#)",
        "relTime(#)",
        "toUpper(string(#))",
        "Items[#]",
        "{#, #}[#]",
        "[Memory = #; x = Memory + #].x",
    ];
    let parts = proptest::collection::vec(inner.clone(), 3);
    (proptest::sample::select(FORMS), parts)
        .prop_map(|(form, parts)| {
            let mut parts = parts.iter();
            let mut out = String::new();
            for piece in form.split_inclusive('#') {
                match piece.strip_suffix('#') {
                    Some(text) => {
                        out.push_str(text);
                        out.push_str(parts.next().map_or("Cpus", String::as_str));
                    }
                    None => out.push_str(piece),
                }
            }
            format!("({out})")
        })
        .boxed()
}

/// Texts of small expressions over those names.
fn expr_text() -> impl Strategy<Value = String> {
    let literal = prop_oneof![
        (0i64..4).prop_map(|value| value.to_string()),
        proptest::sample::select(
            &[
                "true",
                "false",
                "undefined",
                "error",
                "1.5",
                "\"a\"",
                "\"A\"",
                "\"LINUX\"",
                "\"v 25.2 x\"",
                "{1,\"a\"}",
                "9007199254740993"
            ][..]
        )
        .prop_map(str::to_owned),
    ];
    let reference = (
        proptest::sample::select(&["", "MY.", "TARGET."][..]),
        proptest::sample::select(&NAMES[..]),
    )
        .prop_map(|(scope, name)| format!("{scope}{name}"));
    let leaf = prop_oneof![2 => literal, 3 => reference];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let op = proptest::sample::select(
            &["&&", "||", "==", "!=", "<", "<=", ">", ">=", "=?=", "=!=", "+", "-", "*", "/", "%", "&", "<<"][..],
        );
        prop_oneof![
            3 => call(&inner),
            4 => useful(&inner),
            2 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} || {b})")),
            4 => (inner.clone(), op, inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            3 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} && {b}")),
            1 => inner.clone().prop_map(|a| format!("!({a})")),
            1 => inner.clone().prop_map(|a| format!("-({a})")),
            1 => (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} ?: {b})")),
            1 => inner.clone().prop_map(|a| format!("isUndefined({a})")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("strcat({a},{b})")),
            1 => inner.clone().prop_map(|a| format!("toUpper({a})")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("regexp({a},{b})")),
            1 => inner.clone().prop_map(|a| format!("eval({a})")),
            1 => inner.clone().prop_map(|a| format!("(random(10) < {a})")),
            1 => inner.clone().prop_map(|a| format!("(time() - {a})")),
            1 => inner.clone().prop_map(|a| format!("size({a})")),
            1 => inner.clone().prop_map(|a| format!("real({a})")),
            1 => (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("ifThenElse({a},{b},{c})")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{{{a},{b}}}[{b}]")),
            1 => (inner.clone(), inner).prop_map(|(a, b)| format!("[Memory = {a}; x = {b} + Memory].x")),
        ]
    })
}

const VALUES: &[&str] = &[
    "\"LINUX\"",
    "\"a\"",
    "\"v 25.2 x\"",
    "2.5",
    "true",
    "undefined",
    "{1, 2}",
    "{\"a\", 3}",
    "{Memory, Cpus}",
    "{[Memory = 1; Cpus = 2], [Memory = 3]}",
    "[Memory = 2; Deep = Cpus + 1]",
];

fn parsed(text: &str) -> Expr {
    parse_expr(text.as_bytes(), Syntax::NORMAL).unwrap_or(Expr::Lit(Value::Undefined))
}

fn ad() -> impl Strategy<Value = Ad> {
    let entry = (
        proptest::sample::select(&NAMES[..]),
        prop_oneof![
            2 => (0i64..4).prop_map(|value| value.to_string()),
            1 => proptest::sample::select(VALUES).prop_map(str::to_owned),
            2 => expr_text(),
        ],
    );
    (
        proptest::collection::vec(entry, 0..7),
        expr_text(),
        any::<bool>(),
    )
        .prop_map(|(entries, requirements, has)| {
            let mut ad: Ad = entries
                .iter()
                .map(|(name, text)| (Name::from(*name), parsed(text)))
                .collect();
            if has {
                ad.set("Requirements", parsed(&requirements));
            }
            ad
        })
}

fn context<'a>(my: &'a Ad, target: &'a Ad) -> Context<'a> {
    Context {
        my: Some(my),
        target: Some(target),
        now: SETTINGS.now,
        utc_offset_s: SETTINGS.utc_offset_s,
        seed: SETTINGS.seed,
        strict: SETTINGS.strict,
        externals: None,
    }
}

fn shown(value: &Value) -> String {
    String::from_utf8_lossy(&classad::print::unparse_value(value)).into_owned()
}

fn passes(truth: &Truth, row: Row) -> bool {
    match truth {
        Truth::Never => false,
        Truth::Always => true,
        Truth::Rows(rows) => rows.get(row as usize),
    }
}

/// Asks everything of both and compares.
fn check(matcher: &Matcher, table: &AdTable, job: &Ad, expr: &Expr) {
    let matches = matcher.matches(table, job);
    let job_side = matcher.job_accepts(table, job);
    let slot_side = matcher.slot_accepts(table, job);
    let by_job = matcher.values(table, expr, Owner::Job, Some(job));
    let by_slot = matcher.values(table, expr, Owner::Slot, Some(job));
    let true_by_slot = matcher.truth(table, expr, Owner::Slot, Some(job));
    let alone = matcher.values(table, expr, Owner::Slot, None);
    let rank = matcher.job_rank(table, job);
    for row in table.rows() {
        let slot = table.ad(row);
        let (mine, theirs) = (context(job, &slot), context(&slot, job));
        let what = || {
            let shown = |ad: &Ad| shown(&Value::ad(ad.clone()));
            let expr = classad::unparse_text(expr);
            format!(
                "row {row} {}\njob {}\nexpr {expr}",
                shown(&slot),
                shown(job)
            )
        };
        assert_eq!(
            passes(&job_side, row),
            matching::accepts(&mine),
            "job side, {}",
            what()
        );
        assert_eq!(
            passes(&slot_side, row),
            matching::accepts(&theirs),
            "slot side, {}",
            what()
        );
        assert_eq!(
            matches.get(row as usize),
            matching::symmetric(&mine),
            "match, {}",
            what()
        );
        assert_eq!(
            shown(by_job.get(row)),
            shown(&classad::evaluate(expr, &mine)),
            "by job, {}",
            what()
        );
        let value = classad::evaluate(expr, &theirs);
        assert_eq!(
            shown(by_slot.get(row)),
            shown(&value),
            "by slot, {}",
            what()
        );
        assert_eq!(
            passes(&true_by_slot, row),
            value.is_true(),
            "truth, {}",
            what()
        );
        let lone = Context {
            target: None,
            ..theirs
        };
        assert_eq!(
            shown(alone.get(row)),
            shown(&classad::evaluate(expr, &lone)),
            "alone, {}",
            what()
        );
        let expected = job
            .get_str("Rank")
            .map(|rank| classad::evaluate(rank, &mine))
            .and_then(|value| value.as_number());
        assert_eq!(
            rank.get(row),
            expected.filter(|rank| !rank.is_nan()),
            "rank, {}",
            what()
        );
    }
    let explained = matcher.explain(table, job);
    assert_eq!(explained.matches, matches.count());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_row_gets_the_plain_answer(
        slots in proptest::collection::vec(ad(), 1..12),
        jobs in proptest::collection::vec(ad(), 1..3),
        expr in expr_text(),
        programs_from in proptest::sample::select(&[0usize, 0, 1, 3, usize::MAX][..]),
        changes in proptest::collection::vec((0usize..14, ad(), 0u8..3), 0..6),
    ) {
        let mut table = AdTable::new();
        for (at, slot) in slots.iter().enumerate() {
            table.upsert(format!("slot{at}").as_bytes(), slot, 0.0).unwrap();
        }
        let expr = parsed(&expr);
        let mut matcher = match programs_from {
            0 => Matcher::new(SETTINGS).eager(),
            from => Matcher::new(SETTINGS).with_programs_from(from),
        };
        matcher.refresh(&table, SETTINGS);
        for job in jobs.iter().chain(&jobs) {
            check(&matcher, &table, job, &expr);
        }
        for (at, ad, how) in &changes {
            let key = format!("slot{at}");
            match how {
                0 => { table.remove(key.as_bytes()); }
                1 => { table.update(key.as_bytes(), ad, &[Name::from("Memory")], 0.0).unwrap(); }
                _ => { table.upsert(key.as_bytes(), ad, 0.0).unwrap(); }
            }
            matcher.refresh(&table, SETTINGS);
            for job in &jobs {
                check(&matcher, &table, job, &expr);
            }
        }
    }
}

/// Comparisons with integers, which are made where the values lie, and conditions made of them.
const COMPARISONS: &[&str] = &[
    "Memory > 1",
    "2 <= MY.Memory",
    "Memory == 9007199254740993",
    "Memory =?= 2",
    "Memory =!= 2",
    "TARGET.Memory == 1",
    "Memory != 1 && Cpus < 2",
    "Memory == 1 || Cpus == 2",
    "!(Memory == 1)",
    "(Memory == 1) is undefined",
    "isError(Memory < 2)",
    "MY.MY == 1",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn questions_about_parts_of_a_table_get_the_plain_answers(
        slots in proptest::collection::vec(ad(), 1..12),
        gone in 0usize..24,
        target in proptest::option::of(ad()),
        expr in prop_oneof![expr_text(), proptest::sample::select(COMPARISONS).prop_map(str::to_owned)],
        cuts in [0usize..14, 0usize..14],
        rare in any::<bool>(),
    ) {
        let mut table = if rare { AdTable::new().with_rare_from(0, 2) } else { AdTable::new() };
        for (at, slot) in slots.iter().enumerate() {
            table.upsert(format!("slot{at}").as_bytes(), slot, 0.0).unwrap();
        }
        table.remove(format!("slot{gone}").as_bytes());
        // Numbers are drawn in the order of the rows that are asked.
        prop_assume!(!expr.contains("random"));
        let text = expr;
        let expr = parsed(&text);
        let mut cuts = [0, cuts[0], cuts[1], 100];
        cuts.sort_unstable();
        let mut found = Vec::new();
        let mut values = Vec::new();
        for part in cuts.windows(2) {
            let query = Query {
                constraint: Some(expr.clone()),
                target: target.clone(),
                rows: Some(part[0]..part[1]),
                settings: SETTINGS,
                ..Query::default()
            };
            found.extend(table.select(&query));
            let of_part = table.evaluate_columns(&[classad::unparse_text(&expr)], &query).unwrap();
            let rows = table.rows().filter(|row| (part[0]..part[1]).contains(&(*row as usize)));
            values.extend(rows.map(|row| shown(of_part[0].get(row))));
        }
        let plain = |row: Row| {
            let slot = table.ad(row);
            let mut context = context(&slot, &slot);
            context.target = target.as_ref();
            classad::evaluate(&expr, &context)
        };
        let wanted: Vec<Row> = table.rows().filter(|row| plain(*row).is_true()).collect();
        assert_eq!(found, wanted, "{text}");
        assert_eq!(values, table.rows().map(|row| shown(&plain(row))).collect::<Vec<_>>(), "{text}");
    }
}

/// What an attribute that is named after a device may be.
const DEVICES: &[&str] = &[
    "[Memory = 1; Id = \"a\"]",
    "[Memory = 1; Id = \"b\"]",
    "[Memory = 2; Id = \"a\"; Cpus = 1]",
    "[Memory = 2.0; Id = \"c\"]",
    "[Memory = Cpus + 1; Id = \"d\"]",
    "[memory = 3; Start = TARGET.Memory > 1]",
    "[Memory = 1; Dev1 = 2]",
    "[MY = 3; Memory = 2]",
    "[Memory = 1; Sub = [Cpus = 2]]",
    "3",
    "undefined",
    "{Dev0, Dev2}",
    "Devs",
    "Other",
];

/// What the list of devices may be.
const LISTS: &[&str] = &[
    "{Dev0, Dev1}",
    "{Dev1, Dev0}",
    "{Dev1, Dev2, Dev3}",
    "{dev0, DEV3}",
    "{Dev2}",
    "{Dev0, Dev0}",
    "{ }",
    "{Dev3, Devs}",
    "{Dev0, Other}",
    "{MY.Dev0, TARGET.Dev1}",
    "{Dev0, [Memory = 2]}",
    "{Dev0, Cpus}",
    "split(\"Dev0\")",
    "undefined",
    "2",
];

/// How lists of devices are used, and the names in them.
const OF_DEVICES: &[&str] = &[
    "countMatches(MY.Start, TARGET.Devs) >= Cpus",
    "countMatches(Start, Devs)",
    "countMatches(Memory > 1, Devs) > 0",
    "countMatches(Memory >= Cpus, TARGET.Devs)",
    "evalInEachContext(Id, TARGET.Devs)",
    "evalInEachContext(Memory + Cpus, Devs)",
    "evalInEachContext(Sub, Devs)",
    "evalInEachContext(Dev1.Memory, Devs)",
    "evalInEachContext(Devs, Other)",
    "evalInEachContext(countMatches(Memory > 1, Devs), Devs)",
    "sum(evalInEachContext(Memory, TARGET.Devs)) > 2",
    "countMatches(Start, Devs) > 0 && countMatches(Memory > 1, Other) < 2",
    "countMatches(Start, Devs) > 1 || countMatches(Memory > 1, Devs) > 0",
    "countMatches(Start, Devs) + size(Devs)",
    "ifThenElse(Cpus > 1, countMatches(Start, TARGET.Devs), Memory)",
    "(Memory > 1 ? Cpus : countMatches(Memory > 1, TARGET.Devs))",
    "size(Devs)",
    "unparse(Devs)",
    "unparse(Dev0)",
    "Devs",
    "Devs[0].Memory",
    "Dev0.Memory",
    "TARGET.Dev1",
    "Other",
    "eval(\"countMatches(Memory > 1, Devs)\")",
    "TARGET[\"Devs\"]",
    "[Dev0 = [Memory = 9]; y = countMatches(Memory > 1, Devs)].y",
    "countMatches([Dev0 = 1; y = Memory > Dev0].y, Devs)",
    "countMatches(Memory > 1, {Dev0, Dev1})",
    "countMatches(Start, Other)",
    "Start",
];

/// What is asked of each device. (A condition that asks itself of each costs all the steps there are.)
const CONDITIONS: &[&str] = &[
    "Memory > 1",
    "Memory >= Cpus && Id == \"a\"",
    "Id",
    "TARGET.Memory < 2",
    "Dev1.Memory > 1",
    "size(Devs) > 1",
    "countMatches(Memory > 1, Devs) > 0",
    "Sub.Cpus == 2",
];

/// An ad with devices, a list of some of them, and expressions that use it.
fn device_ad() -> impl Strategy<Value = Ad> {
    let device = proptest::option::weighted(0.7, proptest::sample::select(DEVICES));
    let list = proptest::option::weighted(0.9, proptest::sample::select(LISTS));
    let of = proptest::option::of(proptest::sample::select(OF_DEVICES));
    let start = proptest::option::weighted(0.8, proptest::sample::select(CONDITIONS));
    let small = proptest::option::weighted(0.8, 0i64..3);
    (
        proptest::collection::vec(device, 4),
        [list.clone(), list],
        (start, of.clone(), of),
        [small.clone(), small],
    )
        .prop_map(
            |(devices, [list, other], (start, requirements, rank), [memory, cpus])| {
                let mut ad = Ad::new();
                for (at, device) in devices.into_iter().enumerate() {
                    if let Some(text) = device {
                        ad.set(&format!("Dev{at}"), parsed(text));
                    }
                }
                let texts = [
                    ("Devs", list),
                    ("Other", other),
                    ("Start", start),
                    ("Requirements", requirements),
                    ("Rank", rank),
                ];
                for (name, text) in texts {
                    if let Some(text) = text {
                        ad.set(name, parsed(text));
                    }
                }
                for (name, value) in [("Memory", memory), ("Cpus", cpus)] {
                    if let Some(value) = value {
                        ad.set(name, Expr::Lit(Value::Int(value)));
                    }
                }
                ad
            },
        )
}

/// An ad that asks for devices and has few or none of its own.
fn device_job() -> impl Strategy<Value = Ad> {
    let own = proptest::sample::select(&[0usize, 0, 0, 0, 1, 4][..]);
    (device_ad(), own).prop_map(|(mut ad, own)| {
        for at in own..4 {
            ad.remove(&Name::from(format!("Dev{at}").as_str()));
        }
        if own == 0 {
            ad.remove(&Name::from("Devs"));
            ad.remove(&Name::from("Other"));
        }
        ad
    })
}

/// What happens to an ad between two questions.
#[derive(Clone, Debug)]
enum Change {
    Remove,
    Replace(Ad),
    Update(Ad),
    Lose(&'static str),
}

fn change() -> impl Strategy<Value = (usize, Change)> {
    let names = &["Dev0", "Dev1", "Dev2", "Devs", "Other", "Memory"][..];
    let how = prop_oneof![
        1 => Just(Change::Remove),
        2 => device_ad().prop_map(Change::Replace),
        2 => device_ad().prop_map(|mut ad| {
            ad.remove(&Name::from("Devs"));
            Change::Update(ad)
        }),
        2 => proptest::sample::select(names).prop_map(Change::Lose),
    ];
    (0usize..14, how)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn lists_of_devices_get_the_plain_answer(
        slots in proptest::collection::vec(device_ad(), 1..12),
        jobs in proptest::collection::vec(device_job(), 1..4),
        exprs in proptest::collection::vec(proptest::sample::select(OF_DEVICES), 1..3),
        eager in any::<bool>(),
        rare in any::<bool>(),
        changes in proptest::collection::vec(change(), 0..6),
    ) {
        let mut table = if rare { AdTable::new().with_rare_from(0, 2) } else { AdTable::new() };
        for (at, slot) in slots.iter().enumerate() {
            table.upsert(format!("slot{at}").as_bytes(), slot, 0.0).unwrap();
        }
        let exprs: Vec<Expr> = exprs.into_iter().map(parsed).collect();
        let mut matcher = Matcher::new(SETTINGS).with_lists_from(1);
        if eager {
            matcher = matcher.eager();
        }
        matcher.refresh(&table, SETTINGS);
        let ask = |matcher: &Matcher, table: &AdTable| {
            for (job, expr) in jobs.iter().flat_map(|job| exprs.iter().map(move |expr| (job, expr))) {
                check(matcher, table, job, expr);
            }
        };
        ask(&matcher, &table);
        for (at, change) in &changes {
            let key = format!("slot{at}");
            match change {
                Change::Remove => { table.remove(key.as_bytes()); }
                Change::Replace(ad) => { table.upsert(key.as_bytes(), ad, 0.0).unwrap(); }
                Change::Update(ad) => { table.update(key.as_bytes(), ad, &[], 0.0).unwrap(); }
                Change::Lose(name) => {
                    table.update(key.as_bytes(), &Ad::new(), &[Name::from(*name)], 0.0).unwrap();
                }
            }
            matcher.refresh(&table, SETTINGS);
            ask(&matcher, &table);
        }
    }
}

/// A machine of 8 GPUs as HTCondor 25 advertises it; the number of its kind says how good they are.
fn gpu_machine(machine: usize, kind: usize) -> Ad {
    let mut ad = Ad::new();
    let names: Vec<String> = (0..8)
        .map(|gpu| format!("GPUs_GPU_{:08x}", machine * 8 + gpu))
        .collect();
    ad.set(
        "AvailableGPUs",
        parsed(&format!("{{ {} }}", names.join(","))),
    );
    for name in names {
        let device = format!(
            "[ Id = \"{name}\"; DeviceUuid = \"{name}-4445\"; Capability = {}.0; GlobalMemoryMb = {} ]",
            7 + kind,
            20_000 + kind * 10_000
        );
        ad.set(&name, parsed(&device));
    }
    ad
}

#[test]
fn machines_with_devices_of_one_kind_are_asked_once() {
    let (machines, kinds) = (300, 3);
    let mut table = AdTable::new();
    for machine in 0..machines {
        let ad = gpu_machine(machine, machine % kinds);
        table
            .upsert(format!("m{machine}").as_bytes(), &ad, 0.0)
            .unwrap();
    }
    let mut job = Ad::new();
    job.set("RequestGPUs", Expr::Lit(Value::Int(8)));
    job.set(
        "RequireGPUs",
        parsed("Capability >= 8.0 && GlobalMemoryMb > 25000"),
    );
    let expr = parsed("countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= RequestGPUs");
    job.set("Requirements", expr.clone());
    let mut matcher = Matcher::new(SETTINGS);
    let groups = |matcher: &Matcher, table: &AdTable, job: &Ad| {
        check(matcher, table, job, &expr);
        let values = matcher.values(table, &expr, Owner::Job, Some(job));
        let mut seen: Vec<usize> = table
            .rows()
            .map(|row| values.groups().group(row as usize))
            .collect();
        seen.sort_unstable();
        seen.dedup();
        seen.len()
    };
    matcher.refresh(&table, SETTINGS);
    assert_eq!(groups(&matcher, &table, &job), kinds);
    // One machine loses a device, one changes its kind, one is new.
    let gone = Name::from("GPUs_GPU_00000000");
    table.update(b"m0", &Ad::new(), &[gone], 0.0).unwrap();
    table.upsert(b"m1", &gpu_machine(1, 2), 0.0).unwrap();
    table
        .upsert(b"new", &gpu_machine(machines, 1), 0.0)
        .unwrap();
    matcher.refresh(&table, SETTINGS);
    assert_eq!(groups(&matcher, &table, &job), kinds + 1);
    // Who asks for ids tells the machines apart, and so does who means a device by its name.
    let mut by_id = job.clone();
    by_id.set("RequireGPUs", parsed("Id != \"GPUs_GPU_00000011\""));
    assert_eq!(groups(&matcher, &table, &by_id), machines + 1);
    let mut by_name = job.clone();
    by_name.set("GPUs_GPU_00000018", Expr::Lit(Value::Int(1)));
    assert_eq!(groups(&matcher, &table, &by_name), kinds + 2);
}

#[test]
fn the_deepest_expressions_fit_into_a_small_stack() {
    let forms = [
        ("(1 + ", ")"),
        ("(Memory > 1 ? ", " : 3)"),
        ("(Memory ?: ", ")"),
        ("toUpper(", ")"),
        ("ifThenElse(Memory > 1, ", ", 2)"),
        ("(Memory > 1 && !", ")"),
        ("{1, ", "}[1]"),
        ("[x = ", "].x"),
        ("member(1, {2, ", "})"),
    ];
    for (before, after) in forms {
        for depth in [60, 85, 120, 170, 200, 380, 500] {
            let text = format!("{}Memory{}", before.repeat(depth), after.repeat(depth));
            let run = move || {
                let mut table = AdTable::new();
                for row in 0..3i64 {
                    let slot: Ad = [
                        (Name::from("Memory"), Expr::Lit(Value::Int(row))),
                        (Name::from("Deep"), parsed(&text)),
                    ]
                    .into_iter()
                    .collect();
                    table
                        .upsert(format!("slot{row}").as_bytes(), &slot, 0.0)
                        .unwrap();
                }
                let mut matcher = Matcher::new(SETTINGS).eager();
                matcher.refresh(&table, SETTINGS);
                check(&matcher, &table, &Ad::new(), &parsed("MY.Deep"));
            };
            let thread = std::thread::Builder::new()
                .stack_size(2 << 20)
                .spawn(run)
                .unwrap();
            thread.join().unwrap();
        }
    }
}

#[test]
fn questions_about_parts_of_many_rows_do_work_for_those_alone() {
    let mut table = AdTable::new();
    for number in 0..5000 {
        let mut ad = Ad::new();
        // Whole chunks of one value, of few, of a value a row, and of none.
        let value = match number / 1024 {
            0 => 7,
            1 => number % 5,
            _ => number,
        };
        if number < 4096 {
            ad.set("Number", Expr::Lit(Value::Int(value)));
        }
        if number % 100 == 50 {
            ad.set("Number", parsed("\"text\""));
        }
        table
            .upsert(number.to_string().as_bytes(), &ad, 0.0)
            .unwrap();
    }
    table.remove(b"3000");
    let name = Name::from("Number");
    for text in [
        "Number == 7",
        "Number >= 3",
        "2500 > Number",
        "Number != 3100",
        "Number =?= undefined",
        "Number =!= 3001",
        "isError(Number > 1)",
        "Number % 2 == 1",
    ] {
        let expr = parsed(text);
        let mut found = Vec::new();
        for rows in [0..100, 100..1100, 1100..2050, 2050..4999, 4999..9000] {
            let query = Query {
                constraint: Some(expr.clone()),
                rows: Some(rows.clone()),
                settings: SETTINGS,
                ..Query::default()
            };
            found.extend(table.select(&query));
            let matcher = Matcher::new(SETTINGS).within(rows.clone());
            let groups = matcher.groups(&table, std::slice::from_ref(&name));
            assert!(groups.count() <= rows.len());
            assert_eq!(groups.rows(), rows.start..rows.end.min(5000));
        }
        let wanted: Vec<Row> = table
            .rows()
            .filter(|row| {
                let ad = table.ad(*row);
                let context = Context {
                    my: Some(&ad),
                    target: None,
                    ..context(&ad, &ad)
                };
                classad::evaluate(&expr, &context).is_true()
            })
            .collect();
        assert_eq!(found, wanted, "{text}");
        assert!(!wanted.is_empty(), "{text}");
    }
}
