//! Checks `virt-hook` commands of the documentation against its `--help`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Mutex;

use tests::binaries::binary;

use crate::page_blocks::{page, pages, source};
use crate::shell_script_splitter::commands;

/// All verbs of `virt-hook`.
const VERBS: [&str; 20] = [
    "new",
    "dev",
    "inspect",
    "run",
    "render",
    "host-facts",
    "test",
    "check",
    "bench",
    "compile",
    "wrap",
    "serve",
    "replay",
    "image",
    "sign",
    "verify",
    "push",
    "pull",
    "deploy",
    "schema",
];

/// Checks that the page's table of verbs has those that `virt-hook --help` lists, and no other.
fn check_verbs(path: &str) {
    let mut program = Command::new(binary("virt-hook").unwrap());
    let output = program.arg("--help").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, list) = text.split_once("Commands:\n").unwrap();
    let lines = list.lines().take_while(|line| line.starts_with("  "));
    // The further lines of an explanation have a larger indentation.
    let entries = lines.filter(|line| !line.starts_with("   "));
    let verbs = entries.filter_map(|line| line.split_whitespace().next());
    let verbs: BTreeSet<_> = verbs.filter(|verb| *verb != "help").collect();
    assert!(verbs.is_superset(&VERBS.into()), "{verbs:?}");
    let page = source(path);
    let rows = page
        .lines()
        .skip_while(|line| !line.starts_with("| verb |"));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let code = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let listed = code.filter_map(|code| code.split(' ').next());
    assert_eq!(listed.collect::<BTreeSet<_>>(), verbs, "{path}");
}

/// The `--help` text of a verb; `None` if there is no such verb.
fn help(verb: &str) -> Option<String> {
    static HELP_CACHE: Mutex<BTreeMap<String, Option<String>>> = Mutex::new(BTreeMap::new());
    let mut cache = HELP_CACHE.lock().unwrap();
    let run = || {
        let mut program = Command::new(binary("virt-hook").unwrap());
        let output = program.args([verb, "--help"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then_some(text)
    };
    cache.entry(verb.to_owned()).or_insert_with(run).clone()
}

/// Checks that the examples in a verb's help use existing verbs and flags. Returns their number.
fn check_help_examples(verb: &str) -> usize {
    let help = help(verb).unwrap_or_else(|| panic!("there is no {verb}"));
    let examples = help.lines().filter(|line| line.starts_with("  virt-hook "));
    let examples = examples.map(|line| check_verbs_and_flags(verb, line));
    let number = examples.sum();
    assert!(number > 0, "virt-hook {verb} --help shows no example");
    number
}

/// Checks that every `virt-hook` command uses an existing verb and flags. Returns their number.
pub(crate) fn check_verbs_and_flags(location: &str, script: &str) -> usize {
    let commands = commands(script);
    let programs = commands.iter().map(|words| match words.as_slice() {
        [exec, program @ ..] if exec == "exec" => program,
        words => words,
    });
    let virt_hook_commands = programs.filter_map(|words| words.split_first());
    let virt_hook_commands =
        virt_hook_commands.filter(|(program, _)| program.ends_with("virt-hook"));
    virt_hook_commands
        .map(|(_, words)| check_command(location, words))
        .sum()
}

/// Checks the words of one command after the program's name.
fn check_command(location: &str, words: &[String]) -> usize {
    let location = format!("{location}: virt-hook {}", words.join(" "));
    let verb = words.iter().find(|word| !word.starts_with('-'));
    // VERB is a placeholder.
    let Some(verb) = verb.filter(|verb| verb.as_str() != "VERB") else {
        return 0;
    };
    let help = help(verb).unwrap_or_else(|| panic!("{location}: there is no such verb"));
    let flags = words.iter().map(|word| word.trim_matches(['[', ']']));
    let flags = flags.filter(|word| word.starts_with("--") && word.len() > 2);
    for flag in flags.map(|word| word.split('=').next().unwrap()) {
        let mut words = help.split(|c: char| !(c.is_alphanumeric() || c == '-'));
        assert!(
            words.any(|word| word == flag),
            "{location}: `virt-hook {verb}` has no {flag}"
        );
    }
    1
}

#[test]
fn the_tools_page_lists_every_verb() {
    check_verbs("docs/virt-hook.md");
}

/// The examples in `--help` are documentation too.
#[test]
fn examples_in_help_use_existing_verbs_and_flags() {
    let checked: usize = VERBS.iter().map(|verb| check_help_examples(verb)).sum();
    assert!(checked > 20, "help shows {checked} commands");
}

#[test]
fn every_verb_and_flag_on_the_pages_exists() {
    let mut checked = 0;
    for path in pages() {
        let page = page(&path);
        for block in &page.blocks {
            if block.language == "sh" || block.is("text", "usage") {
                let location = format!("{path}:{}", block.line);
                checked += check_verbs_and_flags(&location, &block.text);
            }
        }
        for code in page.code() {
            checked += check_verbs_and_flags(&path, code);
        }
    }
    assert!(checked > 20, "the pages show {checked} commands");
}
