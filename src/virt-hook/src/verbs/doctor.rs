//! `virt-hook doctor`: which tools for writing and checking hooks this machine has.

mod required_tools;

use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::runtime::Runtime;

use crate::compiled_module_cache::CompiledModuleCache;
use crate::output::{Report, Style, TerminalEscaped};
use crate::tokio_runtime::runtime;
use crate::verb_failure::Failure;

pub(crate) const HELP: &str = "\
Looks for the tools to write hooks in each language, for the tools that `check` uses, and for the kernel
features that isolate the process that compiles modules. Nothing is installed.

Examples:
  virt-hook doctor
  virt-hook doctor --json | jq -r '.result.tools[] | select(.found == null) | .remedy'

Exit codes:
  0  hooks can be written in at least one language
  1  hooks cannot be written in any language; standard output lists the missing tools
  3  error of this machine";

/// Arguments of `virt-hook doctor`: none.
#[derive(Debug, Args)]
pub(crate) struct Arguments {}

/// The tools of this machine.
#[derive(Debug, Serialize)]
pub(crate) struct DoctorReport {
    /// Languages for which nothing is missing.
    languages: Vec<&'static str>,
    tools: Vec<Tool>,
    cache: CacheReport,
}

/// The cache of compiled modules, without which each run compiles them again.
#[derive(Debug, Default, Serialize)]
struct CacheReport {
    /// The directory of the cache; `None` if there can be no cache.
    directory: Option<String>,
    /// The reason why there can be no cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl CacheReport {
    fn for_user() -> Self {
        match CompiledModuleCache::open_for_user() {
            Ok(cache) => Self {
                directory: Some(cache.dir().display().to_string()),
                problem: None,
            },
            Err(problem) => Self {
                directory: None,
                problem: Some(problem),
            },
        }
    }
}

/// A tool: its version or place if it was found, and how to get it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Tool {
    name: &'static str,
    /// The purpose of the tool: a language, `check`, or the isolation of the compiler.
    purpose: &'static str,
    /// The version or place of the tool; `None` if it is missing or too old.
    found: Option<String>,
    /// How to get the tool.
    remedy: &'static str,
}

/// Probes all tools.
pub(crate) fn run(_: &Arguments) -> Result<DoctorReport, Failure> {
    let tools = required_tools::probe_all(&ProgramProbe::new()?);
    Ok(DoctorReport::new(tools, CacheReport::for_user()))
}

impl DoctorReport {
    fn new(tools: Vec<Tool>, cache: CacheReport) -> Self {
        let has_all = |language: &&str| {
            let mut needed = tools.iter().filter(|tool| tool.purpose == *language);
            needed.all(|tool| tool.found.is_some())
        };
        let languages = required_tools::LANGUAGES
            .into_iter()
            .filter(has_all)
            .collect();
        Self {
            languages,
            tools,
            cache,
        }
    }
}

impl Report for DoctorReport {
    fn text(&self, style: Style) -> String {
        let mut text = String::new();
        let mut purpose = "";
        for tool in &self.tools {
            if tool.purpose != purpose {
                purpose = tool.purpose;
                text += &format!("{}\n", style.strong(purpose));
            }
            let name = tool.name;
            text += &match &tool.found {
                Some(found) => format!(
                    "  {}  {name}: {}\n",
                    style.good("ok     "),
                    TerminalEscaped(found)
                ),
                None => format!("  {}  {name}: {}\n", style.doubtful("missing"), tool.remedy),
            };
        }
        text += &format!("{}\n", style.strong("compiled modules"));
        text += &match (&self.cache.directory, &self.cache.problem) {
            (Some(directory), _) => {
                format!(
                    "  {}  kept in {}\n",
                    style.good("ok     "),
                    TerminalEscaped(directory)
                )
            }
            (None, problem) => format!(
                "  {}  not kept, so each run compiles its modules again: {}\n",
                style.doubtful("off    "),
                TerminalEscaped(problem.as_deref().unwrap_or_default())
            ),
        };
        let languages = match self.languages.is_empty() {
            true => "no language".to_owned(),
            false => self.languages.join(", "),
        };
        text + &format!("\nHooks can be written in {languages}.\n")
    }

    fn complaint(&self) -> Option<String> {
        let has_no_language = self.languages.is_empty();
        has_no_language
            .then(|| "hooks cannot be written in any language on this machine".to_owned())
    }
}

/// Deadline of a program: Python on a cold disk takes seconds.
const DEADLINE: Duration = Duration::from_secs(20);
/// Maximum number of bytes of a program's output that are read.
const MAX_OUTPUT: u64 = 64 << 10;

/// Runs programs with a deadline.
struct ProgramProbe(Runtime);

impl ProgramProbe {
    fn new() -> Result<Self, Failure> {
        runtime().map(Self)
    }

    /// The standard output of a program; `None` if the program does not end with exit code 0 in time.
    fn output(&self, program: &str, arguments: &[&str]) -> Option<String> {
        self.0.block_on(async {
            let run = tokio::time::timeout(DEADLINE, output(program, arguments));
            run.await.ok().flatten()
        })
    }

    /// The first line of a program's standard output.
    fn first_line(&self, program: &str, arguments: &[&str]) -> Option<String> {
        let output = self.output(program, arguments)?;
        output.lines().next().map(|line| line.trim().to_owned())
    }
}

async fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .ok()?;
    let mut bytes = Vec::new();
    let stdout = child.stdout.take()?;
    let read = stdout.take(MAX_OUTPUT).read_to_end(&mut bytes).await;
    let status = child.wait().await.ok()?;
    (read.is_ok() && status.success()).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(purpose: &'static str, found: Option<&str>) -> Tool {
        Tool {
            name: "x",
            purpose,
            found: found.map(str::to_owned),
            remedy: "apt install x",
        }
    }

    #[test]
    fn a_language_needs_all_its_tools() {
        let report = DoctorReport::new(
            vec![
                tool("Rust", Some("1.95")),
                tool("Rust", None),
                tool("Python", Some("3.11")),
                tool("C", None),
                tool("Go", None),
            ],
            CacheReport::default(),
        );
        assert_eq!(report.languages, ["Python"]);
        assert_eq!(report.complaint(), None);
        let text = report.text(Style::default());
        assert!(text.contains("missing  x: apt install x"), "{text}");
        let report_without_tools = DoctorReport::new(
            required_tools::LANGUAGES
                .map(|language| tool(language, None))
                .into(),
            CacheReport::default(),
        );
        assert!(report_without_tools.complaint().is_some());
    }
}
