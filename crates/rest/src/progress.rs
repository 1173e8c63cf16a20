//! Progress and metrics from the lines that training code prints anyway. Pure.
//!
//! | who prints it | line |
//! |---|---|
//! | PyTorch's examples | `Epoch 1, Batch 0/469, Loss: 2.3085` |
//! | Keras | `Epoch 2/3`, then `469/469 [====] - 5s 10ms/step - loss: 0.21 - accuracy: 0.94` |
//! | Hugging Face | `{'loss': 0.69, 'grad_norm': 1.2, 'learning_rate': 4e-05, 'epoch': 0.5}` |
//! | PyTorch Lightning, tqdm | `Epoch 1:  35%|███▌ | 164/469 [00:02<00:04, 70.1it/s, v_num=0, train_loss=0.31]` |
//! | XGBoost | `[19]\ttrain-mlogloss:0.10250\teval-mlogloss:0.35462` |
//! | anybody | `step=120 loss=0.25 lr=1e-3`, `epoch 1/20 loss 0.25` |
//!
//! A [`Reader`] is fed line by line and keeps where training stands; a line that says nothing
//! changes nothing, nor do tracebacks and warnings, which are full of numbers. It never guesses a number of epochs that was not printed.

mod read;

#[cfg(test)]
mod tests;

use jiff::Timestamp;

use crate::cause::bare;
use crate::model::{Count, CountUnit, Progress};

pub(crate) use self::read::read;

/// What one line says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    pub(crate) epoch: Option<f64>,
    pub(crate) epochs: Option<f64>,
    pub(crate) step: Option<f64>,
    pub(crate) steps: Option<f64>,
    /// From a progress bar that gives a share of the epoch and no steps.
    pub(crate) percent: Option<f64>,
    pub(crate) metrics: Vec<(String, f64)>,
}

impl Reading {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Where one worker's training stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reader {
    epoch: Option<f64>,
    epochs: Option<f64>,
    step: Option<f64>,
    steps: Option<f64>,
    percent: Option<f64>,
    /// Where the epoch before ended, and what its steps come after, where each epoch counts from its beginning and never
    /// says how far.
    ended: Option<f64>,
    before: f64,
    /// What the lines before belong to.
    within: Within,
    /// The first and the latest moment at which the share done was known, for the time left.
    first: Option<(Timestamp, f64)>,
    latest: Option<(Timestamp, f64)>,
}

/// Lines that belong together and are not about training.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Within {
    #[default]
    Nothing,
    /// Until the exception, which is the first line that is not indented.
    Traceback,
    /// Python shows the line of code that caused it, indented.
    Warning,
}

impl Within {
    /// What the next line belongs to, and whether this one is to be read.
    fn line(&mut self, text: &str) -> bool {
        let text = bare(text);
        let indented = text.is_empty() || text.starts_with([' ', '\t']);
        let before = *self;
        *self = if text.contains("Traceback (most recent call last)")
            || before == Self::Traceback && indented
        {
            Self::Traceback
        } else if text.contains("Warning:") {
            Self::Warning
        } else {
            Self::Nothing
        };
        match before {
            Self::Nothing => *self == Self::Nothing,
            Self::Traceback => false,
            Self::Warning => !indented,
        }
    }
}

impl Reader {
    /// Takes in a line; returns its metrics with the step they belong to.
    pub(crate) fn line(&mut self, time: Timestamp, text: &str) -> Vec<(String, Option<f64>, f64)> {
        if !self.within.line(text) {
            return Vec::new();
        }
        let reading = read(text);
        if reading.is_empty() {
            return Vec::new();
        }
        if reading.epoch.is_some() && reading.epoch != self.epoch {
            // A new epoch begins at its first step, unless the line says otherwise.
            let ended = self.step.map(|step| self.before + step);
            let later = reading.epoch > self.epoch;
            (self.ended, self.before) = (ended.filter(|_| later), 0.0);
            (self.step, self.percent) = (None, None);
        }
        self.epoch = reading.epoch.or(self.epoch);
        self.epochs = reading.epochs.or(self.epochs);
        self.step = reading.step.or(self.step);
        self.steps = reading.steps.or(self.steps);
        if let (Some(ended), Some(step)) = (self.ended, reading.step) {
            // Steps that go on counting through the epochs need no help.
            self.before = if step > ended {
                0.0
            } else {
                ended + 1.0 - step
            };
            self.ended = None;
        }
        self.percent = reading
            .percent
            .or(self.percent.filter(|_| reading.step.is_none()));
        if let Some(share) = self.share() {
            // A smaller share than before is a restart: time is measured from there.
            if self.latest.is_some_and(|(_, before)| share < before) {
                self.first = None;
            }
            self.first.get_or_insert((time, share));
            self.latest = Some((time, share));
        }
        let position = self.position();
        reading
            .metrics
            .into_iter()
            .map(|(name, value)| (name, position, value))
            .collect()
    }

    /// Where training stands now, if the lines told.
    pub(crate) fn progress(&self) -> Option<Progress> {
        let share = self.share()?;
        let counts = self.counts();
        Some(Progress {
            percent: (share * 1000.0).round() / 10.0,
            remaining_seconds: self.remaining(),
            step: describe(&counts),
            counts,
        })
    }

    /// The share of the whole that is done, from 0 to 1. Epochs count from 1 as people print
    /// them, except where 0 was printed or a fraction says how far it is.
    fn share(&self) -> Option<f64> {
        let within = match (self.step, self.steps, self.percent) {
            (Some(step), Some(steps), _) if steps > 0.0 => Some((step / steps).clamp(0.0, 1.0)),
            (_, _, Some(percent)) => Some((percent / 100.0).clamp(0.0, 1.0)),
            _ => None,
        };
        match (self.epoch, self.epochs) {
            (Some(epoch), Some(epochs)) if epochs > 0.0 => {
                let fractional = epoch.fract() != 0.0;
                let done = if fractional {
                    epoch
                } else {
                    (epoch - 1.0).max(0.0) + within.unwrap_or(0.0)
                };
                Some((done / epochs).clamp(0.0, 1.0))
            }
            (None, None) => within,
            // An epoch without a number of epochs says how far the epoch is, not the whole.
            _ => None,
        }
    }

    fn remaining(&self) -> Option<i64> {
        let ((from, before), (until, now)) = (self.first?, self.latest?);
        let seconds = until.duration_since(from).as_secs_f64();
        let done = now - before;
        if seconds < 1.0 || done <= 0.0 {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "a time for people")]
        let left = ((1.0 - now) * seconds / done).round() as i64;
        Some(left)
    }

    /// Where training stands, for comparing.
    pub(crate) fn place(&self) -> [Option<f64>; 3] {
        [self.epoch, self.step, self.percent]
    }

    /// A number that grows over the whole training, for the axis of a curve.
    fn position(&self) -> Option<f64> {
        match (self.epoch, self.step, self.steps) {
            (Some(epoch), Some(step), Some(steps)) if epoch.fract() == 0.0 => {
                Some((epoch - 1.0).max(0.0) * steps + step)
            }
            (_, Some(step), _) => Some(self.before + step),
            (Some(epoch), None, _) => Some(epoch),
            _ => None,
        }
    }

    fn counts(&self) -> Vec<Count> {
        let parts = [
            (CountUnit::Epoch, self.epoch, self.epochs),
            (CountUnit::Step, self.step, self.steps),
        ];
        let count = |(unit, at, of): (CountUnit, Option<f64>, Option<f64>)| {
            Some(Count { unit, at: at?, of })
        };
        parts.into_iter().filter_map(count).collect()
    }
}

fn describe(counts: &[Count]) -> String {
    let number = |value: f64| {
        if value.fract() == 0.0 {
            format!("{value:.0}")
        } else {
            format!("{value:.2}")
        }
    };
    let part = |count: &Count| {
        let unit = match count.unit {
            CountUnit::Epoch => "epoch",
            CountUnit::Step => "step",
        };
        let at = number(count.at);
        match count.of {
            Some(of) => format!("{unit} {at} of {}", number(of)),
            None => format!("{unit} {at}"),
        }
    };
    counts.iter().map(part).collect::<Vec<_>>().join(", ")
}
