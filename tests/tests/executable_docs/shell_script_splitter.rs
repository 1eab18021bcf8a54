//! Splits shell scripts into commands.

use std::process::Command;

/// Checks that a shell can parse the script.
pub(crate) fn check_syntax(script: &str) -> Result<(), String> {
    let mut shell = Command::new("sh");
    let output = shell.args(["-n", "-c", script]).output().unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// The words of each command, without expansions. A quoted text is one word.
pub(crate) fn commands(script: &str) -> Vec<Vec<String>> {
    let unfolded = script.replace("\\\n", " ");
    let mut commands = Vec::new();
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut lines = unfolded.chars().peekable();
    while let Some(c) = lines.next() {
        match (quote, c) {
            (Some(opening_quote), c) if c == opening_quote => quote = None,
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

/// A path in a command without `$CHECKOUT/`, which is the workspace.
pub(crate) fn without_checkout(word: &str) -> &str {
    word.strip_prefix("$CHECKOUT/").unwrap_or(word)
}

#[test]
fn a_script_is_split_into_commands() {
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
