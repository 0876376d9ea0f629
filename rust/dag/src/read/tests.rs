use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::files::Fault;

struct Some_(HashMap<String, String>);

impl Files for Some_ {
    fn read(&self, path: &str, most: u64) -> Result<String, Fault> {
        let text = self.0.get(path).ok_or(Fault::Missing)?;
        if text.len() as u64 > most {
            return Err(Fault::TooLarge);
        }
        Ok(text.clone())
    }
}

fn files(those: &[(&str, &str)]) -> Some_ {
    let pairs = those
        .iter()
        .map(|(name, text)| (format!("/w/{name}"), (*text).to_owned()));
    Some_(pairs.collect())
}

fn options() -> Options {
    Options {
        directory: "/w".to_owned(),
        ..Options::default()
    }
}

fn of(those: &[(&str, &str)]) -> Outcome {
    read(&files(those), &["x.dag".to_owned()], &options())
}

/// The log of the first error, as HTCondor writes it.
fn log(those: &[(&str, &str)]) -> Vec<String> {
    let outcome = of(those);
    let first = outcome
        .problems
        .iter()
        .find(|p| p.severity == Severity::Error);
    first.map_or_else(Vec::new, |problem| problem.log.clone())
}

fn valid(those: &[(&str, &str)]) -> Graph {
    let outcome = of(those);
    assert!(outcome.is_valid(), "{:?}", outcome.problems);
    outcome.graph
}

fn edges(graph: &Graph) -> Vec<String> {
    let mut found = Vec::new();
    for node in 0..graph.nodes.len() as NodeId {
        for (child, weak) in graph.children(node) {
            let arrow = if weak { "~" } else { ">" };
            found.push(format!("{}{arrow}{}", graph.name(node), graph.name(child)));
        }
    }
    found
}

fn names(graph: &Graph, nodes: &[NodeId]) -> Vec<String> {
    nodes
        .iter()
        .map(|node| graph.name(*node).to_owned())
        .collect()
}

const DIAMOND: &str = "PARENT A CHILD B C\nJOB A a.sub\nJOB B b.sub DIR 'd e'\nJOB C c.sub NOOP\nJOB D d.sub DONE\nPARENT B C CHILD D\n";

#[test]
fn a_diamond() {
    let graph = valid(&[("x.dag", DIAMOND)]);
    assert_eq!(edges(&graph), ["A>B", "A>C", "B>D", "C>D"]);
    let [b, c, d] =
        ["B", "C", "D"].map(|name| graph.nodes[graph.find(name).unwrap() as usize].clone());
    assert_eq!(
        (graph.text(b.description), graph.text(b.directory)),
        ("b.sub", "d e")
    );
    assert!(c.noop && d.done && d.done_by_job);
    assert_eq!(graph.parent_count(3), 2);
}

#[test]
fn the_first_error_is_htcondors_with_its_place() {
    for (text, expected) in [
        (
            "JOB A a\nFROB A",
            vec![
                "ERROR: x.dag:2 'FROB' is not a valid DAG command",
                "       Example sytanx: Not a valid command",
            ],
        ),
        (
            "JOB A a\nJOB A b",
            vec![
                "ERROR: Node A already exists in DAG.",
                "Processing error at x.dag:2",
            ],
        ),
        (
            "JOB A a\nPARENT Z CHILD A",
            vec![
                "ERROR: Node Z not found!",
                "ERROR: Unknown parent node Z specified",
                "Processing error at x.dag:2",
            ],
        ),
        (
            "JOB A a\nRETRY Z 1",
            vec![
                "ERROR: Node Z not found!",
                "ERROR: Unknown node Z referenced.",
                "Processing error at x.dag:2",
            ],
        ),
        (
            "FINAL F a\nFINAL G a",
            vec![
                "Error: DAG already has a final node F; attempting to add final node G",
                "ERROR: Failed to add node G to DAG.",
                "Processing error at x.dag:2",
            ],
        ),
        (
            "JOB A a\nFINAL F a\nPARENT F CHILD A",
            vec![
                "ERROR: Tried to add a child to a Final node F",
                "ERROR: failed to add dependency between nodes",
                "Processing error at x.dag:3",
            ],
        ),
        (
            "JOB A a\nREJECT",
            vec![
                "DAG marked as rejected at x.dag:2",
                "Processing error at x.dag:2",
            ],
        ),
        (
            "SPLICE S no.dag",
            vec![
                "ERROR: Failed to open no.dag: Provided file path does not exist",
                "ERROR: Failed to parse splice S's DAG file no.dag",
                "Processing error at x.dag:1",
            ],
        ),
        (
            "JOB A a\nINCLUDE x.dag",
            vec![
                "ERROR: Recursive DAG file parsing detected with /w/x.dag",
                "Processing error at x.dag:2",
            ],
        ),
        (
            "JOB A a\nPRE_SKIP A 256",
            vec![
                "ERROR: Failed to add pre skip to A: PRE_SKIP exit code must be between 0 and 255",
                "Processing error at x.dag:2",
            ],
        ),
        (
            "PARENT A CHILD B\nJOB A a\nRETRY A x\nJOB B b WHAT",
            vec![
                "ERROR: x.dag:4 Failed to parse JOB command: Unexpected token 'WHAT'",
                "       Example sytanx: JOB <name> <submit description> [DIR <directory>] [NOOP] [DONE]",
            ],
        ),
        (
            "JOB A a.condor.sub",
            vec![
                "Error: The use of the JOB keyword for nested DAGs is prohibited.",
                "Processing error at x.dag:1",
            ],
        ),
        (
            "JOB A a\nFINAL F f\nRETRY F 2",
            vec![
                "ERROR: RETRY node F can not have a retry specification",
                "Processing error at x.dag:3",
            ],
        ),
    ] {
        let mut expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
        expected.push("Failed to parse x.dag".to_owned());
        assert_eq!(log(&[("x.dag", text)]), expected, "{text}");
    }
}

#[test]
fn all_errors_are_found_in_one_go() {
    let text =
        "JOB A a\nRETRY Z 1\nVARS A\nPARENT A CHILD\nFROB\nABORT-DAG-ON Y 1\nSCRIPT PRE a p.sh\n";
    let outcome = of(&[("x.dag", text)]);
    let found: Vec<(u32, &str)> = outcome
        .problems
        .iter()
        .map(|p| (p.line, p.text.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            (5, "'FROB' is not a valid DAG command"),
            (2, "Unknown node Z referenced."),
            (
                3,
                "Failed to parse VARS command: No key=value pairs specified"
            ),
            (
                4,
                "Failed to parse PARENT command: No children node(s) specified"
            ),
            (6, "Unknown node Y referenced."),
            (7, "Unknown node a referenced."),
        ]
    );
    assert_eq!(outcome.problems[5].hint, "did you mean A?");
}

#[test]
fn a_command_that_the_end_of_the_file_leaves_open_is_refused() {
    let outcome = of(&[("x.dag", "JOB A a\nJOB B b \\\n")]);
    assert!(!outcome.is_valid());
    assert_eq!((outcome.problems[0].line, outcome.problems.len()), (2, 1));
}

#[test]
fn many_parents_and_children_are_joined() {
    let text = "JOB A a\nJOB B b\nJOB C c\nJOB D d\nWEAK PARENT A B CHILD C D\nPARENT A CHILD C\n";
    let graph = valid(&[("x.dag", text)]);
    let join = "_condor_join_node0";
    assert_eq!(
        edges(&graph),
        [
            format!("A~{join}"),
            "A>C".to_owned(),
            format!("B~{join}"),
            format!("{join}>C"),
            format!("{join}>D"),
        ]
    );
    assert!(graph.nodes[4].noop);
    let plain = Options {
        join: false,
        ..options()
    };
    let outcome = read(&files(&[("x.dag", text)]), &["x.dag".to_owned()], &plain);
    // A dependency that is made weak and strong is strong.
    assert_eq!(edges(&outcome.graph), ["A>C", "A~D", "B~C", "B~D"]);
}

#[test]
fn splices_have_names_directories_and_an_order_of_their_own() {
    let outer = "SPLICE Z s.dag DIR zd\nJOB A a\nSPLICE B s.dag\nPARENT A CHILD Z\nPARENT Z CHILD B\nMAXJOBS +g 2\nMAXJOBS B+c 5\n";
    let inner =
        "JOB X x DIR n\nJOB Y y\nPARENT X CHILD Y\nCATEGORY X c\nCATEGORY Y +g\nMAXJOBS c 1\n";
    let graph = valid(&[("x.dag", outer), ("s.dag", inner), ("zd/s.dag", inner)]);
    assert_eq!(
        names(&graph, &graph.order),
        ["A", "B+X", "B+Y", "Z+X", "Z+Y"]
    );
    assert_eq!(edges(&graph), ["Z+X>Z+Y", "Z+Y>B+X", "A>Z+X", "B+X>B+Y"]);
    let directory =
        |name: &str| graph.text(graph.nodes[graph.find(name).unwrap() as usize].directory);
    assert_eq!(
        (directory("Z+X"), directory("Z+Y"), directory("B+X")),
        ("zd/n", "zd", "n")
    );
    let mut limits: Vec<(&str, i32)> = graph
        .throttles
        .iter()
        .map(|(c, n)| (graph.text(*c), *n))
        .collect();
    limits.sort_unstable();
    assert_eq!(limits, [("+g", 2), ("B+c", 5), ("Z+c", 1)]);
    let refused = log(&[("x.dag", "SPLICE S s.dag\nRETRY S+X 1\n"), ("s.dag", inner)]);
    assert_eq!(refused[1], "ERROR: Unknown node S+X referenced.");
}

#[test]
fn errors_in_splices_name_the_way_to_them() {
    let expected = [
        "ERROR: t.dag:1 Failed to parse RETRY command: Missing max retry value",
        "       Example sytanx: RETRY <node> <max retries> [UNLESS-EXIT <code>]",
        "ERROR: Failed to parse splice T's DAG file t.dag",
        "Processing error at s.dag:1",
        "ERROR: Failed to parse splice S's DAG file s.dag",
        "Processing error at x.dag:1",
        "Failed to parse x.dag",
    ];
    let those = [
        ("x.dag", "SPLICE S s.dag"),
        ("s.dag", "SPLICE T t.dag"),
        ("t.dag", "RETRY A"),
    ];
    assert_eq!(log(&those), expected);
}

#[test]
fn pins_connect_splices() {
    let s = "JOB A a\nJOB B b\nPIN_OUT A 1\nPIN_OUT B 2\nPIN_IN A 1\nPIN_IN B 1\n";
    let t = "JOB A a\nJOB B b\nPIN_IN A 1\nPIN_IN B 2\n";
    let both = |outer| [("x.dag", outer), ("s.dag", s), ("t.dag", t)];
    let graph = valid(&both("SPLICE S s.dag\nSPLICE T t.dag\nCONNECT S T\n"));
    assert_eq!(edges(&graph), ["S+A>T+A", "S+B>T+B"]);
    let refused = log(&both("SPLICE S s.dag\nSPLICE U s.dag\nCONNECT S U\n"));
    assert_eq!(
        refused[0],
        "ERROR: pin_in/out mismatch:  parent splice S has 2 pin_outs; child splice U has 1 pin_ins"
    );
}

#[test]
fn several_files_have_names_of_their_own() {
    let those = files(&[
        ("x.dag", "JOB A a\nVARS A k=1\n"),
        ("y.dag", "JOB A b\nJOB B b\nPARENT A CHILD B\n"),
    ]);
    let paths = ["x.dag".to_owned(), "y.dag".to_owned()];
    let outcome = read(&those, &paths, &options());
    assert!(outcome.is_valid());
    assert_eq!(
        names(&outcome.graph, &outcome.graph.order),
        ["0.A", "1.A", "1.B"]
    );
    let plain = Options {
        munge: false,
        ..options()
    };
    let clash = read(&those, &paths, &plain);
    assert_eq!(
        clash.problems[0].log.last().unwrap(),
        "Failed to parse y.dag"
    );
}

#[test]
fn variables_scripts_and_all_nodes() {
    let text = "JOB A a\nJOB B b\nFINAL F f\nVARS ALL_NODES one=1 +two=\"\\\"x\\\"\"\nVARS A APPEND one=2 t='y z'\nSCRIPT DEFER 4 60 DEBUG f ALL POST all_nodes p.sh $JOB \"a  b\"\nRETRY ALL_NODES 3 UNLESS-EXIT 7\n";
    let graph = valid(&[("x.dag", text)]);
    let vars: Vec<(&str, &str, bool)> = graph
        .vars_of(0)
        .iter()
        .map(|var| (graph.text(var.key), graph.text(var.value), var.append))
        .collect();
    assert_eq!(
        vars,
        [
            ("one", "2", false),
            ("My.two", "\"x\"", false),
            ("t", "y z", true)
        ]
    );
    let script = graph.script(1, command::ScriptKind::Post).unwrap();
    assert_eq!(
        (graph.text(script.line), script.defer),
        ("p.sh $JOB \"a  b\"", Some((4, 60)))
    );
    assert_eq!((graph.nodes[1].retries, graph.nodes[1].unless), (3, 7));
    assert_eq!((graph.nodes[2].retries, graph.vars_of(2).len()), (0, 0));
}

#[test]
fn a_rescue_file_marks_nodes_by_their_full_names() {
    let graph = valid(&[
        ("x.dag", "SPLICE S s.dag\nJOB A a\n"),
        ("s.dag", "JOB X x\n"),
    ]);
    let rescue = "# comment\nDONE S+X\nRETRY A 2\n";
    let outcome = read_rescue(graph, "x.dag.rescue001", rescue, &options());
    assert!(outcome.is_valid(), "{:?}", outcome.problems);
    let graph = outcome.graph;
    assert!(graph.nodes[0].done && !graph.nodes[1].done && graph.nodes[1].retries == 2);
    let other = read_rescue(graph, "x.dag.rescue001", "DONE Q\n", &options());
    assert_eq!(other.problems[0].log[1], "ERROR: Unknown node Q referenced");
}

#[test]
fn cycles_are_found_with_their_path() {
    let text = "JOB A a\nJOB B b\nJOB C c\nJOB D d\nPARENT A CHILD B\nPARENT B CHILD C\nPARENT C CHILD B\nPARENT C CHILD D\n";
    let graph = valid(&[("x.dag", text)]);
    let mut round = names(&graph, &graph.cycle().unwrap());
    round.sort();
    assert_eq!(round, ["B", "C"]);
    assert!(valid(&[("x.dag", DIAMOND)]).cycle().is_none());
    let own = valid(&[("x.dag", "JOB A a\nPARENT A CHILD A\n")]);
    assert_eq!(own.cycle(), Some(vec![0]));
}

#[test]
fn what_files_can_cost_is_bounded() {
    // A splice that holds a splice that holds ... : deeper than any stack.
    let many: Vec<(String, String)> = (0..2_000)
        .map(|n| (format!("/w/{n}.dag"), format!("SPLICE S {}.dag\n", n + 1)))
        .collect();
    let deep = Some_(many.into_iter().collect());
    let outcome = read(&deep, &["0.dag".to_owned()], &options());
    assert!(
        outcome.problems[0]
            .text
            .starts_with("files are read within one another more than 500 deep")
    );
    assert_eq!(outcome.problems.len(), 1);
    // Each level names the next one twice: 2^40 files.
    let wide: Vec<(String, String)> = (0..40)
        .map(|n| {
            (
                format!("/w/{n}.dag"),
                format!("SPLICE A {0}.dag\nSPLICE B {0}.dag\n", n + 1),
            )
        })
        .chain([("/w/40.dag".to_owned(), "JOB J j\n".to_owned())])
        .collect();
    let outcome = read(
        &Some_(wide.into_iter().collect()),
        &["0.dag".to_owned()],
        &options(),
    );
    assert!(!outcome.is_valid() && outcome.problems.len() == 1);
    let long = format!("JOB {} a\n", "n".repeat(1 << 20));
    let outcome = of(&[("x.dag", &long)]);
    assert!(
        outcome.problems[0]
            .text
            .starts_with("a node's name has 1048576 characters")
    );
    let words = format!("JOB A a\nRETRY A 1 {}\n", "x".repeat(1 << 20));
    assert!(!of(&[("x.dag", &words)]).is_valid());
}

proptest! {
    #[test]
    fn nothing_that_a_file_holds_is_fatal(text in "(?s)((JOB|FINAL|PARENT|CHILD|VARS|SCRIPT|PRE|SPLICE|RETRY|A|B|x.dag|\\{|\\}|@=e|@e|\"|'|\\\\|=|[ \n\t+]|[^a]){0,3}){0,30}") {
        let outcome = of(&[("x.dag", &text)]);
        for problem in &outcome.problems {
            prop_assert!(!problem.log.is_empty() && problem.line as usize <= text.lines().count());
        }
    }

    #[test]
    fn rows_hold_each_dependency_once(pairs in prop::collection::vec((0u8..12, 0u8..12, any::<bool>()), 0..60)) {
        let mut text: String = (0..12).map(|n| format!("JOB N{n} a\n")).collect();
        let mut expected: std::collections::BTreeMap<(u8, u8), bool> = std::collections::BTreeMap::new();
        for (from, to, weak) in pairs {
            let word = if weak { "WEAK " } else { "" };
            text += &format!("{word}PARENT N{from} CHILD N{to}\n");
            let strong = expected.entry((from, to)).or_insert(weak);
            *strong &= weak;
        }
        let graph = valid(&[("x.dag", &text)]);
        let mut found = std::collections::BTreeMap::new();
        for node in 0..12u32 {
            for (child, weak) in graph.children(node) {
                prop_assert!(found.insert((node as u8, child as u8), weak).is_none());
                prop_assert!(graph.parents(child).filter(|up| *up == node).count() == 1);
            }
        }
        prop_assert_eq!(found, expected);
    }
}
