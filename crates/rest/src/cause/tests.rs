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
    let failure = explain(&[ending(0, 1, &format!("{TRACEBACK}{end}"))], 1, None).unwrap();
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
    let failure = explain(&[ending(0, 0, ""), killed], 2, None).unwrap();
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
    let failure = explain(&[victim, culprit], 2, None).unwrap();
    assert_eq!(failure.worker, Some(1));
    assert_eq!(failure.kind, FailureKind::PythonException);
}

#[rstest]
#[case(137, "signal 9")]
#[case(139, "signal 11")]
#[case(127, "command was not found")]
#[case(3, "exit code 3")]
fn exit_codes_are_said_in_words(#[case] code: i32, #[case] want: &str) {
    let failure = explain(&[ending(0, code, "bye")], 1, None).unwrap();
    assert!(failure.summary.contains(want), "{}", failure.summary);
}

#[test]
fn ranks_before_a_traceback_do_not_hide_it() {
    let log = "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/workspace/scripts/train.py\", line 9\n[rank1]:     boom()\n[rank1]: ZeroDivisionError: division by zero";
    let failure = explain(&[ending(1, 1, log)], 1, None).unwrap();
    assert!(
        failure.summary.contains("ZeroDivisionError"),
        "{}",
        failure.summary
    );
}

#[test]
fn a_worker_is_named_while_the_others_still_run() {
    let failure = explain(&[ending(0, 1, TRACEBACK)], 2, None).unwrap();
    assert!(
        failure.summary.starts_with("Worker 0 "),
        "{}",
        failure.summary
    );
}

#[test]
fn a_job_that_never_had_pods_says_what_the_controller_said() {
    let failure = explain(
        &[],
        1,
        Some(("TrainingRuntimeNotSupported", "unsupported runtime: X")),
    )
    .unwrap();
    assert!(failure.summary.contains("unsupported runtime: X"));
    assert!(explain(&[], 1, None).is_none());
}

/// What scripts printed that failed in one way each, recorded under each launcher: `=== case exit code` begins a case.
const LOGS: [(&str, &str); 5] = [
    ("python", include_str!("logs/python.txt")),
    ("torchrun", include_str!("logs/torchrun.txt")),
    ("mpirun", include_str!("logs/mpirun.txt")),
    ("deepspeed", include_str!("logs/deepspeed.txt")),
    ("accelerate", include_str!("logs/accelerate.txt")),
];

#[rstest]
#[case("import_error", FailureKind::MissingModule, "'nosuchmodule'", true)]
#[case(
    "own_import",
    FailureKind::PythonException,
    "ImportError: cannot import name 'NoSuchLayer'",
    true
)]
#[case(
    "syntax_error",
    FailureKind::SyntaxError,
    "SyntaxError: invalid syntax",
    true
)]
#[case(
    "name_error",
    FailureKind::PythonException,
    "NameError: name 'base_lr'",
    true
)]
#[case(
    "assertion",
    FailureKind::PythonException,
    "AssertionError: accuracy 0.9472 is below 0.95",
    false
)]
#[case("gpu_memory", FailureKind::GpuOutOfMemory, "GPU memory", false)]
#[case("killed", FailureKind::Signal, "signal 9", false)]
#[case(
    "nan",
    FailureKind::PythonException,
    "NaN or infinite: ValueError: loss is nan",
    false
)]
#[case("refused", FailureKind::PythonException, "Connection refused", false)]
#[case("missing_file", FailureKind::FileNotFound, "'/data/train.csv'", false)]
#[case("exit_code", FailureKind::NonZeroExit, "exit code 3", false)]
#[case("one_of_two", FailureKind::PythonException, "KeyError: 'cat'", false)]
#[case(
    "arguments",
    FailureKind::Configuration,
    "arguments are required: --data",
    true
)]
fn the_cause_is_the_same_whatever_started_the_script(
    #[case] name: &str,
    #[case] kind: FailureKind,
    #[case] want: &str,
    #[case] permanent: bool,
) {
    let mut seen = 0;
    for (launcher, log) in LOGS {
        let mut cases = log.split("=== ").filter_map(|case| case.split_once('\n'));
        let Some((head, lines)) = cases.find(|(head, _)| head.starts_with(name)) else {
            continue;
        };
        seen += 1;
        let code: i32 = head.rsplit(' ').next().unwrap().parse().unwrap();
        let code = if code < 0 { 128 - code } else { code };
        let failure = explain(&[ending(0, code, lines)], 1, None).unwrap();
        let told = format!("{launcher}: {} {:?}", failure.summary, failure.evidence);
        assert_eq!(failure.kind, kind, "{told}");
        assert!(failure.summary.contains(want), "{told}");
        assert_eq!(failure.permanent, permanent, "{told}");
        assert!(!failure.evidence.is_empty(), "{told}");
    }
    assert!(seen >= 3, "{name} was recorded under {seen} launchers");
}
