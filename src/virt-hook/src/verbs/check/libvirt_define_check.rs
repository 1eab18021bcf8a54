//! Checks with libvirt's QEMU driver that it accepts the hook's domain, and that the hook does not
//! change the domain again after libvirt normalised it. KubeVirt calls sidecars on such domains.
//!
//! The driver runs inside `virsh` (`qemu:///embed`) in its own directory: no daemon is involved and
//! the machine's domains are not touched. The directory is thrown away, and nothing is undefined: libvirt would delete
//! files that the domain names. libvirt reads no domain with dangerous changes
//! ([`first_dangerous_change`]); what is left is confined ([`mod@super::confined_tool`]), since a VMI may be a stranger's, too.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::Path;

use super::behaviour_findings::first_dangerous_change;
use super::check_finding::{CheckVerdict, Finding};
use super::runs_on_all_vmis::RunsOnAllVmis;
use super::tool_process::{ToolError, ToolOutput, ToolSandbox};
use super::two_runs_on_vmi::{TwoRuns, differences};
use crate::verb_failure::Failure;

const DEFINE_CHECK: &str = "libvirt";
const UNCHANGED_CHECK: &str = "after libvirt";
/// The name of the file with the domain, in the tool's current directory.
const DOMAIN_FILE: &str = "domain.xml";
/// The directory in libvirt's root, which is the private directory, with the capabilities of QEMU.
const CACHE_DIR: &str = "cache";
/// After this many domains to which libvirt gave no answer, the others are left out: each costs the tool's deadline.
const MAX_HANGS: usize = 2;
/// Why libvirt does not read a domain with dangerous changes.
const WITHHELD: &str = "libvirt would run programs or delete files that it names";

/// Two findings about a hook f and the domain x of each VMI: libvirt defines f(x) if it defines x; and f leaves the
/// domain that libvirt returns for f(x) unchanged. A domain with dangerous changes is not checked.
pub(super) fn findings(behaviour: &RunsOnAllVmis) -> Result<Vec<Finding>, Failure> {
    let libvirt = EmbeddedLibvirt {
        sandbox: ToolSandbox::new().map_err(Failure::Internal)?,
        hangs: Cell::new(0),
    };
    let mut results = DefineResults::default();
    for run in behaviour.runs_without_error() {
        match libvirt.redefine(behaviour, run)? {
            RedefineResult::Defined { changed_again } => {
                results.defined += 1;
                results.changed_again.extend(changed_again);
            }
            RedefineResult::Withheld(line) => results.withheld.push(line),
            RedefineResult::Refused(line) => results.refused.push(line),
            // If libvirt is unavailable, it is so for all VMIs.
            RedefineResult::Unavailable(why) => {
                results.unavailable = Some(why);
                break;
            }
            RedefineResult::RefusedWithoutHook(why) => results.refused_without_hook.push(why),
        }
        if libvirt.hangs.get() >= MAX_HANGS {
            results.unavailable = Some(format!("libvirt gave no answer {MAX_HANGS} times"));
            break;
        }
    }
    Ok(results.findings())
}

/// The results for all VMIs.
#[derive(Default)]
struct DefineResults {
    /// Number of domains that libvirt defined.
    defined: usize,
    /// Lines about domains that libvirt is not given, with the first dangerous change.
    withheld: Vec<String>,
    /// Lines about domains that libvirt refuses because of the hook.
    refused: Vec<String>,
    /// Lines about changes that the hook makes to the XML that libvirt returned.
    changed_again: Vec<String>,
    /// Reasons for which libvirt refuses domains even without the hook.
    refused_without_hook: Vec<String>,
    /// Why libvirt's tools gave no answer to a domain, and were given no other one.
    unavailable: Option<String>,
}

impl DefineResults {
    fn findings(self) -> Vec<Finding> {
        let not_checked_define = self.not_checked(DEFINE_CHECK, &self.refused);
        let not_checked_unchanged = self.not_checked(UNCHANGED_CHECK, &self.changed_again);
        let [define, unchanged] = self.findings_about_defined();
        vec![
            not_checked_define.unwrap_or(define),
            not_checked_unchanged.unwrap_or(unchanged),
        ]
    }

    /// The finding that libvirt did not read all domains; `None` if it did, or if those that it read `failed`.
    fn not_checked(&self, name: &'static str, failed: &[String]) -> Option<Finding> {
        let message = match (&self.withheld[..], &self.unavailable) {
            _ if !failed.is_empty() => return None,
            ([], None) => return None,
            ([], Some(why)) => why.clone(),
            (_, None) => WITHHELD.to_owned(),
            (_, Some(why)) => format!("{WITHHELD}; {why}"),
        };
        let message = match (&self.unavailable, self.defined) {
            (None, _) | (_, 0) => message,
            (Some(_), defined) => format!("{message}; {defined} domains were defined before"),
        };
        let lines = self.withheld.clone();
        Some(match lines.is_empty() {
            true => Finding::new(name, CheckVerdict::NotChecked, message),
            false => Finding::from_vmi_lines(name, lines, CheckVerdict::NotChecked, "", message),
        })
    }

    /// The findings about the domains that libvirt was given.
    fn findings_about_defined(self) -> [Finding; 2] {
        let defined = self.defined;
        let (why, all) = match &self.refused_without_hook[..] {
            [] => (
                "no run of the hook returned a domain".to_owned(),
                format!("{defined} domains are defined"),
            ),
            [first, ..] => (
                first.clone(),
                format!(
                    "{defined} of {} domains are defined; {first}",
                    defined + self.refused_without_hook.len()
                ),
            ),
        };
        let define_finding = match (defined, self.refused.is_empty()) {
            (0, true) => Finding::new(DEFINE_CHECK, CheckVerdict::NotChecked, &*why),
            _ => Finding::from_vmi_lines(
                DEFINE_CHECK,
                self.refused,
                CheckVerdict::Failed,
                all,
                "libvirt refuses the domain with the hook's changes",
            ),
        };
        let unchanged_finding = match defined {
            0 => Finding::new(
                UNCHANGED_CHECK,
                CheckVerdict::NotChecked,
                "libvirt defined no domain",
            ),
            _ => Finding::from_vmi_lines(
                UNCHANGED_CHECK,
                self.changed_again,
                CheckVerdict::Failed,
                format!(
                    "the hook changes nothing in libvirt's normalised XML of {defined} domains"
                ),
                "the hook changes more when it runs on libvirt's normalised XML of its domain, as it does in a \
                 sidecar: let it write values as libvirt does",
            ),
        };
        [define_finding, unchanged_finding]
    }
}

enum RedefineResult {
    /// Libvirt is not given the domain, because the hook's changes are dangerous.
    Withheld(String),
    /// Libvirt defines the domain. Each line is a change that the hook then makes to it.
    Defined { changed_again: Vec<String> },
    /// Libvirt refuses the domain because of the hook.
    Refused(String),
    /// Libvirt refuses the domain even without the hook.
    RefusedWithoutHook(String),
    /// Libvirt's tools are missing or do not work.
    Unavailable(String),
}

/// libvirt's answer to a domain.
enum DefineAnswer {
    /// Its normalised XML.
    Defined(String),
    /// Why it refuses the domain.
    Refused(String),
}

struct EmbeddedLibvirt {
    sandbox: ToolSandbox,
    /// How many domains libvirt gave no answer to.
    hangs: Cell<usize>,
}

impl EmbeddedLibvirt {
    fn redefine(
        &self,
        behaviour: &RunsOnAllVmis,
        run: &TwoRuns,
    ) -> Result<RedefineResult, Failure> {
        if let Some(path) = first_dangerous_change(&run.input.xml, &run.first.xml) {
            return Ok(RedefineResult::Withheld(format!("{}: {path}", run.name)));
        }
        let domain = &run.input.invocation.domain;
        let defined = match self.define(domain, &run.first.xml) {
            Ok(DefineAnswer::Defined(xml)) => xml,
            Ok(DefineAnswer::Refused(why)) => return Ok(self.attribute_refusal(domain, run, &why)),
            // libvirt aborts if it gets less memory than a domain makes it ask for, and may never come to its end.
            Err(error @ (ToolError::Killed(_) | ToolError::Deadline(_))) => {
                return Ok(self.attribute_refusal(domain, run, &error.to_string()));
            }
            Err(error) => return Ok(unavailable(&error)),
        };
        let Some(hooked) = behaviour.define(&run.input, defined.clone())? else {
            let line = format!("{}: the hook fails on libvirt's normalised XML", run.name);
            let changed_again = vec![line];
            return Ok(RedefineResult::Defined { changed_again });
        };
        let changed_again = differences(&run.name, &defined, &hooked);
        Ok(RedefineResult::Defined { changed_again })
    }

    /// Decides whether the hook is the cause of libvirt's refusal: whether libvirt defines the domain without the hook.
    fn attribute_refusal(&self, domain: &str, run: &TwoRuns, refusal: &str) -> RedefineResult {
        match self.define(domain, &run.input.xml) {
            Ok(DefineAnswer::Defined(_)) => RedefineResult::Refused(format!(
                "{}: libvirt says: {refusal}; the hook changed {}",
                run.name,
                run.changed()
            )),
            Ok(DefineAnswer::Refused(why)) => RedefineResult::RefusedWithoutHook(format!(
                "libvirt refuses {} without the hook, too: {why}",
                run.name
            )),
            Err(error) => unavailable(&error),
        }
    }

    fn define(&self, domain: &str, xml: &str) -> Result<DefineAnswer, ToolError> {
        // virsh parses its commands: a name with a semicolon would be another command.
        if !is_word_for_virsh(domain) {
            let reason = "its name is not one that Kubernetes accepts, and is not given to virsh";
            return Ok(DefineAnswer::Refused(reason.to_owned()));
        }
        self.sandbox
            .write_input(DOMAIN_FILE, xml)
            .map_err(|error| ToolError::Io(DOMAIN_FILE, io::Error::other(error)))?;
        let output = self.virsh(&format!(
            "define {DOMAIN_FILE}; dumpxml --inactive {domain}"
        ));
        self.forget_domains()
            .map_err(|error| ToolError::Io("libvirt's directory", error))?;
        if let Err(ToolError::Deadline(_)) = output {
            self.hangs.update(|hangs| hangs + 1);
        }
        let output = output?;
        let end = "</domain>";
        Ok(
            match (output.stdout.find("<domain"), output.stdout.rfind(end)) {
                (Some(from), Some(to)) if from < to => {
                    DefineAnswer::Defined(output.stdout[from..to + end.len()].to_owned())
                }
                _ => DefineAnswer::Refused(refusal(&output)),
            },
        )
    }

    /// Removes what libvirt keeps about domains, so that the next one may have the same name. What it found out about QEMU in
    /// seconds stays.
    fn forget_domains(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.sandbox.private_dir())? {
            let entry = entry?;
            if entry.file_name() == CACHE_DIR {
                continue;
            }
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
        Ok(())
    }

    fn virsh(&self, commands: &str) -> Result<ToolOutput, ToolError> {
        let connect = format!(
            "qemu:///embed?root={}",
            uri_encoded(self.sandbox.private_dir())
        );
        let arguments = ["--quiet", "--connect", &connect, commands];
        self.sandbox.run("virsh", arguments.map(Into::into).into())
    }
}

/// Whether virsh reads the text as one word: the characters of names in Kubernetes, and what joins them in libvirt's name.
fn is_word_for_virsh(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    name.bytes().all(is_allowed) && name.bytes().next().is_some_and(|first| first != b'-')
}

/// The path in a URI's query. A temporary directory can have any name.
fn uri_encoded(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => text.push(char::from(*byte)),
            letter if letter.is_ascii_alphanumeric() => text.push(char::from(*letter)),
            other => text += &format!("%{other:02X}"),
        }
    }
    text
}

fn unavailable(error: &ToolError) -> RedefineResult {
    let advice = match error {
        ToolError::Missing(_) => ": install libvirt's clients and its QEMU driver",
        _ => "",
    };
    RedefineResult::Unavailable(format!("{error}{advice}"))
}

fn refusal(output: &ToolOutput) -> String {
    let mut errors = output
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("error: "));
    // The first error line only says that the command failed.
    let first = errors.next().unwrap_or("libvirt reported no error");
    errors.next().unwrap_or(first).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_virsh_reads_as_one_word_are_given_to_it() {
        for name in ["default_web", "a-b.c_D1"] {
            assert!(is_word_for_virsh(name), "{name}");
        }
        for name in [
            "",
            "--inactive",
            "a; cd /",
            "a b",
            "a'b",
            "a\nedit b",
            "a\\b",
            "\u{e4}",
        ] {
            assert!(!is_word_for_virsh(name), "{name}");
        }
    }

    #[test]
    fn what_libvirt_answered_before_its_tools_failed_is_reported() {
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        let unavailable = || Some("virsh is not installed".to_owned());
        for (results, define, unchanged) in [
            (
                DefineResults {
                    unavailable: unavailable(),
                    ..DefineResults::default()
                },
                "not checked  libvirt: virsh is not installed\n",
                "not checked  after libvirt: virsh is not installed\n",
            ),
            (
                DefineResults {
                    withheld: lines(&["a: /domain/os"]),
                    unavailable: unavailable(),
                    ..DefineResults::default()
                },
                "names; virsh is not installed\n               a: /domain/os\n",
                "names; virsh is not installed\n               a: /domain/os\n",
            ),
            (
                DefineResults {
                    defined: 2,
                    changed_again: lines(&["a: /domain/title"]),
                    unavailable: unavailable(),
                    ..DefineResults::default()
                },
                "not checked  libvirt: virsh is not installed; 2 domains were defined before\n",
                "FAILED       after libvirt: ",
            ),
            (
                DefineResults {
                    defined: 1,
                    withheld: lines(&["a: /domain/os"]),
                    refused: lines(&["b: no"]),
                    unavailable: unavailable(),
                    ..DefineResults::default()
                },
                "FAILED       libvirt: libvirt refuses the domain with the hook's changes\n               b: no\n",
                "names; virsh is not installed; 1 domains were defined before\n               a: /domain/os\n",
            ),
            (
                DefineResults {
                    defined: 1,
                    withheld: lines(&["a: /domain/os"]),
                    ..DefineResults::default()
                },
                "not checked  libvirt: libvirt would run",
                "not checked  after libvirt: libvirt would run",
            ),
        ] {
            let texts: Vec<String> = results
                .findings()
                .iter()
                .map(|finding| finding.text(Default::default()))
                .collect();
            assert!(texts[0].contains(define), "{texts:#?}");
            assert!(texts[1].contains(unchanged), "{texts:#?}");
        }
    }

    #[test]
    fn any_directory_is_one_parameter_of_the_uri() {
        let encoded = uri_encoded(Path::new("/tmp/a&b=c %\u{e4}/.tmpX-1"));
        assert_eq!(encoded, "/tmp/a%26b%3Dc%20%25%C3%A4/.tmpX-1");
    }
}
