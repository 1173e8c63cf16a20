//! What training reports of itself.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Metric {
    pub name: String,
    /// The latest.
    pub value: MetricValue,
    /// The points over time. Of a curve that has too many of them, the least and the greatest of each
    /// stretch; present in the answer about curves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<MetricPoint>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MetricPoint {
    pub time: Timestamp,
    pub worker: i64,
    pub step: Option<f64>,
    pub value: MetricValue,
}

/// A number, or the name of what JSON has no number for, as Protocol Buffers write it in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum MetricValue {
    Finite(f64),
    NotFinite(NotFinite),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum NotFinite {
    NaN,
    Infinity,
    #[serde(rename = "-Infinity")]
    MinusInfinity,
}

impl From<f64> for MetricValue {
    fn from(value: f64) -> Self {
        if value.is_finite() {
            Self::Finite(value)
        } else if value.is_nan() {
            Self::NotFinite(NotFinite::NaN)
        } else if value > 0.0 {
            Self::NotFinite(NotFinite::Infinity)
        } else {
            Self::NotFinite(NotFinite::MinusInfinity)
        }
    }
}

impl From<MetricValue> for f64 {
    fn from(value: MetricValue) -> Self {
        match value {
            MetricValue::Finite(value) => value,
            MetricValue::NotFinite(NotFinite::NaN) => Self::NAN,
            MetricValue::NotFinite(NotFinite::Infinity) => Self::INFINITY,
            MetricValue::NotFinite(NotFinite::MinusInfinity) => Self::NEG_INFINITY,
        }
    }
}

impl fmt::Display for MetricValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finite(value) => value.fmt(formatter),
            Self::NotFinite(NotFinite::NaN) => formatter.write_str("NaN"),
            Self::NotFinite(NotFinite::Infinity) => formatter.write_str("Infinity"),
            Self::NotFinite(NotFinite::MinusInfinity) => formatter.write_str("-Infinity"),
        }
    }
}
