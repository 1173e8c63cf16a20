//! How long a finished job stays, and how often it is started again.
//!
//! Both have two spellings: a field of the specification, and an annotation that makes the same YAML
//! valid on a cluster whose TrainJob does not know the field. The field wins.

use kube::ResourceExt;

use super::TrainJob;
use crate::labels;

/// An annotation that should be a count and is not.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("must be a whole number from 0 to {max}, not {value:?}", max = i32::MAX)]
pub struct InvalidAnnotation {
    /// The key of the annotation.
    pub key: &'static str,
    /// The value that it has.
    pub value: String,
}

impl TrainJob {
    /// How many seconds after its end the job is deleted, as the job itself says it. Without an
    /// answer the runtime decides; see `astrago_plan::effective_ttl`.
    pub fn ttl_seconds_after_finished(&self) -> Result<Option<i32>, InvalidAnnotation> {
        self.field_or_annotation(
            self.spec.ttl_seconds_after_finished,
            labels::TTL_SECONDS_AFTER_FINISHED,
        )
    }

    /// How often the whole job is started again after a failure, as the job itself says it.
    /// Without an answer the runtime decides; see `astrago_plan::effective_max_restarts`.
    pub fn max_restarts(&self) -> Result<Option<i32>, InvalidAnnotation> {
        self.field_or_annotation(self.spec.max_restarts, labels::MAX_RESTARTS)
    }

    fn field_or_annotation(
        &self,
        field: Option<i32>,
        key: &'static str,
    ) -> Result<Option<i32>, InvalidAnnotation> {
        if field.is_some() {
            return Ok(field);
        }
        let Some(value) = self.annotations().get(key) else {
            return Ok(None);
        };
        match value.parse::<i32>() {
            Ok(count) if count >= 0 => Ok(Some(count)),
            _ => Err(InvalidAnnotation {
                key,
                value: value.clone(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotated(key: &str, value: &str) -> TrainJob {
        let mut job = TrainJob::default();
        job.annotations_mut().insert(key.into(), value.into());
        job
    }

    #[test]
    fn the_annotation_counts_where_the_field_is_absent() {
        let job = annotated(labels::TTL_SECONDS_AFTER_FINISHED, "60");
        assert_eq!(job.ttl_seconds_after_finished(), Ok(Some(60)));
        assert_eq!(job.max_restarts(), Ok(None));
    }

    #[test]
    fn the_field_wins_over_the_annotation() {
        let mut job = annotated(labels::MAX_RESTARTS, "7");
        job.spec.max_restarts = Some(2);
        assert_eq!(job.max_restarts(), Ok(Some(2)));
    }

    #[test]
    fn a_value_that_is_no_count_is_an_error_that_names_the_annotation() {
        for value in ["", "-1", "ten", "1.5", "99999999999"] {
            let error = annotated(labels::MAX_RESTARTS, value)
                .max_restarts()
                .unwrap_err();
            assert_eq!(error.key, labels::MAX_RESTARTS, "{value}");
        }
    }
}
