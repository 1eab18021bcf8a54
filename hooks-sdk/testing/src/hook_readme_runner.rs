//! Runs the cases in a hook's README: its policy, its VMIs, and their results.
//!
//! The second word of a fenced block's info string is its role:
//!
//! | block | role |
//! |---|---|
//! | `yaml policy` | the operator's policy that the hook needs: no line of it may be superfluous |
//! | `yaml hook.yaml` | the file beside the module |
//! | `yaml vmi` | begins a case: the VMI, or the relevant part of it |
//! | `yaml pod` | the pod's `annotations`, `labels` and `networkStatus` |
//! | `xml before`, `xml after` | the domain before and after the hook |
//! | `xml attached-before`, `xml attached-after` | a device that is attached, before and after the hook |
//! | `yaml user-data`, `yaml user-data-after` | cloud-init's user data; `network-data` likewise |
//! | `text migration-before`, `text migration-after` | the parameters of a migration, before and after the hook |
//! | `text veto` | the message of the hook's veto of the start |
//! | `text migration-veto` | the message of the hook's veto of a migration |
//! | `text log` | the lines that the hook logs when the virtual machine ends |
//!
//! Other blocks are ignored.

mod case;
mod fenced_blocks;

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::deployment::Deployment;
use case::Case;
use fenced_blocks::{Block, blocks, json, yaml};

/// A case that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadmeError {
    readme: PathBuf,
    /// From 1; 0 for the whole file.
    line: usize,
    message: String,
}

impl fmt::Display for ReadmeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}",
            self.readme.display(),
            self.line,
            self.message
        )
    }
}

impl std::error::Error for ReadmeError {}

/// Runs every case of a README with this module and the files in the README, and
/// checks that no line of the policy is superfluous. Returns the number of cases.
pub fn readme(readme: impl AsRef<Path>, module: impl AsRef<Path>) -> Result<usize, ReadmeError> {
    let path = readme.as_ref();
    let refused = |(line, message)| ReadmeError {
        readme: path.to_owned(),
        line,
        message,
    };
    let text = std::fs::read_to_string(path).map_err(|error| refused((0, error.to_string())))?;
    let parsed = ReadmeCases::read(&text).map_err(refused)?;
    let deployment = parsed.deployment(module.as_ref());
    for case in &parsed.cases {
        case.run(&deployment).map_err(refused)?;
    }
    parsed
        .check_policy_is_minimal(&deployment)
        .map_err(refused)?;
    Ok(parsed.cases.len())
}

/// The line and the message of a failure.
type CaseFailure = (usize, String);

/// The cases of a README, and the files that they share.
#[derive(Debug, Default)]
struct ReadmeCases {
    hook_yaml: Option<Block>,
    policy: Option<Block>,
    cases: Vec<Case>,
}

impl ReadmeCases {
    fn read(text: &str) -> Result<ReadmeCases, CaseFailure> {
        let mut parsed = ReadmeCases::default();
        for block in blocks(text) {
            match block.role.as_str() {
                "policy" => parsed.policy = Some(block),
                "hook.yaml" => parsed.hook_yaml = Some(block),
                "vmi" => parsed.cases.push(Case {
                    vmi: json(&block)?,
                    line: block.line,
                    blocks: Vec::new(),
                }),
                _ => match parsed.cases.last_mut() {
                    Some(case) => case.blocks.push(block),
                    None => {
                        let what = format!("no `yaml vmi` stands before this {}", block.role);
                        return Err((block.line, what));
                    }
                },
            }
        }
        if parsed.cases.is_empty() {
            return Err((0, "it shows no `yaml vmi`".to_owned()));
        }
        Ok(parsed)
    }

    fn deployment(&self, module: &Path) -> Deployment {
        let mut deployment = Deployment::new(module);
        if let Some(hook_yaml) = &self.hook_yaml {
            deployment = deployment.with_hook_yaml(&hook_yaml.text);
        }
        match &self.policy {
            Some(policy) => deployment.with_policy(&policy.text),
            None => deployment,
        }
    }

    /// Checks that a case fails for every item that is removed from the policy.
    fn check_policy_is_minimal(&self, deployment: &Deployment) -> Result<(), CaseFailure> {
        let Some(policy) = &self.policy else {
            return Ok(());
        };
        let full_policy: Value = yaml(policy)?;
        for list in [
            "paths",
            "dangerous",
            "config",
            "dirs",
            "hookPoints",
            "migration",
            "pod",
        ] {
            let items = full_policy["allow"][list].as_array().map_or(0, Vec::len);
            for at in 0..items {
                let mut reduced_policy = full_policy.clone();
                let left_out = reduced_policy["allow"][list]
                    .as_array_mut()
                    .map(|items| items.remove(at));
                // JSON is YAML.
                let reduced = deployment.clone().with_policy(reduced_policy.to_string());
                if self.cases.iter().all(|case| case.run(&reduced).is_ok()) {
                    let item = left_out.unwrap_or_default();
                    let what = format!("allow.{list} need not have {item}");
                    return Err((policy.line, what));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "# x\n```yaml policy\nallow: {}\n```\n```sh\nls\n```\n```yaml vmi\nmetadata: {name: vm}\n```\n```xml before\n<a/>\n```\n";

    #[test]
    fn second_word_of_the_info_string_is_the_kind_of_block() {
        let parsed = ReadmeCases::read(README).unwrap();
        assert_eq!(parsed.policy.unwrap().text, "allow: {}\n");
        assert_eq!(parsed.cases[0].vmi, r#"{"metadata":{"name":"vm"}}"#);
        assert_eq!(parsed.cases[0].text("before"), "<a/>\n");
        assert_eq!((parsed.cases[0].line, parsed.cases.len()), (8, 1));
    }

    #[test]
    fn what_belongs_to_no_case_is_an_error() {
        let lost = ReadmeCases::read("```xml before\n<a/>\n```\n").unwrap_err();
        assert_eq!(
            lost,
            (1, "no `yaml vmi` stands before this before".to_owned())
        );
        assert!(ReadmeCases::read("nothing\n").is_err());
    }
}
