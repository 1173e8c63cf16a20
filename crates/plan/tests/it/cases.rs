//! Tables of cases.
