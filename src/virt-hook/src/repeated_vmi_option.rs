//! The words that a shell makes of an unquoted pattern behind `--vmi`, on the command line of a verb that has other words
//! without an option, too.

use std::ffi::OsString;
use std::path::Path;

use clap::{ArgAction, Command};

use crate::inputs::has_manifest_extension;

const OPTION: &str = "--vmi";
/// What ends all options.
const END_OF_OPTIONS: &str = "--";

/// The command line, in which each manifest and directory behind `--vmi FILE` has the option, too. clap would either take
/// them for the verb's module, or the module behind them for a VMI.
pub(crate) fn with_repeated_option(
    words: impl IntoIterator<Item = OsString>,
    program: &Command,
) -> Vec<OsString> {
    let mut words = words.into_iter().peekable();
    let mut all: Vec<OsString> = Vec::new();
    let mut repeats = None;
    while let Some(word) = words.next() {
        let is_option = word == OPTION;
        if word == END_OF_OPTIONS {
            all.push(word);
            break;
        }
        if repeats.is_none() {
            let verb = word.to_str().and_then(|word| program.find_subcommand(word));
            repeats = verb.map(takes_one_value_at_a_time);
        }
        all.push(word);
        if !is_option || repeats != Some(true) {
            continue;
        }
        all.extend(words.next());
        while let Some(word) = words.next_if(is_manifest) {
            all.extend([OsString::from(OPTION), word]);
        }
    }
    all.extend(words);
    all
}

/// Whether a verb takes several VMIs, with the option before each.
fn takes_one_value_at_a_time(verb: &Command) -> bool {
    let option = verb.get_arguments().find(|option| option.get_id() == "vmi");
    option.is_some_and(|option| {
        let several = option
            .get_num_args()
            .is_some_and(|count| count.max_values() > 1);
        matches!(option.get_action(), ArgAction::Append) && !several
    })
}

fn is_manifest(word: &OsString) -> bool {
    let path = Path::new(word);
    !word.to_string_lossy().starts_with('-') && (has_manifest_extension(path) || path.is_dir())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn repeated(line: &str) -> String {
        let mut program = Cli::command();
        program.build();
        let words = line.split(' ').map(OsString::from);
        let words = with_repeated_option(words, &program);
        let words: Vec<String> = words
            .into_iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        words.join(" ")
    }

    #[test]
    fn manifests_behind_a_vmi_have_the_option() {
        for (line, expected) in [
            (
                "virt-hook check a.wasm --vmi 1.yaml 2.yml 3.json --strict",
                "virt-hook check a.wasm --vmi 1.yaml --vmi 2.yml --vmi 3.json --strict",
            ),
            (
                "virt-hook --color never check --vmi 1.yaml 2.yaml a.wasm",
                "virt-hook --color never check --vmi 1.yaml --vmi 2.yaml a.wasm",
            ),
            (
                "virt-hook check --vmi 1.yaml /dev a.wasm --vmi 2.yaml 3.yaml",
                "virt-hook check --vmi 1.yaml --vmi /dev a.wasm --vmi 2.yaml --vmi 3.yaml",
            ),
        ] {
            assert_eq!(repeated(line), expected);
        }
    }

    #[test]
    fn other_words_stay() {
        for line in [
            "virt-hook check a.wasm --vmi",
            "virt-hook check --vmi 1.yaml a.wasm",
            "virt-hook check --vmi 1.yaml --policy policy.yaml a.wasm",
            "virt-hook check -- --vmi 1.yaml 2.yaml",
            // These take several words behind the option.
            "virt-hook compare --vmi 1.yaml 2.yaml --hook a.wasm",
            "virt-hook render --vmi 1.yaml 2.yaml",
            // These take one VMI.
            "virt-hook run a.wasm --vmi 1.yaml 2.yaml",
            "virt-hook bench a.wasm --vmi 1.yaml 2.yaml",
            "virt-hook",
            "virt-hook nothing --vmi 1.yaml 2.yaml",
        ] {
            assert_eq!(repeated(line), line);
        }
    }
}
