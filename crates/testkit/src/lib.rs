//! An in-process plane, a fake node and builders, for tests.
