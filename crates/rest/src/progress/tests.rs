//! Lines as people's programs really print them.
#![expect(clippy::float_cmp, reason = "the numbers are short and rounded")]

use rstest::rstest;

use super::*;

fn reading(
    epoch: Option<f64>,
    epochs: Option<f64>,
    step: Option<f64>,
    steps: Option<f64>,
    metrics: &[(&str, f64)],
) -> Reading {
    Reading {
        epoch,
        epochs,
        step,
        steps,
        percent: None,
        metrics: metrics
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect(),
    }
}

#[rstest]
#[case::batches("Epoch 1, Batch 0/469, Loss: 2.3085",
    reading(Some(1.0), None, Some(0.0), Some(469.0), &[("loss", 2.3085)]))]
#[case::epoch_of("Epoch 1/3...", reading(Some(1.0), Some(3.0), None, None, &[]))]
#[case::keras_classic("469/469 [==============================] - 5s 10ms/step - loss: 0.2107 - accuracy: 0.9384",
    reading(None, None, Some(469.0), Some(469.0), &[("loss", 0.2107), ("accuracy", 0.9384)]))]
#[case::keras_3("\u{1b}[1m 12/469\u{1b}[0m junk\r 120/469 \u{1b}[37m━━━━\u{1b}[0m 2s 6ms/step - accuracy: 0.80 - loss: 0.65",
    reading(None, None, Some(120.0), Some(469.0), &[("accuracy", 0.80), ("loss", 0.65)]))]
#[case::hugging_face("{'loss': 0.6932, 'grad_norm': 1.25, 'learning_rate': 4.5e-05, 'epoch': 0.5}",
    reading(Some(0.5), None, None, None, &[("loss", 0.6932), ("grad_norm", 1.25), ("learning_rate", 4.5e-5)]))]
#[case::key_value("step=120 loss=0.25 lr=1e-3",
    reading(None, None, Some(120.0), None, &[("loss", 0.25), ("lr", 1e-3)]))]
#[case::bracketed("Epoch [2/10], Step [100/600], Loss: 0.1234",
    reading(Some(2.0), Some(10.0), Some(100.0), Some(600.0), &[("loss", 0.1234)]))]
#[case::validation("val_loss=0.5, val_acc=0.91",
    reading(None, None, None, None, &[("val_loss", 0.5), ("val_acc", 0.91)]))]
#[case::korean("최종 평균 Loss: 0.0367", reading(None, None, None, None, &[("loss", 0.0367)]))]
#[case::xgboost("[19]\ttrain-mlogloss:0.10250\teval-mlogloss:0.35462",
    reading(None, None, Some(19.0), None, &[("train-mlogloss", 0.1025), ("eval-mlogloss", 0.35462)]))]
#[case::lightning_rich("Epoch 0/1  ━━━━━━━━━━━━━━━━━━ 3/4 0:00:00 • 0:00:00 200.45it/s train_loss: 0.007",
    reading(Some(1.0), Some(2.0), Some(3.0), Some(4.0), &[("train_loss", 0.007)]))]
#[case::quoted("{'loss': '0.1107', 'grad_norm': '1.488', 'epoch': '0.5'}",
    reading(Some(0.5), None, None, None, &[("loss", 0.1107), ("grad_norm", 1.488)]))]
#[case::words("epoch 3/20 loss 0.1234", reading(Some(3.0), Some(20.0), None, None, &[("loss", 0.1234)]))]
#[case::settings_beside("Epoch 2: rank=0 world=2 batch_size=64 loss=0.5",
    reading(Some(2.0), None, None, None, &[("loss", 0.5)]))]
#[case::infinite("step=3 loss=-inf", reading(None, None, Some(3.0), None, &[("loss", f64::NEG_INFINITY)]))]
#[case::logged("INFO [trainer.py:120] step 10 of 20 loss: 0.5",
    reading(None, None, Some(10.0), Some(20.0), &[("loss", 0.5)]))]
#[case::warning(
    "[W1116 13:00:00.123 reducer.cpp:1545] Warning: find_unused_parameters=True was specified",
    Reading::default()
)]
#[case::torch_warning("[W reducer.cpp:1545] loss: 1", Reading::default())]
#[case::namespace(
    "Namespace(batch_size=64, epochs=10, lr=0.1, loss=2)",
    Reading::default()
)]
#[case::configuration("{'lr': 0.001, 'batch_size': 64, 'epochs': 10}", Reading::default())]
#[case::optimizer("    lr: 0.001", Reading::default())]
#[case::exception("RuntimeError: loss: 3.0", Reading::default())]
#[case::address("connecting to demo-node-0-0.demo:29500 step 1", Reading::default())]
#[case::greeting("PyTorch version: 2.2.2", Reading::default())]
#[case::rank("Rank: 0, World Size: 2", Reading::default())]
#[case::port("listening on port: 29500", Reading::default())]
#[case::time("12:30:05 started", Reading::default())]
#[case::empty("", Reading::default())]
fn lines_are_read(#[case] line: &str, #[case] want: Reading) {
    assert_eq!(read(line), want);
}

#[test]
fn tqdm_gives_share_step_and_metrics() {
    let got = read(
        "Epoch 1:  35%|███▌      | 164/469 [00:02<00:04, 70.10it/s, v_num=0, train_loss=0.310]",
    );
    assert_eq!(
        (got.epoch, got.step, got.steps, got.percent),
        (Some(1.0), Some(164.0), Some(469.0), Some(35.0))
    );
    assert_eq!(got.metrics, [("train_loss".to_owned(), 0.310)]);
}

#[test]
fn what_is_not_a_number_is_read_as_such() {
    let got = read("Epoch 3: loss=nan");
    assert!(got.metrics[0].1.is_nan(), "{got:?}");
}

#[rstest]
#[case::traceback(
    "Traceback (most recent call last):\n  File \"train.py\", line 3\n    fit(epoch=1, loss=2.5, batch_size=64)\nValueError: loss=3.5\nloss: 0.5"
)]
#[case::ranks(
    "[rank0]: Traceback (most recent call last):\n[rank0]:     fit(epoch=1, loss=2.5)\n[rank0]: KeyError: 'epoch=1 loss=3'\nloss: 0.5"
)]
#[case::warning("/opt/x.py:12: UserWarning: old\n  fit(epoch=1, loss=2.5)\nloss: 0.5")]
fn what_belongs_to_a_traceback_or_a_warning_is_not_read(#[case] log: &str) {
    let mut reader = Reader::default();
    let lines = log.lines();
    let got: Vec<(String, Option<f64>, f64)> = lines
        .flat_map(|line| reader.line(Timestamp::UNIX_EPOCH, line))
        .collect();
    assert_eq!(got, [("loss".to_owned(), None, 0.5)]);
}

#[test]
fn progress_grows_over_epochs_and_knows_the_time_left() {
    let at = |second: i64| Timestamp::from_second(second).unwrap();
    let mut reader = Reader::default();
    reader.line(at(0), "Epoch 1/3");
    assert_eq!(reader.progress().unwrap().percent, 0.0);
    reader.line(at(10), "234/468 [====>] - 5s - loss: 0.5");
    let half = reader.progress().unwrap();
    assert_eq!(half.percent, 16.7);
    assert_eq!(half.remaining_seconds, Some(50));
    assert_eq!(half.step, "epoch 1 of 3, step 234 of 468");
    let metrics = reader.line(at(20), "Epoch 2, Batch 100/468, Loss: 0.4");
    assert_eq!(metrics, [("loss".to_owned(), Some(568.0), 0.4)]);
    assert_eq!(reader.progress().unwrap().percent, 40.5);
}

#[rstest]
#[case::counted_anew(
    &["epoch 1 step 0 loss=9", "epoch 1 step 1 loss=8", "epoch 2 step 0 loss=7", "epoch 2 step 1 loss=6", "epoch 3 step 0 loss=5"],
    &[0.0, 1.0, 2.0, 3.0, 4.0])]
#[case::counted_from_one(
    &["epoch 1 step 1 loss=9", "epoch 1 step 2 loss=8", "epoch 2 step 1 loss=7", "epoch 2 step 2 loss=6"],
    &[1.0, 2.0, 3.0, 4.0])]
#[case::counted_on(
    &["epoch 1 step 10 loss=9", "epoch 2 step 20 loss=8", "epoch 3 step 30 loss=7"],
    &[10.0, 20.0, 30.0])]
#[case::with_totals(
    &["epoch 1 step 0/5 loss=9", "epoch 2 step 0/5 loss=8"],
    &[0.0, 5.0])]
#[case::begun_again(
    &["epoch 1 step 0 loss=9", "epoch 2 step 0 loss=8", "epoch 1 step 0 loss=9"],
    &[0.0, 1.0, 0.0])]
fn epochs_follow_each_other_on_a_curve(#[case] lines: &[&str], #[case] want: &[f64]) {
    let mut reader = Reader::default();
    let steps: Vec<f64> = lines
        .iter()
        .flat_map(|line| reader.line(Timestamp::UNIX_EPOCH, line))
        .filter_map(|(_, step, _)| step)
        .collect();
    assert_eq!(steps, want);
}

#[test]
fn an_epoch_without_a_total_is_no_percentage() {
    let mut reader = Reader::default();
    reader.line(Timestamp::UNIX_EPOCH, "Epoch 1, Batch 0/469, Loss: 2.3085");
    assert_eq!(reader.progress(), None);
}

#[test]
fn a_line_of_megabytes_is_passed_over() {
    assert_eq!(
        read(&format!("loss: 1 {}", "x".repeat(3_000_000))),
        Reading::default()
    );
}

/// Training code prints what it likes.
#[test]
fn any_line_is_read() {
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};
    const PARTS: [&str; 16] = [
        "epoch",
        "step",
        "loss",
        "=",
        ":",
        "/",
        "[",
        "]",
        " ",
        "1e999",
        "-0",
        "99999999999999999999",
        "%",
        "\u{1F600}",
        "\0",
        "|",
    ];
    for seed in 0..3_000 {
        let mut random = StdRng::seed_from_u64(seed);
        let length = random.random_range(0..60);
        let line: String = (0..length)
            .map(|_| PARTS[random.random_range(0..PARTS.len())])
            .collect();
        let _ = super::read(&line);
    }
    let _ = super::read(&"epoch 1/2 loss=3 ".repeat(10_000));
}
