//! The executable, which runs the command line with the mimalloc allocator.

use std::process::ExitCode;

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    delay_queue::cli::main()
}
