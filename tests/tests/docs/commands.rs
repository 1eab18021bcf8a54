//! Commands of a script, and what `virt-hook` says that it takes.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Mutex;

use tests::binaries::binary;

/// All that there are.
pub(crate) const VERBS: [&str; 11] = [
    "new", "inspect", "run", "render", "test", "check", "bench", "compile", "wrap", "serve",
    "replay",
];

/// Whether a shell understands it.
pub(crate) fn is_shell(script: &str) -> Result<(), String> {
    let mut shell = Command::new("sh");
    let output = shell.args(["-n", "-c", script]).output().unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// The words of each command, without what a shell makes of them; quoted texts stay whole.
pub(crate) fn commands(script: &str) -> Vec<Vec<String>> {
    let joined = script.replace("\\\n", " ");
    let mut commands = Vec::new();
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut lines = joined.chars().peekable();
    while let Some(c) = lines.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => quote = Some(c),
            (None, '#') if word.is_empty() => while lines.next_if(|c| *c != '\n').is_some() {},
            (None, c) if c.is_whitespace() || "|;&()`".contains(c) => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                if "\n|;&()`".contains(c) && !words.is_empty() {
                    commands.push(std::mem::take(&mut words));
                }
            }
            (None, c) => word.push(c),
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    commands.extend(Some(words).filter(|words| !words.is_empty()));
    commands
}

/// What `--help` of a verb says; none for what is no verb.
fn help(verb: &str) -> Option<String> {
    static SAID: Mutex<BTreeMap<String, Option<String>>> = Mutex::new(BTreeMap::new());
    let mut said = SAID.lock().unwrap();
    let ask = || {
        let mut program = Command::new(binary("virt-hook").unwrap());
        let output = program.args([verb, "--help"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then_some(text)
    };
    said.entry(verb.to_owned()).or_insert_with(ask).clone()
}

/// The examples that a verb's help shows name verbs and flags that there are. Gives their number.
pub(crate) fn help_is_so(verb: &str) -> usize {
    let help = help(verb).unwrap_or_else(|| panic!("there is no {verb}"));
    let examples = help.lines().filter(|line| line.starts_with("  virt-hook "));
    let examples = examples.map(|line| verbs_and_flags_are_there(verb, line));
    let number = examples.sum();
    assert!(number > 0, "virt-hook {verb} --help shows no example");
    number
}

/// Every `virt-hook` command names a verb and flags that there are. Gives their number.
pub(crate) fn verbs_and_flags_are_there(at: &str, script: &str) -> usize {
    let commands = commands(script);
    let own = commands.iter().filter_map(|words| words.split_first());
    let own = own.filter(|(program, _)| program.ends_with("virt-hook"));
    own.map(|(_, words)| is_there(at, words)).sum()
}

/// One of them, without the program's name.
pub(crate) fn is_there(at: &str, words: &[String]) -> usize {
    let at = format!("{at}: virt-hook {}", words.join(" "));
    let verb = words.iter().find(|word| !word.starts_with('-'));
    // VERB stands for any.
    let Some(verb) = verb.filter(|verb| verb.as_str() != "VERB") else {
        return 0;
    };
    let help = help(verb).unwrap_or_else(|| panic!("{at}: there is no such verb"));
    let flags = words.iter().map(|word| word.trim_matches(['[', ']']));
    let flags = flags.filter(|word| word.starts_with("--") && word.len() > 2);
    for flag in flags.map(|word| word.split('=').next().unwrap()) {
        let mut words = help.split(|c: char| !(c.is_alphanumeric() || c == '-'));
        assert!(
            words.any(|word| word == flag),
            "{at}: `virt-hook {verb}` has no {flag}"
        );
    }
    1
}

#[test]
fn a_script_is_its_commands() {
    let script = "pod=$(kubectl get pod -o name) # a comment\na --b \\\n  'c d' | e\n";
    let words: Vec<String> = commands(script)
        .iter()
        .map(|words| words.join("+"))
        .collect();
    assert_eq!(
        words,
        ["pod=$", "kubectl+get+pod+-o+name", "a+--b+c d", "e"]
    );
}
