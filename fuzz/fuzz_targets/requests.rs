#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| vidmm_fuzz::run("requests", data));
