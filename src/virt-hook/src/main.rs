//! virt-hook: the tool for authors and operators of hooks. It needs no libvirt and no cluster.

mod cached_compilation;
mod cli;
mod cloud_init_documents_by_name;
mod collected_hooks;
mod command_line_suggestions;
mod compiled_module_cache;
mod grant_arguments;
mod granted_dirs;
mod hook_limits_from_cgroup;
mod hook_module;
mod host_version_options;
mod inputs;
mod interactive_compile;
mod module_chain;
mod module_discovery;
mod output;
mod output_file;
mod program_in_path;
mod repeated_options;
mod temporary_directory;
#[cfg(test)]
mod test_files;
mod tokio_runtime;
mod verb_failure;
mod verbs;
mod version;
mod yaml_writer;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use stderr_lines::Lines;
use tracing_subscriber::filter::LevelFilter;

use cli::{Cli, Verb};
use output::{Screen, Style, UnquotedFields};
use verb_failure::Failure;
use verbs::{
    bench, check, compare, compile, completions_and_man, deploy, dev, doctor, host_facts, image,
    inspect, libvirt_hook, new, policy, registry, render, replay, run, schema, serve, signature,
    test, wrap,
};
use version::VersionReport;

/// How long the end of `serve` waits for the reader of its last lines.
const LOG_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    if let Some(code) = libvirt_hook::by_program_name() {
        return code;
    }
    // Modules are compiled in a child process, which is this program again.
    if let Some(code) = hook_host::compile_child() {
        return code;
    }
    // So are libvirt's tools, which `check` runs.
    if let Some(code) = check::confined_tool() {
        return code;
    }
    let mut program = Cli::command();
    program.build();
    let words = repeated_options::with_repeated_options(std::env::args_os(), &program);
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => return print_usage_error(&command_line_suggestions::with_suggestion(error)),
    };
    // `serve` has its own end.
    if !matches!(cli.verb, Verb::Serve(_)) {
        log_to_stderr(cli.verbose);
        temporary_directory::remove_on_signals();
    }
    if cli.quiet {
        output::be_quiet();
    }
    let screen = Screen {
        verb: cli.verb.name(),
        json: cli.json,
        style: Style::for_stdout(cli.color),
    };
    match &cli.verb {
        Verb::New(arguments) => screen.show(new::run(arguments)),
        Verb::Check(arguments) => screen.show(check::run(arguments)),
        Verb::Test(arguments) => screen.show(test::run(arguments)),
        Verb::Compare(arguments) => screen.show(compare::run(arguments)),
        Verb::Bench(arguments) => screen.show(bench::run(arguments)),
        Verb::Compile(arguments) => screen.show(compile::run(arguments)),
        Verb::Image(arguments) => screen.show(image::run(arguments)),
        Verb::Deploy(arguments) => screen.show(deploy::run(arguments)),
        Verb::Push(arguments) => screen.show(registry::push(arguments)),
        Verb::Pull(arguments) => screen.show(registry::pull(arguments)),
        Verb::Sign(arguments) => screen.show(signature::sign(arguments)),
        Verb::Verify(arguments) => screen.show(signature::verify(arguments)),
        Verb::Inspect(arguments) => screen.show(inspect::run(arguments)),
        Verb::Run(arguments) => screen.show(run::run(arguments)),
        Verb::Render(arguments) => screen.show(render::run(arguments)),
        Verb::HostFacts(arguments) => screen.show(host_facts::run(arguments)),
        Verb::Replay(arguments) => screen.show(replay::run(arguments)),
        Verb::Wrap(arguments) => screen.show(wrap::run(arguments)),
        Verb::Policy(arguments) => screen.show(policy::run(arguments)),
        Verb::Schema(arguments) => screen.show(schema::run(arguments)),
        Verb::Doctor(arguments) => screen.show(doctor::run(arguments)),
        Verb::Completions(arguments) => {
            screen.show(completions_and_man::completions(arguments, Cli::command()))
        }
        Verb::Man(arguments) => screen.show(completions_and_man::man(arguments, Cli::command())),
        Verb::Dev(arguments) => match dev::run(arguments, screen.style) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => screen.failure(&failure),
        },
        Verb::LibvirtHook(arguments) => libvirt_hook::run(arguments),
        Verb::Serve(arguments) => {
            let served = log_as_a_service()
                .map_err(|error| {
                    Failure::internal(
                        anyhow::Error::new(error).context("starting the log's thread"),
                    )
                })
                .and_then(|log| {
                    let served = serve::run(arguments);
                    log.flush(LOG_FLUSH_TIMEOUT);
                    served
                });
            match served {
                Ok(()) => ExitCode::SUCCESS,
                Err(failure) => screen.failure(&failure),
            }
        }
    }
}

/// Prints an error of the command line with clap's text, as JSON if `--json` is given. Help is always text.
fn print_usage_error(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    if wants_json && error.kind() == ErrorKind::DisplayVersion {
        let screen = Screen {
            verb: "version",
            json: true,
            style: Style::default(),
        };
        return screen.show(Ok(VersionReport::new()));
    }
    if !wants_json || !error.use_stderr() {
        error.exit();
    }
    let text = error.render().to_string();
    let text = text.trim().trim_start_matches("error: ").to_owned();
    let screen = Screen {
        verb: "",
        json: true,
        style: Style::default(),
    };
    screen.failure(&Failure::usage(anyhow::anyhow!(text)))
}

/// Standard output is for results only, and standard error for one line unless `--verbose` is given.
fn log_to_stderr(verbose: bool) {
    let level = if verbose {
        LevelFilter::INFO
    } else {
        LevelFilter::OFF
    };
    tracing_subscriber::fmt()
        .fmt_fields(UnquotedFields)
        .with_writer(io::stderr)
        .with_max_level(level)
        .without_time()
        .with_target(false)
        .init();
}

/// Logs of a service go to standard error in any case: they are the only trace of a VM's hooks. A reader that does not
/// keep up loses lines, and no hook waits for it.
fn log_as_a_service() -> io::Result<Lines> {
    let about_dropped = |count| {
        format!("WARN {count} log lines were dropped: their reader does not keep up\n").into_bytes()
    };
    let lines = Lines::to_stderr(about_dropped)?;
    let writer = lines.clone();
    tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_max_level(tracing::Level::INFO)
        .with_ansi(false)
        .with_target(false)
        .init();
    Ok(lines)
}
