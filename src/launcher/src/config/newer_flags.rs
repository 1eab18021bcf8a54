//! Flags of a newer virt-controller, which this launcher does not know yet.

use std::ffi::{OsStr, OsString};

use clap::{ArgAction, Command};

/// How many letters a misspelt flag may differ in from the one that is meant.
const MAX_MISSPELT_LETTERS: usize = 2;
/// What is behind it decides whether hooks run, so that it is never skipped.
const HOOK_FLAGS: &str = "hook";

/// The arguments without the flags that `command` does not have, and those flags with their values. The word behind such a
/// flag is its value, unless it begins with `--`. Flags that may be misspelt, or that concern hooks, stay, so that they are
/// errors.
pub(super) fn without_newer_flags(
    command: &Command,
    arguments: &[OsString],
) -> (Vec<OsString>, Vec<String>) {
    let (mut kept, mut skipped) = (Vec::new(), Vec::new());
    let mut rest = arguments.iter();
    kept.extend(rest.next().cloned());
    while let Some(argument) = rest.next() {
        let Some((name, has_value)) = long_flag(argument) else {
            kept.push(argument.clone());
            continue;
        };
        if let Some(takes_next_word) = known(command, name) {
            kept.push(argument.clone());
            if takes_next_word && !has_value {
                kept.extend(rest.next().cloned());
            }
        } else if must_be_known(command, name) {
            kept.push(argument.clone());
        } else {
            let mut words = argument.to_string_lossy().into_owned();
            let value = rest
                .as_slice()
                .first()
                .filter(|word| long_flag(word).is_none());
            if let Some(value) = value.filter(|_| !has_value) {
                words = format!("{words} {}", value.to_string_lossy());
                rest.next();
            }
            skipped.push(words);
        }
    }
    (kept, skipped)
}

/// The name of a flag `--NAME` or `--NAME=VALUE`, and whether it has a value.
fn long_flag(argument: &OsStr) -> Option<(&str, bool)> {
    let flag = argument.to_str()?.strip_prefix("--")?;
    Some(match flag.split_once('=') {
        Some((name, _)) => (name, true),
        None => (flag, false),
    })
}

/// Whether a known flag takes the next word; `None` for an unknown one.
fn known(command: &Command, name: &str) -> Option<bool> {
    if ["help", "version"].contains(&name) {
        return Some(false);
    }
    let mut flags = command.get_arguments();
    let flag = flags.find(|flag| flag.get_long() == Some(name))?;
    let takes_value = matches!(flag.get_action(), ArgAction::Set | ArgAction::Append);
    Some(takes_value && !flag.is_require_equals_set())
}

fn must_be_known(command: &Command, name: &str) -> bool {
    let mut flags = command.get_arguments().filter_map(clap::Arg::get_long);
    name.starts_with(HOOK_FLAGS)
        || flags.any(|flag| strsim::damerau_levenshtein(flag, name) <= MAX_MISSPELT_LETTERS)
}
