//! Sets of fields.
