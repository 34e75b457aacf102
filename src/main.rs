//! The program: parse the command line, start telemetry, dispatch.

fn main() {}
