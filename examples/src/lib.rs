//! Small programs around Flowgate.
