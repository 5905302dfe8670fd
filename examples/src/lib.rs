//! Programs that show Flowgate at work: `hello.rs` is the first five minutes,
//! `demo/` a guarded service under real traffic.
