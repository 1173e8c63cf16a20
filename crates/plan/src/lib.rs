//! From a TrainJob and its runtime to the exact pods that will run. Pure.

pub mod fit;
