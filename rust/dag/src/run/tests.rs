use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;
use crate::files::{Fault, Files};
use crate::read::{self, Options};

struct One(String);

impl Files for One {
    fn read(&self, _: &str, _: u64) -> Result<String, Fault> {
        Ok(self.0.clone())
    }
}

fn graph(text: &str) -> Graph {
    let outcome = read::read(
        &One(text.to_owned()),
        &["x.dag".to_owned()],
        &Options::default(),
    );
    assert!(outcome.is_valid(), "{:?}", outcome.problems);
    outcome.graph
}

/// Jobs and scripts that end at once, as told: by node, "PRE node" or "POST node", each answer once, the last one again.
struct World {
    run: Run,
    answers: HashMap<String, Vec<i32>>,
    /// What was begun, in order.
    told: Vec<String>,
    events: std::collections::VecDeque<Event>,
    end: Option<(i32, DagStatus)>,
}

impl World {
    fn new(text: &str, rules: Rules, answers: &[(&str, &[i32])]) -> Self {
        Self {
            run: Run::new(graph(text), rules),
            answers: answers
                .iter()
                .map(|(k, v)| ((*k).to_owned(), v.to_vec()))
                .collect(),
            told: Vec::new(),
            events: std::collections::VecDeque::new(),
            end: None,
        }
    }

    fn answer(&mut self, key: &str) -> i32 {
        match self.answers.get_mut(key) {
            Some(left) if left.len() > 1 => left.remove(0),
            Some(left) => left[0],
            None => 0,
        }
    }

    fn act(&mut self, acts: Vec<Act>) {
        for act in acts {
            let name = |node: NodeId| self.run.graph().name(node).to_owned();
            match act {
                Act::Submit { node } | Act::LogNoop { node } => {
                    let name = name(node);
                    let end = End::Exit(self.answer(&name));
                    self.told.push(name);
                    self.events.push_back(Event::Submit { node, proc: 0 });
                    self.events.push_back(Event::Execute { node, proc: 0 });
                    self.events
                        .push_back(Event::Terminated { node, proc: 0, end });
                }
                Act::Script { node, kind } => {
                    let key = format!("{} {}", kind.name(), name(node));
                    let end = End::Exit(self.answer(&key));
                    self.told.push(key);
                    self.events.push_back(match kind {
                        ScriptKind::Post => Event::PostEnded { node, end },
                        _ => Event::Script { node, kind, end },
                    });
                }
                Act::LogPreSkip { node } => self.events.push_back(Event::PreSkipped { node }),
                Act::Rescue => self.told.push("rescue".to_owned()),
                Act::Finish { exit, status } => self.end = Some((exit, status)),
                Act::SavePoint { .. } | Act::RemoveJobs { .. } | Act::RemoveAll => {}
            }
        }
    }

    fn play(&mut self) -> (i32, DagStatus) {
        let acts = self.run.begin();
        self.act(acts);
        while let Some(event) = self.events.pop_front() {
            let acts = self.run.handle(&event);
            self.act(acts);
        }
        self.end.expect("the DAG ends")
    }

    fn states(&self) -> String {
        let graph = self.run.graph();
        let states = graph
            .order
            .iter()
            .map(|node| format!("{}={:?}", graph.name(*node), self.run.status_of(*node)));
        states.collect::<Vec<_>>().join(" ")
    }
}

const DIAMOND: &str =
    "JOB A a\nJOB B b\nJOB C c\nJOB D d\nPARENT A CHILD B C\nPARENT B C CHILD D\n";

fn played(text: &str, answers: &[(&str, &[i32])]) -> (World, (i32, DagStatus)) {
    let mut world = World::new(text, Rules::default(), answers);
    let end = world.play();
    (world, end)
}

#[test]
fn a_diamond_runs_from_top_to_bottom() {
    let (world, end) = played(DIAMOND, &[]);
    assert_eq!(end, (0, DagStatus::Ok));
    assert_eq!(world.told, ["A", "B", "C", "D"]);
    let counts = world.run.counts();
    assert_eq!(
        (
            counts.done,
            counts.jobs_submitted,
            counts.jobs_succeeded,
            counts.jobs_idle
        ),
        (4, 4, 4, 0)
    );
}

#[test]
fn an_empty_dag_succeeds() {
    assert_eq!(played("# nothing\n", &[]).1, (0, DagStatus::Ok));
}

#[test]
fn a_failed_node_makes_its_descendants_futile_and_the_rest_goes_on() {
    let text = format!("{DIAMOND}JOB E e\nPARENT C CHILD E\n");
    let (world, end) = played(&text, &[("B", &[3])]);
    assert_eq!(end, (1, DagStatus::NodeFailed));
    assert_eq!(world.told, ["A", "B", "C", "E", "rescue"]);
    assert_eq!(world.states(), "A=Done B=Error C=Done D=Futile E=Done");
    assert_eq!(world.run.counts().unready, 0);
}

#[test]
fn retries_run_scripts_again() {
    let text = "JOB A a\nRETRY A 2\nSCRIPT PRE A p\nSCRIPT POST A q\n";
    let (world, end) = played(text, &[("POST A", &[1, 1, 0])]);
    assert_eq!(end, (0, DagStatus::Ok));
    assert_eq!(world.told, ["PRE A", "A", "POST A"].repeat(3));
    let (world, end) = played("JOB A a\nRETRY A 3 UNLESS-EXIT 7\n", &[("A", &[1, 7])]);
    assert_eq!(
        (end, world.told.join(" ")),
        ((1, DagStatus::NodeFailed), "A A rescue".to_owned())
    );
    assert_eq!(world.run.retries_of(0), 1);
}

#[test]
fn scripts_decide_about_their_nodes() {
    let text = "JOB A a\nJOB B b\nPARENT A CHILD B\nSCRIPT PRE A p\nSCRIPT POST A q\n";
    let (world, end) = played(text, &[("PRE A", &[4])]);
    assert_eq!((end.0, world.states()), (1, "A=Error B=Futile".to_owned()));
    let (world, end) = played(text, &[("A", &[9])]);
    assert_eq!(
        (end.0, world.told.join(" ")),
        (0, "PRE A A POST A B".to_owned())
    );
    let (world, end) = played(&format!("{text}PRE_SKIP A 4\n"), &[("PRE A", &[4])]);
    assert_eq!((end.0, world.told.join(" ")), (0, "PRE A B".to_owned()));
    let mut always = World::new(
        text,
        Rules {
            always_post: true,
            ..Rules::default()
        },
        &[("PRE A", &[4])],
    );
    assert_eq!(
        (always.play().0, always.told.join(" ")),
        (0, "PRE A POST A B".to_owned())
    );
}

#[test]
fn a_value_ends_the_dag() {
    let text = "JOB A a\nJOB B b\nPARENT A CHILD B\nRETRY A 5\nABORT-DAG-ON A 3";
    let (world, end) = played(text, &[("A", &[3])]);
    assert_eq!(
        (end, world.told.join(" ")),
        ((3, DagStatus::Abort), "A rescue".to_owned())
    );
    let (world, end) = played(&format!("{text} RETURN 0\n"), &[("A", &[3])]);
    assert_eq!(
        (end, world.told.join(" ")),
        ((0, DagStatus::Ok), "A".to_owned())
    );
}

#[test]
fn a_final_node_runs_last_and_decides() {
    let text = format!("{DIAMOND}FINAL F f\n");
    let (world, end) = played(&text, &[]);
    assert_eq!(
        (end, world.told.join(" ")),
        ((0, DagStatus::Ok), "A B C D F".to_owned())
    );
    let (world, end) = played(&text, &[("A", &[1])]);
    assert_eq!(
        (end, world.told.join(" ")),
        ((0, DagStatus::NodeFailed), "A rescue F".to_owned())
    );
    let (_, end) = played(&text, &[("F", &[1])]);
    assert_eq!(end.0, 1);
}

#[test]
fn weak_children_start_after_failures() {
    let text = "JOB A a\nJOB B b\nJOB C c\nJOB D d\nWEAK PARENT A CHILD B\nPARENT A CHILD C\nWEAK PARENT C CHILD D\n";
    let (world, end) = played(text, &[("A", &[1])]);
    assert_eq!(
        (end.0, world.states()),
        (1, "A=Error B=Done C=Futile D=Futile".to_owned())
    );
}

#[test]
fn nodes_that_wait_for_each_other_are_a_cycle() {
    let text = format!("{DIAMOND}PARENT D CHILD B\n");
    let (world, end) = played(&text, &[]);
    assert_eq!(
        (end, world.told.join(" ")),
        ((1, DagStatus::Cycle), "A C rescue".to_owned())
    );
}

#[test]
fn priorities_and_throttles_order_submissions() {
    let nodes: String = (0..5).map(|n| format!("JOB N{n} a\n")).collect();
    let text = format!("{nodes}PRIORITY N3 10\nPRIORITY N1 5\n");
    let rules = Rules {
        throttles: Throttles {
            nodes: 1,
            ..Throttles::default()
        },
        ..Rules::default()
    };
    let mut world = World::new(&text, rules, &[]);
    world.play();
    assert_eq!(world.told, ["N3", "N1", "N0", "N2", "N4"]);
    let text = format!("{nodes}CATEGORY N0 c\nCATEGORY N1 c\nCATEGORY N2 c\nMAXJOBS c 1\n");
    let mut world = World::new(&text, Rules::default(), &[]);
    let acts = world.run.begin();
    let begun: Vec<NodeId> = acts
        .iter()
        .filter_map(|act| match act {
            Act::Submit { node } => Some(*node),
            _ => None,
        })
        .collect();
    assert_eq!(begun, [0, 3, 4]);
}

#[test]
fn a_halted_dag_begins_nothing_and_ends() {
    let mut world = World::new(DIAMOND, Rules::default(), &[]);
    let acts = world.run.begin();
    world.act(acts);
    let acts = world.run.handle(&Event::Halt);
    assert!(acts.is_empty());
    while let Some(event) = world.events.pop_front() {
        let acts = world.run.handle(&event);
        world.act(acts);
    }
    assert_eq!(
        (world.end, world.told.join(" ")),
        (Some((1, DagStatus::Halted)), "A rescue".to_owned())
    );
}

#[test]
fn submissions_that_are_refused() {
    let mut world = World::new("JOB A a\nRETRY A 9\n", Rules::default(), &[]);
    assert_eq!(world.run.begin(), [Act::Submit { node: 0 }]);
    for _ in 0..5 {
        let again = world.run.handle(&Event::Refused {
            node: 0,
            for_good: false,
        });
        assert_eq!(again, [Act::Submit { node: 0 }]);
    }
    let acts = world.run.handle(&Event::Refused {
        node: 0,
        for_good: false,
    });
    assert!(acts.contains(&Act::Finish {
        exit: 1,
        status: DagStatus::NodeFailed
    }));
    let mut world = World::new("JOB A a\nSCRIPT POST A p\n", Rules::default(), &[]);
    world.run.begin();
    let acts = world.run.handle(&Event::Refused {
        node: 0,
        for_good: true,
    });
    assert_eq!(
        acts,
        [Act::Script {
            node: 0,
            kind: ScriptKind::Post
        }]
    );
    assert_eq!(world.run.result_of(0), results::NOT_SUBMITTED);
}

#[test]
fn jobs_of_one_node() {
    let run = |text: &str, ends: [Option<End>; 3]| {
        let mut run = Run::new(graph(text), Rules::default());
        let mut acts = run.begin();
        for proc in 0..3 {
            acts.extend(run.handle(&Event::Submit { node: 0, proc }));
        }
        for (proc, end) in (0..3).zip(ends) {
            acts.extend(run.handle(&match end {
                Some(end) => Event::Terminated { node: 0, proc, end },
                None => Event::Aborted { node: 0, proc },
            }));
        }
        (
            run.result_of(0),
            acts.contains(&Act::RemoveJobs { node: 0 }),
            run.status_of(0),
        )
    };
    let ok = Some(End::Exit(0));
    assert_eq!(
        run("JOB A a\n", [ok, Some(End::Exit(5)), None]),
        (5, true, Status::Error)
    );
    assert_eq!(
        run("JOB A a\n", [Some(End::Signal(9)), ok, ok]),
        (-9, true, Status::Error)
    );
    assert_eq!(
        run("JOB A a\n", [None, None, None]),
        (results::REMOVED, true, Status::Error)
    );
    assert_eq!(
        run("JOB A a\nTOLERANCE A 34%\n", [Some(End::Exit(5)), ok, ok]),
        (0, false, Status::Done)
    );
    assert_eq!(
        run(
            "JOB A a\nTOLERANCE A 0 WAIT\n",
            [Some(End::Exit(5)), ok, ok]
        ),
        (5, false, Status::Error)
    );
}

#[test]
fn rescue_files_are_as_htcondors_and_resume_the_dag() {
    let text = "JOB A a\nJOB B b\nJOB C c\nJOB D d\nJOB E e\nPARENT A CHILD B\nPARENT B D CHILD C\nPARENT D CHILD E\nRETRY A 2\n";
    let (world, _) = played(text, &[("A", &[1])]);
    let heading = "# Rescue DAG file, created after running\n#   the x.dag DAG file\n";
    let date = "11/30/2026 05:58:00";
    let expected = format!(
        "{heading}# Created {date} UTC\n# Rescue DAG version: 2.1.0\n#\n# Total number of Nodes: 5\n\
         # Nodes premarked DONE: 2\n# Nodes that failed: 1\n#   A,<ENDLIST>\n\nDONE D\nDONE E\n"
    );
    let rescue = world.run.rescue_text(heading, date, false);
    assert_eq!(rescue, expected);
    let kept = world.run.rescue_text(heading, date, true);
    assert!(kept.contains("\n# 2 of 2 retries already performed; 0 remaining\nRETRY A 0\n"));
    let again = read::read_rescue(graph(text), "x.dag.rescue001", &rescue, &Options::default());
    assert!(again.is_valid());
    let mut resumed = World::new("", Rules::default(), &[]);
    resumed.run = Run::new(again.graph, Rules::default());
    assert_eq!(
        (resumed.play().0, resumed.told.join(" ")),
        (0, "A B C".to_owned())
    );
    let weak = "JOB A a\nJOB B b\nWEAK PARENT A CHILD B\n";
    let (world, _) = played(weak, &[("A", &[1])]);
    let rescue = world.run.rescue_text("", date, false);
    assert!(
        rescue.ends_with("\n\n# Failed node with only weak child dependencies:\nDONE A\nDONE B\n")
    );
}

#[test]
fn dot_files_are_as_htcondors() {
    let (world, _) = played(
        "JOB A a\nJOB B b\nJOB C c\nPARENT A CHILD B C\n",
        &[("B", &[1])],
    );
    let text = world.run.dot_text(
        "Mon Nov 30 05:58:00 2026",
        Some(("head.txt", "  rankdir=LR;\n")),
    );
    let expected = [
        "digraph DAG {",
        "    label=\"DAGMan Job status at Mon Nov 30 05:58:00 2026\";",
        "",
        "// Beginning of commands included from head.txt.",
        "  rankdir=LR;",
        "// End of commands included from head.txt.",
        "",
        "    \"A\" [shape=ellipse label=\"A (Done)\" style=bold];",
        "    \"B\" [shape=box label=\"B (E)\"];",
        "    \"C\" [shape=ellipse label=\"C (Done)\" style=bold];",
        "",
        "    \"A\" -> \"B\";",
        "    \"A\" -> \"C\";",
        "}",
        "",
    ];
    assert_eq!(text, expected.join("\n"));
}

proptest! {
    #[test]
    fn every_dag_ends_and_parents_come_first(
        edges in prop::collection::vec((0u8..12, 0u8..12), 0..30),
        failing in prop::collection::hash_set(0u8..12, 0..4),
        most in 0usize..4,
    ) {
        let mut text: String = (0..12).map(|n| format!("JOB N{n} a\n")).collect();
        let edges: HashSet<(u8, u8)> = edges.into_iter().filter(|(a, b)| a < b).collect();
        for (from, to) in &edges {
            text += &format!("PARENT N{from} CHILD N{to}\n");
        }
        let answers: Vec<(String, [i32; 1])> = failing.iter().map(|n| (format!("N{n}"), [1])).collect();
        let answers: Vec<(&str, &[i32])> = answers.iter().map(|(k, v)| (k.as_str(), v.as_slice())).collect();
        let rules = Rules {
            throttles: Throttles { nodes: most, ..Throttles::default() },
            ..Rules::default()
        };
        let mut world = World::new(&text, rules, &answers);
        let (exit, _) = world.play();
        let ran: Vec<&String> = world.told.iter().filter(|told| told.starts_with('N')).collect();
        let once: HashSet<&String> = ran.iter().copied().collect();
        prop_assert_eq!(once.len(), ran.len());
        for (from, to) in &edges {
            let at = |n: &u8| ran.iter().position(|told| **told == format!("N{n}"));
            if let Some(child) = at(to) {
                prop_assert!(at(from).is_some_and(|parent| parent < child) && !failing.contains(from));
            }
        }
        prop_assert_eq!(exit != 0, !failing.is_empty() && ran.iter().any(|t| failing.contains(&t[1..].parse().unwrap())));
        let counts = world.run.counts();
        prop_assert_eq!(counts.done + counts.failed + counts.futile, 12);
    }
}

// ------------------------------------------------------------------------------------------------------- recovery

type Told = (&'static str, fn(NodeId) -> Event);

fn recovered_after(text: &str, told: &[Told]) -> (Run, Vec<Act>) {
    let mut run = Run::new(graph(text), Rules::default());
    let mut acts = run.begin_recovery();
    for (name, event) in told {
        let node = run.graph().find(name).expect("a node");
        acts.extend(run.handle(&event(node)));
    }
    acts.extend(run.recovered());
    (run, acts)
}

const SUBMIT: fn(NodeId) -> Event = |node| Event::Submit { node, proc: 0 };
const DONE: fn(NodeId) -> Event = |node| Event::Terminated {
    node,
    proc: 0,
    end: End::Exit(0),
};
const FAILED: fn(NodeId) -> Event = |node| Event::Terminated {
    node,
    proc: 0,
    end: End::Exit(1),
};

#[test]
fn what_a_former_runner_submitted_is_not_submitted_again() {
    let (run, acts) = recovered_after(DIAMOND, &[("A", SUBMIT), ("A", DONE), ("C", SUBMIT)]);
    let node = |name| run.graph().find(name).unwrap();
    assert_eq!(acts, [Act::Submit { node: node("B") }]);
    assert_eq!(run.status_of(node("A")), Status::Done);
    assert_eq!(run.status_of(node("C")), Status::Submitted);
    assert_eq!(run.counts().jobs_idle, 1);
}

#[test]
fn attempts_of_a_former_runner_count_among_the_retries() {
    let told = [("A", SUBMIT), ("A", FAILED), ("A", SUBMIT), ("A", FAILED)];
    let (run, acts) = recovered_after("JOB A a\nRETRY A 2\n", &told);
    let node = run.graph().find("A").unwrap();
    assert_eq!(acts, [Act::Submit { node }]);
    assert_eq!(run.retries_of(node), 2);
    let (_, acts) = recovered_after("JOB A a\nRETRY A 1\n", &told);
    assert_eq!(acts[0], Act::Rescue);
    assert!(matches!(acts.last(), Some(Act::Finish { exit: 1, .. })));
}

#[test]
fn scripts_whose_end_no_log_tells_run_again_after_a_crash() {
    let text = "JOB A a\nJOB B b\nSCRIPT PRE A p\nSCRIPT POST A q\nSCRIPT PRE B p\n";
    let (run, acts) = recovered_after(text, &[("A", SUBMIT), ("A", DONE)]);
    let node = |name| run.graph().find(name).unwrap();
    let script = |name, kind| Act::Script {
        node: node(name),
        kind,
    };
    assert_eq!(
        acts,
        [script("B", ScriptKind::Pre), script("A", ScriptKind::Post)]
    );
    let ended: fn(NodeId) -> Event = |node| Event::PostEnded {
        node,
        end: End::Exit(0),
    };
    let (run, acts) = recovered_after(text, &[("A", SUBMIT), ("A", DONE), ("A", ended)]);
    let node = |name| run.graph().find(name).unwrap();
    assert_eq!(run.status_of(node("A")), Status::Done);
    assert_eq!(acts.len(), 1, "{acts:?}");
}

#[test]
fn throttles_hold_for_what_a_former_runner_left() {
    let rules = Rules {
        throttles: Throttles {
            nodes: 2,
            ..Throttles::default()
        },
        ..Rules::default()
    };
    let mut run = Run::new(graph("JOB A a\nJOB B b\nJOB C c\nJOB D d\n"), rules);
    run.begin_recovery();
    let third = run.graph().find("C").unwrap();
    run.handle(&SUBMIT(third));
    let acts = run.recovered();
    let first = run.graph().find("A").unwrap();
    assert_eq!(acts, [Act::Submit { node: first }]);
}

#[test]
fn a_final_node_that_a_former_runner_began_is_not_begun_again() {
    let text = "JOB A a\nFINAL F f\n";
    let told = [("A", SUBMIT), ("A", FAILED), ("F", SUBMIT)];
    let (run, acts) = recovered_after(text, &told);
    assert_eq!(acts, []);
    let node = run.graph().find("F").unwrap();
    assert_eq!(run.status_of(node), Status::Submitted);
}

// ------------------------------------------------------------------------------------------------------- orders

/// A run in which events are told one by one.
fn begun(text: &str) -> Run {
    let mut run = Run::new(graph(text), Rules::default());
    run.begin();
    run
}

fn end(run: &mut Run, name: &str, status: i32) -> Vec<Act> {
    let node = run.graph().find(name).unwrap();
    run.handle(&Event::Submit { node, proc: 0 });
    run.handle(&Event::Terminated {
        node,
        proc: 0,
        end: End::Exit(status),
    })
}

fn statuses(run: &Run) -> Vec<Status> {
    let order = run.graph().order.clone();
    order.iter().map(|node| run.status_of(*node)).collect()
}

const SIDE: &str =
    "JOB A a\nJOB B b\nJOB C c\nJOB D d\nJOB L l\nPARENT A CHILD B\nPARENT B C CHILD D\n";

#[test]
fn a_failed_node_that_is_retried_revives_what_only_it_had_made_futile() {
    let mut run = begun(SIDE);
    let (a, b) = (
        run.graph().find("A").unwrap(),
        run.graph().find("B").unwrap(),
    );
    end(&mut run, "C", 1);
    end(&mut run, "A", 1);
    assert_eq!(run.counts().futile, 2);
    let acts = run.handle(&Event::Retry { node: a });
    assert_eq!(acts, [Act::Submit { node: a }]);
    use Status::{Error, Futile, Ready, Submitted};
    assert_eq!(statuses(&run), [Submitted, Ready, Error, Futile, Submitted]);
    assert_eq!((run.counts().failed, run.counts().futile), (1, 1));
    assert_eq!(run.status(), DagStatus::NodeFailed);
    assert_eq!(end(&mut run, "A", 0), [Act::Submit { node: b }]);
    let c = run.graph().find("C").unwrap();
    run.handle(&Event::Retry { node: c });
    assert_eq!(run.status(), DagStatus::Ok);
    end(&mut run, "C", 0);
    end(&mut run, "B", 0);
    end(&mut run, "L", 0);
    let acts = end(&mut run, "D", 0);
    assert_eq!(
        acts.last(),
        Some(&Act::Finish {
            exit: 0,
            status: DagStatus::Ok
        })
    );
}

#[test]
fn a_skipped_node_counts_as_done_whatever_it_waited_for() {
    for failed_first in [true, false] {
        let mut run = begun(SIDE);
        let b = run.graph().find("B").unwrap();
        if failed_first {
            end(&mut run, "A", 1);
        }
        assert_eq!(run.handle(&Event::Skip { node: b }), []);
        assert_eq!(run.status_of(b), Status::Done);
        let d = run.graph().find("D").unwrap();
        assert_eq!(end(&mut run, "C", 0), [Act::Submit { node: d }]);
    }
}

#[test]
fn weak_children_are_told_once_that_their_parent_has_ended() {
    let mut run =
        begun("JOB A a\nJOB B b\nJOB C c\nJOB L l\nWEAK PARENT A CHILD C\nPARENT B CHILD C\n");
    let (a, c) = (
        run.graph().find("A").unwrap(),
        run.graph().find("C").unwrap(),
    );
    end(&mut run, "A", 1);
    run.handle(&Event::Retry { node: a });
    assert_eq!(end(&mut run, "A", 0), [], "C still waits for B");
    assert_eq!(end(&mut run, "B", 0), [Act::Submit { node: c }]);
}

#[test]
fn orders_that_cannot_be_carried_out_change_nothing() {
    let mut run = begun(SIDE);
    let node = |run: &Run, name: &str| run.graph().find(name).unwrap();
    let a = node(&run, "A");
    let before = statuses(&run);
    assert!(run.refusal(Order::Skip, a).unwrap().contains("queue"));
    assert!(
        run.refusal(Order::Retry, node(&run, "D"))
            .unwrap()
            .contains("not failed")
    );
    for event in [Event::Retry { node: a }, Event::Skip { node: a }] {
        assert_eq!(run.handle(&event), []);
    }
    assert_eq!(statuses(&run), before);
    end(&mut run, "A", 0);
    assert_eq!(run.refusal(Order::Retry, a), Some("it is done"));
}

#[test]
fn a_halted_dag_goes_on_with_what_was_withdrawn() {
    let mut run = begun("JOB A a\nJOB B b\nJOB C c\nPARENT A CHILD C\n");
    let (b, c) = (
        run.graph().find("B").unwrap(),
        run.graph().find("C").unwrap(),
    );
    run.handle(&Event::Halt);
    assert_eq!(run.handle(&Event::Withdrawn { node: b }), []);
    assert_eq!((run.counts().queued, run.status()), (1, DagStatus::Halted));
    assert_eq!(run.handle(&Event::Resume), [Act::Submit { node: b }]);
    assert_eq!(run.status(), DagStatus::Ok);
    assert_eq!(end(&mut run, "A", 0), [Act::Submit { node: c }]);
}

#[test]
fn refusals_and_pre_scripts_of_a_former_runner_can_be_told() {
    let mut run = Run::new(
        graph("JOB A a\nSCRIPT PRE A p\nRETRY A 1\nJOB B b\nJOB C c\nPARENT B CHILD C\n"),
        Rules::default(),
    );
    run.begin_recovery();
    let (a, b) = (
        run.graph().find("A").unwrap(),
        run.graph().find("B").unwrap(),
    );
    let fails = Event::Script {
        node: a,
        kind: ScriptKind::Pre,
        end: End::Exit(3),
    };
    run.handle(&fails);
    assert_eq!((run.status_of(a), run.retries_of(a)), (Status::PreRun, 1));
    run.handle(&fails);
    run.handle(&Event::Refused {
        node: b,
        for_good: true,
    });
    assert_eq!(
        statuses(&run),
        [Status::Error, Status::Error, Status::Futile]
    );
    assert_eq!(run.counts().failed, 2);
}

#[test]
fn so_many_nodes_are_submitted_in_an_interval() {
    let rules = Rules {
        throttles: Throttles {
            submits: 2,
            ..Throttles::default()
        },
        ..Rules::default()
    };
    let mut world = World::new("JOB A a\nJOB B b\nJOB C c\nJOB D d NOOP\n", rules, &[]);
    let acts = world.run.begin();
    world.act(acts);
    assert_eq!(world.told, ["A", "B"]);
    while let Some(event) = world.events.pop_front() {
        let acts = world.run.handle(&event);
        world.act(acts);
    }
    assert_eq!(world.told, ["A", "B"], "not before the interval is over");
    let acts = world.run.handle(&Event::Interval);
    world.act(acts);
    assert_eq!(world.told, ["A", "B", "C", "D"]);
}

#[test]
fn nodes_that_were_not_submitted_do_not_keep_an_end_from_coming() {
    let text = "JOB A a\nJOB B b\nFINAL F f\n";
    let mut run = Run::new(graph(text), Rules::default());
    let node = |run: &Run, name: &str| run.graph().find(name).expect("a node");
    assert_eq!(run.begin().len(), 2);
    let (a, b) = (node(&run, "A"), node(&run, "B"));
    run.handle(&Event::Submit { node: a, proc: 0 });
    run.handle(&Event::Remove);
    run.handle(&Event::Withdrawn { node: b });
    run.handle(&Event::Aborted { node: a, proc: 0 });
    let last = node(&run, "F");
    run.handle(&Event::Submit {
        node: last,
        proc: 0,
    });
    let end = End::Exit(0);
    let acts = run.handle(&Event::Terminated {
        node: last,
        proc: 0,
        end,
    });
    assert!(
        matches!(acts[..], [Act::Finish { exit: 0, .. }]),
        "{acts:?}"
    );

    let mut halted = Run::new(graph("JOB A a\n"), Rules::default());
    halted.begin();
    halted.handle(&Event::Halt);
    let acts = halted.handle(&Event::Withdrawn { node: 0 });
    assert_eq!(halted.status_of(0), Status::Ready);
    assert!(
        acts.contains(&Act::Finish {
            exit: 1,
            status: DagStatus::Halted
        }),
        "{acts:?}"
    );
}

#[test]
fn jobs_that_have_failed_for_good_are_submitted_again_on_hold() {
    let rules = Rules {
        holds_failed: true,
        ..Rules::default()
    };
    let mut world = World::new("JOB A a\nRETRY A 1\n", rules, &[("A", &[1, 1, 0])]);
    assert_eq!(world.play(), (0, DagStatus::Ok));
    assert_eq!(world.told, ["A", "A", "A"]);
    let node = world.run.graph().find("A").expect("a node");
    assert!(world.run.is_on_hold(node));
}
