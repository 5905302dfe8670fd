//! Benchmarks of Flowgate.
