use super::*;
use crate::model::{ThreadStack, WorkerStacks};

const APART: Duration = Duration::from_secs(3);
const RHYTHM: Rhythm = Rhythm {
    steps: 100,
    longest: Duration::from_secs(1),
};

const C10D: &str = "/usr/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py";
const WRAPPER: &str = "/usr/lib/python3.11/site-packages/torch/distributed/c10d_logger.py";
const GRAPH: &str = "/venv/lib/python3.12/site-packages/torch/autograd/graph.py";

/// A rank in one line: its state, CPU between the looks, stack from the inside out, and whether it moves.
struct Rank {
    state: &'static str,
    milliseconds: u64,
    frames: Vec<(&'static str, u32, &'static str)>,
    moves: bool,
}

fn rank(frames: &[(&'static str, u32, &'static str)]) -> Rank {
    Rank {
        state: "S",
        milliseconds: 0,
        frames: frames.to_vec(),
        moves: false,
    }
}

/// Waits in a collective that it came to from this line.
fn waiting(line: u32) -> Rank {
    rank(&[
        (C10D, 2806, "all_reduce"),
        (WRAPPER, 81, "wrapper"),
        ("train.py", line, "step"),
    ])
}

fn at(line: u32, function: &'static str) -> Rank {
    rank(&[("train.py", line, function), ("train.py", 99, "<module>")])
}

impl Rank {
    fn busy(self) -> Self {
        Self {
            state: "R",
            milliseconds: 2900,
            ..self
        }
    }

    fn moving(self) -> Self {
        Self {
            moves: true,
            ..self
        }
    }

    fn stopped(self) -> Self {
        Self { state: "T", ..self }
    }

    fn seen(&self, rank: u32, later: bool) -> ProcessStacks {
        let frames = self
            .frames
            .iter()
            .enumerate()
            .map(|(index, (file, line, function))| {
                let step = u32::from(later && self.moves && index == 0);
                StackFrame {
                    file: (*file).to_owned(),
                    line: Some(line + step),
                    function: (*function).to_owned(),
                }
            });
        let thread = ThreadStack {
            frames: frames.collect(),
            ..ThreadStack::default()
        };
        ProcessStacks {
            pid: 100 + rank,
            state: self.state.to_owned(),
            cpu_milliseconds: 5000 + if later { self.milliseconds } else { 0 },
            rank: Some(rank),
            threads: vec![thread],
            ..ProcessStacks::default()
        }
    }
}

/// All ranks on one worker.
fn looks(ranks: &[Rank]) -> [JobStacks; 2] {
    [false, true].map(|later| JobStacks {
        workers: vec![WorkerStacks {
            processes: (0..)
                .zip(ranks)
                .map(|(rank, it)| it.seen(rank, later))
                .collect(),
            ..WorkerStacks::default()
        }],
    })
}

fn judged(ranks: &[Rank], limits: u32, rhythm: Rhythm) -> String {
    let [before, after] = looks(ranks);
    told(&judge(&before, &after, APART, limits, rhythm))
}

/// A verdict as a line: the reason, then suspects with their lines.
fn told(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Working => "working".to_owned(),
        Verdict::Stalled {
            reason, suspects, ..
        } => {
            let suspects = suspects.iter().map(|place| {
                let line = place.at.as_ref().and_then(|at| at.line).unwrap_or_default();
                format!(" {:?}@{line}", place.ranks)
            });
            format!("{reason:?}{}", suspects.collect::<String>())
        }
    }
}

#[test]
fn the_rank_that_is_not_where_the_others_are_is_named() {
    let cases: [(&str, Vec<Rank>, &str); 19] = [
        (
            "skips an all_reduce and sleeps",
            vec![waiting(10), at(33, "pause")],
            "Elsewhere [1]@33",
        ),
        (
            "loops in C",
            vec![waiting(10), at(33, "match").busy()],
            "Elsewhere [1]@33",
        ),
        (
            "loops in Python",
            vec![at(33, "spin").busy().moving(), waiting(10)],
            "Elsewhere [0]@34",
        ),
        (
            "is stopped",
            vec![waiting(10), waiting(10).stopped()],
            "Stopped [1]@10",
        ),
        (
            "is stopped in its own code",
            vec![at(3, "f").stopped(), waiting(10)],
            "Stopped [0]@3",
        ),
        (
            "others wait in backward",
            vec![
                rank(&[
                    (GRAPH, 800, "_engine_run_backward"),
                    ("train.py", 12, "step"),
                ]),
                at(5, "load"),
            ],
            "Elsewhere [1]@5",
        ),
        (
            "others compute in backward",
            vec![
                rank(&[
                    (GRAPH, 800, "_engine_run_backward"),
                    ("train.py", 12, "step"),
                ])
                .busy(),
                at(5, "load").busy(),
            ],
            "working",
        ),
        (
            "one of four waits elsewhere",
            vec![waiting(10), waiting(20), waiting(10), waiting(10)],
            "OtherCollective [1]@20",
        ),
        (
            "both wait, at two places",
            vec![waiting(10), waiting(20)],
            "Unknown",
        ),
        (
            "all wait at one place",
            vec![waiting(10), waiting(10)],
            "Unknown",
        ),
        (
            "most are on their way",
            vec![waiting(10), at(5, "f"), at(5, "f")],
            "OtherCollective [0]@10",
        ),
        (
            "a user's function calls the collective deep inside",
            vec![
                waiting(10),
                rank(&[("train.py", 7, "hook"), (C10D, 1, "all_reduce")]),
            ],
            "Elsewhere [1]@7",
        ),
        ("one rank, still", vec![at(5, "f")], "Unknown"),
        ("one rank, computing", vec![at(5, "f").busy()], "working"),
        ("one rank, moving", vec![at(5, "f").moving()], "working"),
        (
            "all compute",
            vec![at(5, "f").busy(), at(6, "g").busy()],
            "working",
        ),
        (
            "nobody waits, one of three is elsewhere",
            vec![at(5, "f"), at(5, "f"), at(9, "g")],
            "Elsewhere [2]@9",
        ),
        (
            "no stack, and the others wait",
            vec![waiting(10), rank(&[])],
            "Elsewhere [1]@0",
        ),
        ("nothing is known", vec![], "working"),
    ];
    for (name, ranks, want) in cases {
        assert_eq!(judged(&ranks, 1, RHYTHM), want, "{name}");
    }
}

#[test]
fn what_takes_long_by_nature_is_given_more_time() {
    for (name, slow) in [
        ("saves", at(40, "save_checkpoint")),
        ("evaluates", at(41, "Trainer.evaluate").busy().moving()),
        (
            "writes with torch.save",
            rank(&[
                ("/x/site-packages/torch/serialization.py", 9, "_save"),
                ("train.py", 3, "main"),
            ]),
        ),
        (
            "compiles",
            rank(&[
                ("/x/site-packages/torch/_inductor/codecache.py", 9, "load"),
                ("train.py", 3, "main"),
            ]),
        ),
    ] {
        let ranks = [waiting(10), slow];
        assert_eq!(judged(&ranks, 1, RHYTHM), "working", "{name}");
        assert!(
            judged(&ranks, PHASE, RHYTHM).starts_with("Elsewhere [1]"),
            "{name}"
        );
    }
    // Its name only sounds like it, and it is stopped.
    assert_eq!(
        judged(&[waiting(1), at(2, "evaluation_of").stopped()], 1, RHYTHM),
        "Stopped [1]@2"
    );
    assert_eq!(
        judged(&[waiting(1), at(2, "saver")], 1, RHYTHM),
        "Elsewhere [1]@2"
    );
    let again = rank(&[
        (
            "/x/site-packages/torch/utils/checkpoint.py",
            9,
            "checkpoint",
        ),
        ("train.py", 3, "main"),
    ]);
    assert_eq!(judged(&[waiting(1), again], 1, RHYTHM), "Elsewhere [1]@3");
}

#[test]
fn without_a_rhythm_only_a_job_that_does_nothing_is_suspicious() {
    let none = Rhythm::default();
    assert_eq!(
        judged(&[waiting(10), at(33, "f").busy()], 1, none),
        "working"
    );
    assert_eq!(
        judged(&[waiting(10), at(33, "f")], 1, none),
        "Elsewhere [1]@33"
    );
}

#[test]
fn a_rank_that_has_ended_is_named_by_its_worker() {
    let [before, mut after] = looks(&[waiting(10)]);
    after.workers.push(WorkerStacks {
        worker: 1,
        problem: Some(StacksProblem::NotRunning),
        ..WorkerStacks::default()
    });
    let verdict = judge(&before, &after, APART, 1, RHYTHM);
    assert_eq!(told(&verdict), "Ended [1]@0");
}

#[test]
fn a_limit_is_learned_from_the_job_and_is_never_short() {
    let minutes = Duration::from_mins;
    let cases = [
        ("no steps", 2, 1, None, minutes(60)),
        (
            "no steps, whatever is asked for",
            2,
            1,
            Some(1),
            minutes(60),
        ),
        ("quick steps", 3, 1, None, minutes(5)),
        ("slow steps", 3, 600, None, minutes(80)),
        (
            "quick steps, a short limit",
            3,
            1,
            Some(10),
            Duration::from_secs(10),
        ),
        ("slow steps, a short limit", 3, 60, Some(10), minutes(8)),
        ("no end", 3, u64::MAX, None, minutes(24 * 60)),
    ];
    for (name, steps, longest, shortest, want) in cases {
        let rhythm = Rhythm {
            steps,
            longest: Duration::from_secs(longest),
        };
        assert_eq!(
            rhythm.limit(shortest.map(Duration::from_secs)),
            want,
            "{name}"
        );
    }
}
