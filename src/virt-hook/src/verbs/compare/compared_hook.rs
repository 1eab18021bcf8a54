//! One side of a comparison: modules, a script, a sidecar, or no hook.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, anyhow};
use domain_xml::{Document, Limits};
use hook_host::policy::OperatorPolicy;
use hook_host::{HookPoint, PolicySource};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::runtime::Runtime;

use super::VmiOutcome;
use crate::collected_hooks::CollectedHooks;
use crate::grant_arguments::GrantArgs;
use crate::hook_module::HookModule;
use crate::inputs::{PodFactsInput, VmiInput};
use crate::module_chain::{HookOptions, ModuleCode};
use crate::tokio_runtime::runtime;
use crate::verb_failure::Failure;
use crate::{cached_compilation, interactive_compile, module_discovery};

/// Hook points at which a module or a sidecar can change a VM before it starts.
const COMPARED_POINTS: [HookPoint; 3] = [
    HookPoint::PreStart,
    HookPoint::PreCloudInitIso,
    HookPoint::OnDefineDomain,
];
/// Hook points that correspond to a script: an error exit of a script is a veto, for which modules have PreStart.
const COMPARED_POINTS_OF_SCRIPT: [HookPoint; 2] = [HookPoint::PreStart, HookPoint::OnDefineDomain];

/// The policy of modules, and the facts about the pod that they can read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ComparedHookOptions<'a> {
    pub(super) grants: &'a GrantArgs,
    pub(super) pod: Option<&'a Path>,
}

/// One side of a comparison.
pub(super) enum ComparedHook {
    /// Modules or a sidecar.
    Hooks(Box<CollectedHooks>),
    /// Modules under a policy with rules for namespaces.
    NamespacedHooks(Box<NamespacedHooks>),
    Script(SidecarShimScript),
    /// Modules that the policy refuses, with the reason.
    Refused(String),
    /// No hook: the domain stays as it was converted.
    NoHook,
}

impl ComparedHook {
    /// A module, a socket or a script; the kind follows from the file.
    pub(super) fn open(
        path: &Path,
        options: ComparedHookOptions<'_>,
        work_dir: &Path,
    ) -> Result<Self, Failure> {
        let metadata = fs::metadata(path)
            .with_context(|| path.display().to_string())
            .map_err(Failure::Usage)?;
        if metadata.file_type().is_socket() {
            return CollectedHooks::from_socket(path).map(|hooks| Self::Hooks(hooks.into()));
        }
        let is_module = path
            .extension()
            .is_some_and(|extension| extension == "wasm");
        if metadata.is_dir() || is_module {
            return Self::from_modules(&[path.to_owned()], options, work_dir);
        }
        SidecarShimScript::open(path).map(Self::Script)
    }

    /// Modules. Without a policy, everything that they declare is granted, except directories.
    pub(super) fn from_modules(
        paths: &[PathBuf],
        options: ComparedHookOptions<'_>,
        work_dir: &Path,
    ) -> Result<Self, Failure> {
        let modules = module_discovery::find(paths).map_err(Failure::Usage)?;
        let compiled = work_dir.join("compiled");
        cached_compilation::compile_once(&modules, &compiled)?;
        let mut descriptions = Vec::new();
        if options.grants.policy.is_none() {
            for hook in &modules {
                let loading = interactive_compile::load(&hook.module, &compiled);
                let module = runtime()?
                    .block_on(loading)?
                    .map_err(Failure::from_load_error)?;
                descriptions.push(module.description().clone());
            }
        }
        let policy = match options.grants.policy_for(&descriptions, work_dir) {
            Ok(policy) => policy,
            Err(refusal @ Failure::Refused(_)) => return Ok(Self::Refused(refusal.to_string())),
            Err(failure) => return Err(failure),
        };
        let policy = PolicySource::File(policy);
        let operator = OperatorPolicy::read(&policy).map_err(Failure::usage)?;
        let hooks = NamespacedHooks {
            modules,
            policy,
            compiled,
            pod: PodFactsInput::from_file(options.pod),
            collected: None,
        };
        if operator.is_some_and(|operator| operator.has_namespace_rules()) {
            return Ok(Self::NamespacedHooks(hooks.into()));
        }
        match hooks.collect("") {
            Ok(hooks) => Ok(Self::Hooks(hooks.into())),
            Err(refusal @ Failure::Refused(_)) => Ok(Self::Refused(refusal.to_string())),
            Err(failure) => Err(failure),
        }
    }

    /// The hook points at which both sides can be compared.
    pub(super) fn points(&self, other: &Self) -> Vec<HookPoint> {
        match (self, other) {
            (Self::Script(_), _) | (_, Self::Script(_)) => COMPARED_POINTS_OF_SCRIPT.to_vec(),
            _ => COMPARED_POINTS.to_vec(),
        }
    }

    /// Whether this side is called for a VM of the namespace at one of the hook points. A refused side counts as
    /// called.
    pub(super) fn is_called_at(
        &mut self,
        points: &[HookPoint],
        namespace: &str,
    ) -> Result<bool, Failure> {
        let is_called =
            |hooks: &CollectedHooks| points.iter().any(|point| hooks.are_called_at(*point));
        Ok(match self {
            Self::Hooks(hooks) => is_called(hooks),
            Self::NamespacedHooks(hooks) => hooks
                .for_namespace(namespace)?
                .as_ref()
                .map_or(true, is_called),
            Self::Script(_) | Self::Refused(_) => true,
            Self::NoHook => false,
        })
    }

    pub(super) fn run(
        &mut self,
        input: &VmiInput,
        points: &[HookPoint],
    ) -> Result<VmiOutcome, Failure> {
        match self {
            Self::Hooks(hooks) => run(hooks, input, points),
            Self::NamespacedHooks(hooks) => {
                match hooks.for_namespace(&input.invocation.namespace)? {
                    Ok(hooks) => run(hooks, input, points),
                    Err(refusal) => Ok(VmiOutcome::NotRun(refusal.clone())),
                }
            }
            Self::Script(script) => script.run(input),
            Self::Refused(refusal) => Ok(VmiOutcome::NotRun(refusal.clone())),
            Self::NoHook => Ok(VmiOutcome::unchanged(input)),
        }
    }
}

fn run(
    hooks: &CollectedHooks,
    input: &VmiInput,
    points: &[HookPoint],
) -> Result<VmiOutcome, Failure> {
    // Data in Secrets is only in the cluster; the report has the number of such VMIs.
    let has_data = input.cloud_init.is_ok();
    let points: Vec<HookPoint> = points
        .iter()
        .copied()
        .filter(|point| has_data || *point != HookPoint::PreCloudInitIso)
        .collect();
    Ok(VmiOutcome::from_hook_results(
        input,
        hooks.run(input, &points)?,
    ))
}

/// Modules under a policy whose rules name namespaces.
pub(super) struct NamespacedHooks {
    modules: Vec<HookModule>,
    policy: PolicySource,
    compiled: PathBuf,
    pod: PodFactsInput,
    /// The hooks of the last namespace, or why they may not run there. One is enough: `kubectl get -A` lists by
    /// namespace.
    collected: Option<(String, Result<CollectedHooks, String>)>,
}

impl NamespacedHooks {
    fn for_namespace(
        &mut self,
        namespace: &str,
    ) -> Result<&Result<CollectedHooks, String>, Failure> {
        let hooks = match self.collected.take() {
            Some((known, hooks)) if known == namespace => hooks,
            _ => match self.collect(namespace) {
                Ok(hooks) => Ok(hooks),
                Err(failure @ Failure::Internal(_)) => return Err(failure),
                Err(refusal) => Err(refusal.to_string()),
            },
        };
        let collected = self.collected.insert((namespace.to_owned(), hooks));
        Ok(&collected.1)
    }

    fn collect(&self, namespace: &str) -> Result<CollectedHooks, Failure> {
        let options = HookOptions {
            policy: self.policy.clone(),
            namespace: namespace.to_owned(),
            code: ModuleCode::Compiled(self.compiled.clone()),
            pod: self.pod.clone(),
            ..HookOptions::default()
        };
        CollectedHooks::collect(&self.modules, options)
    }
}

/// Deadline of the script: as long as a launcher waits for a sidecar.
const DEADLINE: Duration = Duration::from_secs(60);
/// Maximum number of bytes of standard error that are read.
const MAX_STDERR: usize = 64 << 10;
/// Exit codes of shells and command line parsers: for wrong usage, for a program that cannot be executed, and for one
/// that does not exist.
const NOT_RUN_EXIT_CODES: [i32; 3] = [2, 126, 127];
/// The error number for a file that is not a program and does not begin with `#!`.
const ENOEXEC: i32 = 8;

/// A script at OnDefineDomain.
pub(super) struct SidecarShimScript {
    path: PathBuf,
    runtime: Runtime,
}

impl SidecarShimScript {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let path_text = || path.display().to_string();
        let resolved = path
            .canonicalize()
            .with_context(path_text)
            .map_err(Failure::Usage)?;
        let metadata = resolved
            .metadata()
            .with_context(path_text)
            .map_err(Failure::Usage)?;
        if metadata.permissions().mode() & 0o111 == 0 {
            return Err(Failure::usage(anyhow!(
                "{}: it is not a module, not a socket and not executable: `chmod +x` makes a script \
                 executable",
                path.display()
            )));
        }
        Ok(Self {
            path: resolved,
            runtime: runtime()?,
        })
    }

    /// Runs the script with this process's environment.
    pub(super) fn run(&self, input: &VmiInput) -> Result<VmiOutcome, Failure> {
        let run = self
            .runtime
            .block_on(async { tokio::time::timeout(DEADLINE, self.output(input)).await });
        let name = self.path.display();
        match run {
            Err(_) => Ok(VmiOutcome::Refused(format!(
                "{name} did not end within {DEADLINE:?}"
            ))),
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(error)) => Err(self.start_failure(error)),
        }
    }

    /// The failure for a script that does not start.
    fn start_failure(&self, error: std::io::Error) -> Failure {
        let name = self.path.display();
        let reason = match (error.kind(), error.raw_os_error()) {
            (ErrorKind::NotFound, _) => "the interpreter that its first line names is not there",
            (ErrorKind::PermissionDenied, _) => {
                "it, or the interpreter that its first line names, may not be executed"
            }
            (_, Some(ENOEXEC)) => "it is not a program, and has no first line such as #!/bin/sh",
            _ => {
                return Failure::internal(
                    anyhow::Error::new(error).context(format!("running {name}")),
                );
            }
        };
        Failure::usage(anyhow!("{name} does not start: {reason}"))
    }

    async fn output(&self, input: &VmiInput) -> std::io::Result<VmiOutcome> {
        let mut child = Command::new(&self.path)
            .args(["--vmi", &input.vmi, "--domain", &input.xml])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let limit = Limits::default().bytes;
        let stdout = read(child.stdout.take(), limit);
        let stderr = read(child.stderr.take(), MAX_STDERR);
        let (stdout, stderr, status) = tokio::join!(stdout, stderr, child.wait());
        let (stdout, stderr, status) = (stdout?, stderr?, status?);
        if !status.success() {
            let last = stderr.lines().next_back().unwrap_or_default();
            let reason = format!("{status}: {last}");
            let has_not_run = status
                .code()
                .is_some_and(|code| NOT_RUN_EXIT_CODES.contains(&code));
            return Ok(match has_not_run && stdout.is_empty() {
                true => VmiOutcome::NotRun(reason),
                false => VmiOutcome::Refused(reason),
            });
        }
        Ok(match Document::parse(&stdout) {
            Ok(_) => VmiOutcome::Completed {
                xml: stdout,
                documents: super::documents(input),
                ignored_failures: Vec::new(),
            },
            Err(error) => VmiOutcome::Refused(format!("its output is not a domain: {error}")),
        })
    }
}

async fn read(stream: Option<impl AsyncRead + Unpin>, limit: usize) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream
            .take(limit as u64 + 1)
            .read_to_end(&mut bytes)
            .await?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
