//! Failures as they look in real logs.

use rstest::rstest;

use super::*;

fn ending(worker: i64, exit_code: i32, tail: &str) -> Ending {
    Ending {
        worker,
        exit_code: Some(exit_code),
        finished_at: Timestamp::from_second(100 + worker).ok(),
        tail: tail.lines().map(str::to_owned).collect(),
        ..Ending::default()
    }
}

const TRACEBACK: &str = "Epoch 1\nTraceback (most recent call last):\n  File \"/workspace/scripts/train.py\", line 3, in <module>\n    ";

#[rstest]
#[case::module(
    "import nosuch\nModuleNotFoundError: No module named 'nosuch'",
    FailureKind::MissingModule,
    "'nosuch'"
)]
#[case::value(
    "f()\nValueError: bad shape (3, 4)",
    FailureKind::PythonException,
    "ValueError: bad shape (3, 4)"
)]
#[case::gpu(
    "x.cuda()\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
    FailureKind::GpuOutOfMemory,
    "GPU memory"
)]
#[case::file(
    "open('x')\nFileNotFoundError: [Errno 2] No such file or directory: 'x'",
    FailureKind::FileNotFound,
    "'x'"
)]
#[case::memory("a = [0] * n\nMemoryError", FailureKind::OutOfMemory, "out of memory")]
fn exceptions_are_recognised(#[case] end: &str, #[case] kind: FailureKind, #[case] want: &str) {
    let failure = explain(&[ending(0, 1, &format!("{TRACEBACK}{end}"))], None).unwrap();
    assert_eq!(failure.kind, kind);
    assert!(failure.summary.contains(want), "{}", failure.summary);
    assert!(
        failure
            .evidence
            .iter()
            .any(|line| line.contains("train.py")),
        "{:?}",
        failure.evidence
    );
}

#[test]
fn the_kernel_knows_better_than_the_log() {
    let mut killed = ending(1, 137, "Epoch 1");
    killed.reason = Some("OOMKilled".to_owned());
    let failure = explain(&[ending(0, 0, ""), killed], None).unwrap();
    assert_eq!(
        (failure.kind, failure.worker),
        (FailureKind::OutOfMemory, Some(1))
    );
    assert!(failure.summary.starts_with("Worker 1"));
}

#[test]
fn the_one_that_failed_by_itself_is_the_cause() {
    let victim = ending(
        0,
        1,
        "RuntimeError: [gloo/transport/tcp/pair.cc:525] Connection closed by peer [10.0.0.3]",
    );
    let mut culprit = ending(1, 1, &format!("{TRACEBACK}g()\nKeyError: 'label'"));
    culprit.finished_at = Timestamp::from_second(200).ok();
    let failure = explain(&[victim, culprit], None).unwrap();
    assert_eq!(failure.worker, Some(1));
    assert_eq!(failure.kind, FailureKind::PythonException);
}

#[rstest]
#[case(137, "signal 9")]
#[case(139, "signal 11")]
#[case(127, "command was not found")]
#[case(3, "exit code 3")]
fn exit_codes_are_said_in_words(#[case] code: i32, #[case] want: &str) {
    let failure = explain(&[ending(0, code, "bye")], None).unwrap();
    assert!(failure.summary.contains(want), "{}", failure.summary);
}

#[test]
fn ranks_before_a_traceback_do_not_hide_it() {
    let log = "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/workspace/scripts/train.py\", line 9\n[rank1]:     boom()\n[rank1]: ZeroDivisionError: division by zero";
    let failure = explain(&[ending(1, 1, log)], None).unwrap();
    assert!(
        failure.summary.contains("ZeroDivisionError"),
        "{}",
        failure.summary
    );
}

#[test]
fn a_job_that_never_had_pods_says_what_the_controller_said() {
    let failure = explain(
        &[],
        Some(("TrainingRuntimeNotSupported", "unsupported runtime: X")),
    )
    .unwrap();
    assert!(failure.summary.contains("unsupported runtime: X"));
    assert!(explain(&[], None).is_none());
}
