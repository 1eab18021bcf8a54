//! `virt-hook doctor`: what of the tools for hooks this machine has.

mod program_version;
mod required_tools;

use clap::Args;
use serde::Serialize;

use crate::compiled_module_cache::CompiledModuleCache;
use crate::exit_codes::Failure;
use crate::output::{Report, Style, TerminalEscaped};
use program_version::Prober;

pub(crate) const HELP: &str = "\
Looks for what writing hooks takes in each language, for what `check` asks, and for what the kernel has to
isolate the process that compiles modules. Nothing is installed.

Examples:
  virt-hook doctor
  virt-hook doctor --json | jq -r '.result.tools[] | select(.found == null) | .remedy'

Exit codes:
  0  hooks can be written in one language at least
  1  in none; standard output says what is missing
  3  this machine could not do it";

/// What `doctor` is given: nothing.
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
    /// Where it is; none if there can be none.
    directory: Option<String>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl CacheReport {
    fn of_user() -> Self {
        match CompiledModuleCache::open_of_user() {
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

/// A tool, or what is missing of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Tool {
    name: &'static str,
    /// What it is needed for: a language, or a check.
    purpose: &'static str,
    /// Its version or place; none if it is missing or too old.
    found: Option<String>,
    /// How to get it.
    remedy: &'static str,
}

/// Probes all tools.
pub(crate) fn run(_: &Arguments) -> Result<DoctorReport, Failure> {
    let tools = required_tools::probe(&Prober::new()?);
    Ok(DoctorReport::of(tools, CacheReport::of_user()))
}

impl DoctorReport {
    fn of(tools: Vec<Tool>, cache: CacheReport) -> Self {
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
                    "  {}  they are kept in {}\n",
                    style.good("ok     "),
                    TerminalEscaped(directory)
                )
            }
            (None, problem) => format!(
                "  {}  they are not kept, so that each run compiles them again: {}\n",
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
        let none = self.languages.is_empty();
        none.then(|| "hooks can be written in no language here".to_owned())
    }
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
        let report = DoctorReport::of(
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
        let none = DoctorReport::of(
            required_tools::LANGUAGES
                .map(|language| tool(language, None))
                .into(),
            CacheReport::default(),
        );
        assert!(none.complaint().is_some());
    }
}
