//! The paths that a Rust source names, found without a full parser.

/// A path of a `use`, and the name that it introduces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) path: Vec<String>,
    pub(crate) name: String,
}

/// The source without comments, texts and test modules, as tokens: identifiers and single characters, `::` as one.
pub(crate) fn tokens(source: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = source.chars().peekable();
    let mut previous = ' ';
    while let Some(c) = rest.next() {
        match c {
            '/' if rest.peek() == Some(&'/') => while rest.next_if(|c| *c != '\n').is_some() {},
            '"' => {
                let hashes = tokens
                    .iter()
                    .rev()
                    .take_while(|token| *token == "#")
                    .count();
                let is_raw = previous == '#' || previous == 'r';
                skip_text(&mut rest, is_raw.then_some(hashes));
            }
            // A character or a lifetime.
            '\'' => {
                let first = rest.next();
                if first == Some('\\') {
                    rest.next();
                    while rest.next_if(|c| *c != '\'').is_some() {}
                    rest.next();
                } else {
                    rest.next_if_eq(&'\'');
                }
            }
            ':' if rest.next_if_eq(&':').is_some() => tokens.push("::".to_owned()),
            c if c.is_alphanumeric() || c == '_' => {
                let mut word = String::from(c);
                while let Some(c) = rest.next_if(|c| c.is_alphanumeric() || *c == '_') {
                    word.push(c);
                }
                tokens.push(word);
            }
            c if c.is_whitespace() => {}
            c => tokens.push(c.to_string()),
        }
        previous = c;
    }
    without_tests(&tokens)
}

/// Skips to the end of a text; a raw one ends with as many hashes as it began with.
fn skip_text(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, raw: Option<usize>) {
    while let Some(c) = rest.next() {
        match (c, raw) {
            ('\\', None) => _ = rest.next(),
            ('"', None) => return,
            ('"', Some(hashes)) => {
                let mut seen = 0;
                while seen < hashes && rest.next_if_eq(&'#').is_some() {
                    seen += 1;
                }
                if seen == hashes {
                    return;
                }
            }
            _ => {}
        }
    }
}

/// Removes what follows `#[cfg(test)]`: to the end of a block or statement.
fn without_tests(tokens: &[String]) -> Vec<String> {
    const TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_test = tokens[at..].len() >= TEST.len()
            && tokens[at..]
                .iter()
                .zip(TEST)
                .all(|(token, test)| token == test);
        if !is_test {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        let mut depth = 0;
        at += TEST.len();
        while at < tokens.len() {
            match tokens[at].as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            let ends = depth == 0 && ["}", ";"].contains(&tokens[at].as_str());
            at += 1;
            if ends {
                break;
            }
        }
    }
    kept
}

/// The paths of all `use` statements, their trees expanded.
pub(crate) fn imports(tokens: &[String]) -> Vec<Import> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at] == "use" {
            at += 1;
            tree(tokens, &mut at, &[], &mut found);
        }
        at += 1;
    }
    found
}

fn tree(tokens: &[String], at: &mut usize, prefix: &[String], found: &mut Vec<Import>) {
    let mut path = prefix.to_vec();
    while let Some(token) = tokens.get(*at) {
        match token.as_str() {
            "::" => *at += 1,
            "{" => {
                *at += 1;
                while tokens
                    .get(*at)
                    .is_some_and(|token| token != "}" && token != ";")
                {
                    tree(tokens, at, &path, found);
                    if tokens.get(*at).is_some_and(|token| token == ",") {
                        *at += 1;
                    }
                }
                *at += 1;
                return;
            }
            "*" => {
                *at += 1;
                return found.push(Import {
                    path,
                    name: "*".to_owned(),
                });
            }
            "as" => {
                let name = tokens.get(*at + 1).cloned().unwrap_or_default();
                *at += 2;
                return found.push(Import { path, name });
            }
            ";" | "," | "}" => break,
            _ => {
                path.push(token.clone());
                *at += 1;
            }
        }
    }
    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
        path.pop();
    }
    if let Some(name) = path.last().cloned() {
        found.push(Import { path, name });
    }
}

/// All paths of two or more segments outside of `use` statements.
pub(crate) fn paths(tokens: &[String]) -> Vec<Vec<String>> {
    let is_name = |token: &String| token.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at] == "use" {
            while tokens.get(at).is_some_and(|token| token != ";") {
                at += 1;
            }
        } else if is_name(&tokens[at]) {
            let mut path = vec![tokens[at].clone()];
            while tokens.get(at + 1).is_some_and(|token| token == "::")
                && tokens.get(at + 2).is_some_and(is_name)
            {
                path.push(tokens[at + 2].clone());
                at += 2;
            }
            if path.len() > 1 {
                found.push(path);
            }
        }
        at += 1;
    }
    found
}
