//! Numbers as Prometheus reads them.

use std::fmt::{Display, Write as _};

/// Metrics in Prometheus' text form.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
    metric: &'static str,
}

impl Exposition {
    /// Begins a metric; the kind is `counter`, `gauge` or `histogram`.
    pub fn metric(&mut self, name: &'static str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        self.metric = name;
    }

    pub fn value(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.part("", labels, value);
    }

    /// A value of a histogram, whose parts have names of their own.
    pub fn part(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.text, "{}{suffix}", self.metric);
        for (index, (name, text)) in labels.iter().enumerate() {
            let open = if index == 0 { '{' } else { ',' };
            let text = text
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let _ = write!(self.text, "{open}{name}=\"{text}\"");
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{close} {value}");
    }

    pub fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_may_have_any_letter() {
        let mut out = Exposition::default();
        out.metric("jobs", "gauge", "Jobs by name.");
        out.value(&[("name", "a\"b\\c\nd"), ("of", "me")], 2);
        out.value(&[], 0.5);
        let want = "# HELP jobs Jobs by name.\n# TYPE jobs gauge\n\
                    jobs{name=\"a\\\"b\\\\c\\nd\",of=\"me\"} 2\njobs 0.5\n";
        assert_eq!(out.into_text(), want);
    }
}
