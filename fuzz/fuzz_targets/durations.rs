#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| delay_queue::fuzzing::durations(data));
