//! The command line of vidmm, on the model GPU.

use std::process::ExitCode;

fn main() -> ExitCode {
    vidmm_cli::main(&vidmm_cli::ModelGpu, &[])
}
