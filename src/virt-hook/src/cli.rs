//! The command line.

use clap::{Parser, Subcommand};

use crate::output::Colour;
use crate::version::VERSION;
use crate::{
    bench, check, compare, compile, completions_and_man, deploy, dev, doctor, image, inspect,
    libvirt_hook, new, policy, registry, render, replay, run, serve, signatures, test, wrap,
};

/// Work with hooks of KubeVirt virtual machines, without a cluster.
#[derive(Debug, Parser)]
#[command(name = "virt-hook", version = VERSION, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Show on standard error what hooks log and what each changed
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Give the result, or the error, as one JSON document on standard output
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
  0  done, and as it should be; the result is on standard output
  1  not as it should be: the VMI was refused, a hook refused or failed, a check or a test failed,
     or something is different; standard error says why
  2  the command line, or a file that it names, cannot be used
  3  this machine could not do it: a program is missing, the disk is full, no answer in time
  4  of compare only: nothing was compared on some of the VMIs";

/// The verbs; all except `serve` and `dev` end with one [report](crate::output::Report).
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Start a hook: a project that builds, and passes its own tests
    #[command(after_help = new::HELP)]
    New(new::Arguments),
    /// Build and test a hook again after each change
    #[command(after_help = dev::HELP)]
    Dev(dev::Arguments),
    /// See whether a hook will do in a cluster, as far as this machine can tell
    #[command(after_help = check::HELP)]
    Check(check::Arguments),
    /// Say what a module is: hook points, wishes, what it imports, what it costs to compile
    #[command(after_help = inspect::HELP)]
    Inspect(inspect::Arguments),
    /// Run one hook point of a hook on a VMI, and show what it did
    #[command(after_help = run::HELP)]
    Run(run::Arguments),
    /// Turn a VMI into the domain XML that libvirt would be given
    #[command(after_help = render::HELP)]
    Render(render::Arguments),
    /// Run hooks on a folder of cases, and compare with what is expected
    #[command(after_help = test::HELP)]
    Test(test::Arguments),
    /// See whether a port does what its original does, or what a hook changes of all VMs of a cluster
    #[command(after_help = compare::HELP)]
    Compare(compare::Arguments),
    /// Measure what a module costs, in a launcher and as a served sidecar
    #[command(after_help = bench::HELP)]
    Bench(bench::Arguments),
    /// Compile modules ahead, for an image
    #[command(after_help = compile::HELP)]
    Compile(compile::Arguments),
    /// Put modules into an OCI image, for volumes of pods and for registries
    #[command(after_help = image::HELP)]
    Image(image::Arguments),
    /// Print what brings a module into a cluster: ConfigMap, annotations, Plugin, policy
    #[command(after_help = deploy::HELP)]
    Deploy(deploy::Arguments),
    /// Push an image of modules to a registry
    #[command(after_help = registry::PUSH_HELP)]
    Push(registry::PushArguments),
    /// Pull modules from a registry
    #[command(after_help = registry::PULL_HELP)]
    Pull(registry::PullArguments),
    /// Sign modules with a key, as cosign does
    #[command(after_help = signatures::SIGN_HELP)]
    Sign(signatures::SignArguments),
    /// Say whether a key signed a module
    #[command(after_help = signatures::VERIFY_HELP)]
    Verify(signatures::VerifyArguments),
    /// Be one hook sidecar, or one plugin's sidecar, of a stock KubeVirt, with any number of modules
    #[command(after_help = serve::HELP)]
    Serve(serve::Arguments),
    /// Be libvirt's hook, in a launcher's pod or on a host without KubeVirt: hooks see the VM that a migration brings
    #[command(after_help = libvirt_hook::HELP)]
    LibvirtHook(libvirt_hook::Arguments),
    /// Run a recorded run of a hook again, and show what is different about it
    #[command(after_help = replay::HELP)]
    Replay(replay::Arguments),
    /// Make a hook of a core WebAssembly module, as clang makes them
    #[command(after_help = wrap::HELP)]
    Wrap(wrap::Arguments),
    /// Say what an operator's policy allows, and what modules need of one
    #[command(after_help = policy::HELP)]
    Policy(policy::Arguments),
    /// Say which tools for hooks this machine has, and how to get the others
    #[command(after_help = doctor::HELP)]
    Doctor(doctor::Arguments),
    /// Print the completions of a shell
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
            Self::Serve(_) => "serve",
            Self::LibvirtHook(_) => "libvirt-hook",
            Self::Replay(_) => "replay",
            Self::Wrap(_) => "wrap",
            Self::Policy(_) => "policy",
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
