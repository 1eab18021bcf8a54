//! The paths that a Rust source names, and the items that it defines, found without a full parser.

use std::collections::BTreeSet;

/// A path of a `use`, and the name that it introduces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) path: Vec<String>,
    pub(crate) name: String,
}

/// A module that the source declares with `mod NAME;`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ModuleDeclaration {
    pub(crate) name: String,
    /// The file that an attribute `#[path = "..."]` names, relative to the directory of the declaring file.
    pub(crate) path_attribute: Option<String>,
}

/// Splits the source into tokens: identifiers, `::`, string literals (a `"` and the text) and single characters. Comments
/// and test modules are left out.
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
                let text = string_literal(&mut rest, is_raw.then_some(hashes));
                tokens.push(format!("\"{text}"));
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

/// Reads the rest of a string literal and returns its text, with escapes as in the source. `raw` is the number of hashes
/// of a raw string.
fn string_literal(
    rest: &mut std::iter::Peekable<std::str::Chars<'_>>,
    raw: Option<usize>,
) -> String {
    let mut text = String::new();
    while let Some(c) = rest.next() {
        match (c, raw) {
            ('\\', None) => {
                text.push(c);
                text.extend(rest.next());
            }
            ('"', None) => break,
            ('"', Some(hashes)) => {
                let mut seen = 0;
                while seen < hashes && rest.next_if_eq(&'#').is_some() {
                    seen += 1;
                }
                if seen == hashes {
                    break;
                }
                text.push(c);
                text.extend(std::iter::repeat_n('#', seen));
            }
            _ => text.push(c),
        }
    }
    text
}

/// Removes each `#[cfg(test)]`, the attributes before it, and the block or statement behind it.
fn without_tests(tokens: &[String]) -> Vec<String> {
    const TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        let is_test = tokens[index..].len() >= TEST.len()
            && tokens[index..]
                .iter()
                .zip(TEST)
                .all(|(token, test)| token == test);
        if !is_test {
            kept.push(tokens[index].clone());
            index += 1;
            continue;
        }
        while let Some(start) = last_attribute(&kept) {
            kept.truncate(start);
        }
        let mut depth = 0;
        index += TEST.len();
        while index < tokens.len() {
            match tokens[index].as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            let ends = depth == 0 && ["}", ";"].contains(&tokens[index].as_str());
            index += 1;
            if ends {
                break;
            }
        }
    }
    kept
}

/// The index at which the attribute begins that the tokens end with.
fn last_attribute(tokens: &[String]) -> Option<usize> {
    if tokens.last()? != "]" {
        return None;
    }
    let mut depth = 0;
    let start = tokens.iter().rposition(|token| {
        match token.as_str() {
            "]" => depth += 1,
            "[" => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    let hash = start.checked_sub(1)?;
    (tokens[hash] == "#").then_some(hash)
}

/// All modules that the source declares with `mod NAME;`.
pub(crate) fn module_declarations(tokens: &[String]) -> Vec<ModuleDeclaration> {
    let declarations = tokens.windows(3).enumerate();
    let declarations = declarations.filter_map(|(index, declaration)| match declaration {
        [word, name, end] if word == "mod" && end == ";" => Some(ModuleDeclaration {
            name: name.clone(),
            path_attribute: path_attribute(without_visibility(&tokens[..index])),
        }),
        _ => None,
    });
    declarations.collect()
}

/// The tokens without `pub` or `pub(...)` at their end.
fn without_visibility(tokens: &[String]) -> &[String] {
    let start = match tokens.last().map(String::as_str) {
        Some("pub") => Some(tokens.len() - 1),
        Some(")") => tokens.iter().rposition(|token| token == "("),
        _ => None,
    };
    let start = match start {
        Some(index) if tokens[index] == "(" => index.checked_sub(1),
        start => start,
    };
    match start {
        Some(index) if tokens[index] == "pub" => &tokens[..index],
        _ => tokens,
    }
}

/// The value of `#[path = "..."]` among the attributes that the tokens end with.
fn path_attribute(mut tokens: &[String]) -> Option<String> {
    while let Some(start) = last_attribute(tokens) {
        if let [_, _, word, equals, value, _] = &tokens[start..]
            && word == "path"
            && equals == "="
        {
            return value.strip_prefix('"').map(str::to_owned);
        }
        tokens = &tokens[..start];
    }
    None
}

/// The paths of all `use` statements, with expanded trees.
pub(crate) fn imports(tokens: &[String]) -> Vec<Import> {
    let mut imports = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        if tokens[index] == "use" {
            index += 1;
            parse_use_tree(tokens, &mut index, &[], &mut imports);
        }
        index += 1;
    }
    imports
}

fn parse_use_tree(
    tokens: &[String],
    index: &mut usize,
    prefix: &[String],
    imports: &mut Vec<Import>,
) {
    let mut path = prefix.to_vec();
    while let Some(token) = tokens.get(*index) {
        match token.as_str() {
            "::" => *index += 1,
            "{" => {
                *index += 1;
                while tokens
                    .get(*index)
                    .is_some_and(|token| token != "}" && token != ";")
                {
                    parse_use_tree(tokens, index, &path, imports);
                    if tokens.get(*index).is_some_and(|token| token == ",") {
                        *index += 1;
                    }
                }
                *index += 1;
                return;
            }
            "*" => {
                *index += 1;
                return imports.push(Import {
                    path,
                    name: "*".to_owned(),
                });
            }
            "as" => {
                let name = tokens.get(*index + 1).cloned().unwrap_or_default();
                *index += 2;
                return imports.push(Import { path, name });
            }
            ";" | "," | "}" => break,
            _ => {
                path.push(token.clone());
                *index += 1;
            }
        }
    }
    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
        path.pop();
    }
    if let Some(name) = path.last().cloned() {
        imports.push(Import { path, name });
    }
}

/// The names of all items that the source defines.
pub(crate) fn defined_names(tokens: &[String]) -> BTreeSet<String> {
    const KEYWORDS: [&str; 8] = [
        "struct", "enum", "union", "trait", "type", "fn", "const", "static",
    ];
    let items = tokens.windows(2).filter_map(|pair| match pair {
        [keyword, name] if KEYWORDS.contains(&keyword.as_str()) => Some(name.clone()),
        _ => None,
    });
    items.collect()
}

/// All paths of two or more segments outside of `use` statements.
pub(crate) fn paths(tokens: &[String]) -> Vec<Vec<String>> {
    let is_name = |token: &String| token.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let mut paths = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        if tokens[index] == "use" {
            while tokens.get(index).is_some_and(|token| token != ";") {
                index += 1;
            }
        } else if is_name(&tokens[index]) {
            let mut path = vec![tokens[index].clone()];
            while tokens.get(index + 1).is_some_and(|token| token == "::")
                && tokens.get(index + 2).is_some_and(is_name)
            {
                path.push(tokens[index + 2].clone());
                index += 2;
            }
            if path.len() > 1 {
                paths.push(path);
            }
        }
        index += 1;
    }
    paths
}
