//! The command line.

use clap::{Parser, Subcommand};

use crate::output::Colour;
use crate::verbs::{
    bench, check, compare, compile, completions_and_man, deploy, dev, doctor, host_facts, image,
    inspect, libvirt_hook, new, policy, registry, render, replay, run, schema, serve, signature,
    test, wrap,
};
use crate::version::VERSION;

/// Work with hooks of KubeVirt virtual machines, without a cluster.
#[derive(Debug, Parser)]
#[command(name = "virt-hook", version = VERSION, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Show the logs and changes of hooks on standard error
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Do not show warnings and notes on standard error
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Print the result, or the error, as one JSON document on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use colours; never in JSON
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) color: Colour,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  success; the result is on standard output
  1  negative result: the VMI was refused, a hook was refused by the policy, vetoed or failed, a check
     or test failed, a replay or comparison differs; standard error says why
  2  invalid command line, or an unusable file: it is missing, empty, not a VMI, not a module
  3  error of this machine: a program is missing, the disk is full, a timeout
  4  of compare only: nothing was compared on some of the VMIs";

/// The verbs; all except `serve` and `dev` end with one [report](crate::output::Report).
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Create a hook project with tests
    #[command(after_help = new::HELP)]
    New(new::Arguments),
    /// Build and test a hook project after each change
    #[command(after_help = dev::HELP)]
    Dev(dev::Arguments),
    /// Check whether a hook is ready for a cluster
    #[command(after_help = check::HELP)]
    Check(check::Arguments),
    /// Describe a module: hook points, wishes, imports, cost of compiling
    #[command(after_help = inspect::HELP)]
    Inspect(inspect::Arguments),
    /// Run one hook point of a hook on a VMI, and show its changes
    #[command(after_help = run::HELP)]
    Run(run::Arguments),
    /// Convert a VMI to domain XML, with or without hooks
    #[command(after_help = render::HELP)]
    Render(render::Arguments),
    /// Write a file with the facts about node and pod that a VMI needs, for --host
    #[command(after_help = host_facts::HELP)]
    HostFacts(host_facts::Arguments),
    /// Run hooks on a directory of test cases
    #[command(after_help = test::HELP)]
    Test(test::Arguments),
    /// Compare a port with its original, or preview hooks on many VMs
    #[command(after_help = compare::HELP)]
    Compare(compare::Arguments),
    /// Measure time and memory of a module, in a launcher and as a served sidecar
    #[command(after_help = bench::HELP)]
    Bench(bench::Arguments),
    /// Compile modules in advance, for an image
    #[command(after_help = compile::HELP)]
    Compile(compile::Arguments),
    /// Write modules as an OCI image, for volumes of pods and for registries
    #[command(after_help = image::HELP)]
    Image(image::Arguments),
    /// Print the manifests that bring a module into a cluster
    #[command(after_help = deploy::HELP)]
    Deploy(deploy::Arguments),
    /// Push an image of modules to a registry
    #[command(after_help = registry::PUSH_HELP)]
    Push(registry::PushArguments),
    /// Pull modules from a registry
    #[command(after_help = registry::PULL_HELP)]
    Pull(registry::PullArguments),
    /// Sign modules with a key, as cosign does
    #[command(after_help = signature::SIGN_HELP)]
    Sign(signature::SignArguments),
    /// Verify the signature of a module
    #[command(after_help = signature::VERIFY_HELP)]
    Verify(signature::VerifyArguments),
    /// Serve modules as a hook sidecar or a Plugin's sidecar of a stock KubeVirt
    #[command(after_help = serve::HELP)]
    Serve(serve::Arguments),
    /// Run as libvirt's hook on a migration's target, or on a host without KubeVirt
    #[command(after_help = libvirt_hook::HELP)]
    LibvirtHook(libvirt_hook::Arguments),
    /// Repeat a recorded run and show the differences
    #[command(after_help = replay::HELP)]
    Replay(replay::Arguments),
    /// Convert a core module (from clang or Go) to a hook
    #[command(after_help = wrap::HELP)]
    Wrap(wrap::Arguments),
    /// Check an operator's policy, and what modules need from it
    #[command(after_help = policy::HELP)]
    Policy(policy::Arguments),
    /// Print the JSON schema of hook.yaml, of a policy or of a description, for editors
    #[command(after_help = schema::HELP)]
    Schema(schema::Arguments),
    /// List the tools for hooks on this machine, and how to install missing ones
    #[command(after_help = doctor::HELP)]
    Doctor(doctor::Arguments),
    /// Print the completion script of a shell
    #[command(after_help = completions_and_man::COMPLETIONS_HELP)]
    Completions(completions_and_man::CompletionsArguments),
    /// Write man pages
    #[command(after_help = completions_and_man::MAN_HELP)]
    Man(completions_and_man::ManArguments),
}

impl Verb {
    /// The verb as it is typed.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::New(_) => "new",
            Self::Dev(_) => "dev",
            Self::Check(_) => "check",
            Self::Test(_) => "test",
            Self::Compare(_) => "compare",
            Self::Bench(_) => "bench",
            Self::Compile(_) => "compile",
            Self::Image(_) => "image",
            Self::Deploy(_) => "deploy",
            Self::Push(_) => "push",
            Self::Pull(_) => "pull",
            Self::Sign(_) => "sign",
            Self::Verify(_) => "verify",
            Self::Inspect(_) => "inspect",
            Self::Run(_) => "run",
            Self::Render(_) => "render",
            Self::HostFacts(_) => "host-facts",
            Self::Serve(_) => "serve",
            Self::LibvirtHook(_) => "libvirt-hook",
            Self::Replay(_) => "replay",
            Self::Wrap(_) => "wrap",
            Self::Policy(_) => "policy",
            Self::Schema(_) => "schema",
            Self::Doctor(_) => "doctor",
            Self::Completions(_) => "completions",
            Self::Man(_) => "man",
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn definition_of_the_command_line_is_valid() {
        Cli::command().debug_assert();
    }
}
