//! virt-hook: the tool of whoever writes or runs hooks. It needs no libvirt and no cluster.

mod cli;
mod failure;
mod modules;
mod output;
mod render;
mod replay;
mod serve;
mod wrap;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Verb};

fn main() -> ExitCode {
    // Modules are compiled in a child, which is this program again.
    if let Some(code) = hook_host::compile_child() {
        return code;
    }
    let cli = Cli::parse();
    match &cli.verb {
        Verb::Serve(_) => log_as_a_service(),
        Verb::Render(_) | Verb::Replay(_) | Verb::Wrap(_) => log_to_stderr(cli.verbose),
    }
    let done = match &cli.verb {
        Verb::Render(arguments) => render::run(arguments),
        Verb::Serve(arguments) => serve::run(arguments),
        Verb::Replay(arguments) => replay::run(arguments),
        Verb::Wrap(arguments) => wrap::run(arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Standard output is for results alone.
fn log_to_stderr(verbose: bool) {
    let level = if verbose {
        tracing::Level::INFO
    } else {
        tracing::Level::ERROR
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(level)
        .without_time()
        .with_target(false)
        .init();
}

/// Nobody else tells what became of a VM's hooks, and when.
fn log_as_a_service() {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(tracing::Level::INFO)
        .with_ansi(false)
        .with_target(false)
        .init();
}
