//! The words that a shell makes of an unquoted pattern behind an option that may be repeated, such as `--vmi` and `--hook`, on
//! the command line of a verb that has other words without an option, too.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{ArgAction, Command};

use crate::inputs::has_manifest_extension;

/// What ends all options.
const END_OF_OPTIONS: &str = "--";
/// Options that may be repeated, and whether a word is a value of the option, and of nothing else on a command line.
const OPTIONS: [RepeatedOption; 3] = [
    RepeatedOption {
        option: "--vmi",
        is_value: is_manifest,
    },
    RepeatedOption {
        option: "--hook",
        is_value: is_module,
    },
    RepeatedOption {
        option: "--module",
        is_value: is_module,
    },
];

struct RepeatedOption {
    option: &'static str,
    is_value: fn(&OsStr) -> bool,
}

/// The command line, in which each further value behind `--vmi FILE`, `--hook FILE` and `--module FILE` has the option, too.
/// clap would take them for words of the verb, such as the module that it is about, or that word for a value.
pub(crate) fn with_repeated_options(
    words: impl IntoIterator<Item = OsString>,
    program: &Command,
) -> Vec<OsString> {
    let mut words = words.into_iter().peekable();
    let mut all: Vec<OsString> = Vec::new();
    let mut command = program;
    while let Some(word) = words.next() {
        if word == END_OF_OPTIONS {
            all.push(word);
            break;
        }
        if let Some(verb) = word.to_str().and_then(|word| command.find_subcommand(word)) {
            command = verb;
        }
        let mut options = OPTIONS.iter();
        let repeated = options.find(|repeated| word == repeated.option && repeated.is_of(command));
        all.push(word);
        let Some(repeated) = repeated else { continue };
        all.extend(words.next());
        while let Some(word) = words.next_if(|word| (repeated.is_value)(word)) {
            all.extend([OsString::from(repeated.option), word]);
        }
    }
    all.extend(words);
    all
}

impl RepeatedOption {
    /// Whether a verb takes the option several times, with one value each.
    fn is_of(&self, verb: &Command) -> bool {
        let name = self.option.trim_start_matches('-');
        let mut options = verb.get_arguments();
        let option = options.find(|option| option.get_long() == Some(name));
        option.is_some_and(|option| {
            let values = option.get_num_args();
            let takes_several = values.is_some_and(|values| values.max_values() > 1);
            matches!(option.get_action(), ArgAction::Append) && !takes_several
        })
    }
}

fn is_manifest(word: &OsStr) -> bool {
    let path = Path::new(word);
    !is_option(word) && (has_manifest_extension(path) || path.is_dir())
}

fn is_module(word: &OsStr) -> bool {
    let extension = Path::new(word).extension();
    !is_option(word) && extension.is_some_and(|extension| extension == "wasm")
}

fn is_option(word: &OsStr) -> bool {
    word.to_string_lossy().starts_with('-')
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
        let words = with_repeated_options(words, &program);
        let words: Vec<String> = words
            .into_iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        words.join(" ")
    }

    #[test]
    fn values_behind_an_option_have_it_too() {
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
            (
                "virt-hook test --hook a.wasm b.wasm cases --update",
                "virt-hook test --hook a.wasm --hook b.wasm cases --update",
            ),
            (
                "virt-hook render --vmi 1.yaml 2.yaml --hook a.wasm b.wasm",
                "virt-hook render --vmi 1.yaml 2.yaml --hook a.wasm --hook b.wasm",
            ),
            (
                "virt-hook policy check policy.yaml --module a.wasm b.wasm",
                "virt-hook policy check policy.yaml --module a.wasm --module b.wasm",
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
            // The case is no module.
            "virt-hook test --hook a.wasm cases",
            "virt-hook test --hook hooks cases",
            "virt-hook",
            "virt-hook nothing --vmi 1.yaml 2.yaml",
        ] {
            assert_eq!(repeated(line), line);
        }
    }
}
