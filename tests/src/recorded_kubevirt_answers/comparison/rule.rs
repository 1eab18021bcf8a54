//! The rules by which parts of a recorded answer may differ from ours.

/// A path in an answer: names joined by dots, where the name of a list's element is its identity, like
/// `Block.vda.RdReqs`. In a rule, `*` matches one part, and `**` at the end matches all further parts.
pub type Path = &'static str;

/// How a part of an answer is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// The types are the same; the values depend on the machine or the time.
    Type,
    /// Numbers have the same unit: they are at most 30 times smaller or greater, and zero only where zero was recorded.
    Unit,
    /// A list whose elements depend on the machine: each of our elements has the type of a recorded one, and our list
    /// is empty exactly if the recorded list is.
    Elements,
    /// A list whose elements depend on the machine: only the elements that both lists have are compared, and there is
    /// at least one.
    Common,
    /// The texts before the last dash are the same; the rest is a version.
    Unversioned,
    /// Our value is this JSON, which is an intended difference.
    Is(&'static str),
    /// The values are not compared.
    Any,
}

/// A rule for the parts of an answer whose paths match.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The path pattern of the parts.
    pub path: Path,
    /// How the parts are compared.
    pub strictness: Strictness,
    /// Why the parts may differ.
    pub reason: &'static str,
}

/// Whether the path pattern of a rule matches a path.
pub fn matches(pattern: &str, path: &str) -> bool {
    let (mut pattern, mut path) = (pattern.split('.'), path.split('.'));
    loop {
        match (pattern.next(), path.next()) {
            (Some("**"), _) => return true,
            (Some("*"), Some(_)) => {}
            (Some(expected), Some(part)) if expected == part => {}
            (None, None) => return true,
            _ => return false,
        }
    }
}
