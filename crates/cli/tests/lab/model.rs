//! What may be true of an object, given what its one writer asked for and was told. Pure.
//!
//! Every value is written once, so a value tells which write it came from.

use std::collections::BTreeSet;

/// What an object is: absent, or present with the value that was written last.
pub(crate) type State = Option<u64>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Create(u64),
    /// Whatever the object is now.
    Patch(u64),
    /// Only if the object is still the one that the writer knows.
    Replace(u64),
    Delete,
    /// A look at it.
    Read,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Done, at this resourceVersion.
    Done(u64),
    /// Done as well; the answer to a delete has no version.
    Deleted,
    /// Read, as it was found.
    Found(State, u64),
    AlreadyExists,
    NotFound,
    Conflict,
    /// No answer, or an error of the server: done or not.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) action: Action,
    pub(crate) answer: Answer,
}

impl Operation {
    /// What the object is afterwards if this took place.
    fn effect(self) -> Option<State> {
        match self.action {
            Action::Create(value) | Action::Patch(value) | Action::Replace(value) => {
                Some(Some(value))
            }
            Action::Delete => Some(None),
            Action::Read => None,
        }
    }
}

/// One event of a watch: the object's state after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) state: State,
    pub(crate) version: u64,
}

/// The states in which an object may be, as its history goes on.
#[derive(Clone, Debug)]
pub(crate) struct Possible {
    states: BTreeSet<State>,
    version: u64,
}

impl Default for Possible {
    fn default() -> Self {
        Self {
            states: BTreeSet::from([None]),
            version: 0,
        }
    }
}

impl Possible {
    /// The state, where only one is possible.
    pub(crate) fn known(&self) -> Option<State> {
        let one = self.states.iter().next().copied();
        one.filter(|_| self.states.len() == 1)
    }

    /// Takes an operation in, or says why its answer cannot be.
    pub(crate) fn step(&mut self, operation: Operation) -> Result<(), String> {
        let before = self.states.clone();
        let wrong = |what: &str| Err(format!("{what}: {operation:?}, possible were {before:?}"));
        let is_present = |state: &State| state.is_some();
        match (operation.action, operation.answer) {
            (_, Answer::Unknown) => {
                let applies = match operation.action {
                    Action::Create(_) => before.contains(&None),
                    Action::Patch(_) | Action::Replace(_) => before.iter().any(is_present),
                    Action::Delete => true,
                    Action::Read => false,
                };
                self.states.extend(operation.effect().filter(|_| applies));
                return Ok(());
            }
            (Action::Read, Answer::Found(state, version)) => {
                if !before.contains(&state) {
                    return match state {
                        None => wrong("lost"),
                        Some(_) if before == BTreeSet::from([None]) => wrong("resurrected"),
                        Some(_) => wrong("fell back"),
                    };
                }
                if state.is_some() && version < self.version {
                    return wrong("a resourceVersion fell");
                }
                self.states = BTreeSet::from([state]);
                self.version = self.version.max(version);
                return Ok(());
            }
            (Action::Create(value), Answer::Done(_)) if before.contains(&None) => {
                self.states = BTreeSet::from([Some(value)]);
            }
            (Action::Create(_), Answer::Done(_)) => return wrong("created twice, so it was lost"),
            (Action::Patch(value) | Action::Replace(value), Answer::Done(_)) => {
                if !before.iter().any(is_present) {
                    return wrong("resurrected");
                }
                self.states = BTreeSet::from([Some(value)]);
            }
            (Action::Delete, Answer::Deleted) => {
                if !before.iter().any(is_present) {
                    return wrong("resurrected");
                }
                self.states = BTreeSet::from([None]);
            }
            (_, Answer::NotFound) => {
                if !before.contains(&None) {
                    return wrong("lost");
                }
                self.states = BTreeSet::from([None]);
            }
            (_, Answer::AlreadyExists) => {
                self.states.retain(is_present);
                if self.states.is_empty() {
                    return wrong("resurrected");
                }
            }
            // Somebody else wrote, and that can only have been a write without an answer.
            (Action::Replace(_), Answer::Conflict) if before.len() > 1 => {}
            (_, Answer::Conflict | Answer::Deleted | Answer::Found(..))
            | (Action::Read | Action::Delete, _) => {
                return wrong("an answer without a reason");
            }
        }
        if let Answer::Done(version) = operation.answer {
            if version <= self.version {
                return wrong("a resourceVersion did not grow");
            }
            self.version = version;
        }
        Ok(())
    }
}

/// Whether a watch showed what the history says: every acknowledged write once and in order, each of
/// the unacknowledged ones at most once, and nothing else.
pub(crate) fn check_watch(history: &[Operation], seen: &[Seen]) -> Result<(), String> {
    for pair in seen.windows(2) {
        if pair[1].version <= pair[0].version {
            return Err(format!("doubled, or out of order: {pair:?}"));
        }
    }
    // Controllers write statuses, which leave the value as it is.
    let mut shown: Vec<State> = seen.iter().map(|event| event.state).collect();
    shown.dedup();
    let mut reached = BTreeSet::from([0]);
    for operation in history {
        let Some(effect) = operation.effect() else {
            continue;
        };
        let after = reached.iter().copied();
        let after = after.filter(|at| shown.get(*at) == Some(&effect));
        let after: BTreeSet<usize> = after.map(|at| at + 1).collect();
        match operation.answer {
            Answer::Done(_) | Answer::Deleted => reached = after,
            Answer::Unknown => reached.extend(after),
            _ => {}
        }
        if reached.is_empty() {
            return Err(format!("missed or misplaced: {operation:?} in {shown:?}"));
        }
    }
    if reached.contains(&shown.len()) {
        Ok(())
    } else {
        Err(format!("nobody wrote all of {shown:?}: {history:?}"))
    }
}

/// What became of one rank of a job: an identity per start, and those of them that came to the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rank {
    pub(crate) starts: Vec<String>,
    pub(crate) ends: Vec<String>,
    /// What its log says, as it was served.
    pub(crate) log: Vec<String>,
}

/// Whether a rank ran as often as it had to, and its log is that of its last start.
pub(crate) fn check_rank(rank: &Rank, disturbances: usize, lines: usize) -> Result<(), String> {
    let (starts, ends) = (rank.starts.len(), rank.ends.len());
    if starts == 0 || starts > 1 + disturbances {
        return Err(format!(
            "started {starts} times with {disturbances} kills and suspensions"
        ));
    }
    if ends == 0 || ends > 1 + disturbances || rank.ends.last() != rank.starts.last() {
        return Err(format!("its last start did not come to the end: {rank:?}"));
    }
    let last = &rank.starts[starts - 1];
    let want: Vec<String> = (0..lines).map(|line| format!("{last} {line}")).collect();
    if rank.log == want {
        Ok(())
    } else {
        Err(format!("the log is not that of {last}: {:?}", rank.log))
    }
}

#[cfg(test)]
mod tests {
    use super::Action::{Create, Delete, Patch, Read, Replace};
    use super::Answer::{AlreadyExists, Conflict, Deleted, Done, Found, NotFound, Unknown};
    use super::*;

    fn history(steps: &[(Action, Answer)]) -> Vec<Operation> {
        let steps = steps.iter().copied();
        steps
            .map(|(action, answer)| Operation { action, answer })
            .collect()
    }

    fn verdict(steps: &[(Action, Answer)]) -> Result<(), String> {
        let mut possible = Possible::default();
        let mut history = history(steps).into_iter();
        history.try_for_each(|operation| possible.step(operation))
    }

    #[test]
    fn what_can_be_is_accepted() {
        let cases: [&[(Action, Answer)]; 6] = [
            &[(Create(1), Done(5)), (Read, Found(Some(1), 5))],
            &[
                (Create(1), Unknown),
                (Create(2), AlreadyExists),
                (Read, Found(Some(1), 5)),
            ],
            &[
                (Create(1), Unknown),
                (Create(2), Done(6)),
                (Delete, Deleted),
                (Read, Found(None, 0)),
            ],
            &[
                (Create(1), Done(5)),
                (Delete, Unknown),
                (Patch(2), NotFound),
                (Create(3), Done(8)),
            ],
            &[
                (Create(1), Done(5)),
                (Patch(2), Unknown),
                (Read, Found(Some(1), 5)),
            ],
            &[
                (Create(1), Done(5)),
                (Patch(2), Unknown),
                (Replace(3), Conflict),
                (Read, Found(Some(2), 6)),
            ],
        ];
        for case in cases {
            assert_eq!(verdict(case), Ok(()), "{case:?}");
        }
    }

    #[test]
    fn what_cannot_be_is_found() {
        let cases: [(&str, &[(Action, Answer)]); 8] = [
            ("lost", &[(Create(1), Done(5)), (Read, Found(None, 0))]),
            ("lost", &[(Create(1), Done(5)), (Patch(2), NotFound)]),
            ("lost", &[(Create(1), Done(5)), (Create(2), Done(6))]),
            (
                "fell back",
                &[
                    (Create(1), Done(5)),
                    (Patch(2), Done(6)),
                    (Read, Found(Some(1), 5)),
                ],
            ),
            (
                "resurrected",
                &[
                    (Create(1), Done(5)),
                    (Delete, Deleted),
                    (Read, Found(Some(1), 5)),
                ],
            ),
            (
                "resurrected",
                &[
                    (Create(1), Done(5)),
                    (Delete, Deleted),
                    (Create(2), AlreadyExists),
                ],
            ),
            (
                "without a reason",
                &[(Create(1), Done(5)), (Replace(2), Conflict)],
            ),
            ("did not grow", &[(Create(1), Done(5)), (Patch(2), Done(5))]),
        ];
        for (want, case) in cases {
            let found = verdict(case).unwrap_err();
            assert!(found.contains(want), "{case:?}: {found}");
        }
    }

    #[test]
    fn a_watch_that_misses_doubles_or_invents_is_found() {
        let writes = history(&[
            (Create(1), Done(5)),
            (Patch(2), Unknown),
            (Delete, Unknown),
            (Delete, Deleted),
        ]);
        let cases: [(&str, &[(State, u64)]); 7] = [
            ("", &[(Some(1), 5), (Some(2), 6), (None, 9)]),
            ("", &[(Some(1), 5), (Some(1), 8), (None, 9)]),
            ("missed", &[(Some(1), 5), (Some(2), 6)]),
            ("missed", &[(Some(2), 6), (None, 9)]),
            ("doubled", &[(Some(1), 5), (Some(1), 5), (None, 9)]),
            ("nobody wrote", &[(Some(1), 5), (None, 9), (Some(3), 10)]),
            ("missed", &[(Some(2), 4), (Some(1), 5), (None, 9)]),
        ];
        for (want, events) in cases {
            let seen = events.iter();
            let seen: Vec<Seen> = seen
                .map(|(state, version)| Seen {
                    state: *state,
                    version: *version,
                })
                .collect();
            let found = check_watch(&writes, &seen).err().unwrap_or_default();
            assert!(found.contains(want), "{events:?}: {found}");
            assert_eq!(found.is_empty(), want.is_empty(), "{events:?}: {found}");
        }
    }

    #[test]
    fn a_rank_that_ran_too_often_or_lost_its_log_is_found() {
        let rank = |starts: &[&str], ends: &[&str], log: &[&str]| {
            let own = |words: &[&str]| words.iter().map(ToString::to_string).collect();
            Rank {
                starts: own(starts),
                ends: own(ends),
                log: own(log),
            }
        };
        let cases = [
            ("", rank(&["a"], &["a"], &["a 0", "a 1"]), 0),
            ("", rank(&["a", "b"], &["b"], &["b 0", "b 1"]), 1),
            (
                "started 2 times",
                rank(&["a", "b"], &["b"], &["b 0", "b 1"]),
                0,
            ),
            ("started 0 times", rank(&[], &[], &[]), 0),
            (
                "come to the end",
                rank(&["a", "b"], &["a"], &["b 0", "b 1"]),
                1,
            ),
            ("the log", rank(&["a"], &["a"], &["a 0"]), 0),
            ("the log", rank(&["a"], &["a"], &["a 0", "a 0", "a 1"]), 0),
        ];
        for (want, rank, disturbances) in cases {
            let found = check_rank(&rank, disturbances, 2).err().unwrap_or_default();
            assert!(found.contains(want), "{rank:?}: {found}");
            assert_eq!(found.is_empty(), want.is_empty(), "{rank:?}: {found}");
        }
    }
}
