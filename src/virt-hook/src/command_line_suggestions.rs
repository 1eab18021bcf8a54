//! Verbs that other tools have, and what does their work here; words that a verb does not take.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::inputs::has_manifest_extension;

const CHECK: &str = "'virt-hook check' checks whether a hook is ready for a cluster, 'virt-hook policy check' a policy";
const BUILD: &str = "'make' in the directory of a hook builds it, 'virt-hook dev' after each change; 'virt-hook wrap' makes a \
                     hook of a core module";
const NEW: &str = "'virt-hook new' creates a hook project";
const INSPECT: &str =
    "'virt-hook inspect' describes a module, 'virt-hook VERB --help' explains a verb";
const RENDER: &str = "'virt-hook render' converts a VMI to domain XML";
const COMPARE: &str =
    "'virt-hook compare' shows what hooks change on many VMs, 'virt-hook render --diff' on one";
const PUSH: &str = "'virt-hook image' writes an image of modules, 'virt-hook push' pushes it";
const DEPLOY: &str =
    "'virt-hook deploy' prints the manifests that bring a module into a cluster, for kubectl apply";
const VERSION: &str = "'virt-hook --version' prints the version";

/// Words of cargo, npm, helm, kubectl, kwctl and docker.
const VERBS_OF_OTHER_TOOLS: [(&str, &str); 23] = [
    ("apply", DEPLOY),
    ("build", BUILD),
    ("convert", RENDER),
    ("create", NEW),
    ("describe", INSPECT),
    ("diff", COMPARE),
    ("explain", INSPECT),
    ("generate", NEW),
    ("info", INSPECT),
    ("init", NEW),
    ("install", DEPLOY),
    ("lint", CHECK),
    ("make", BUILD),
    ("package", PUSH),
    ("publish", PUSH),
    ("scaffold", NEW),
    ("show", INSPECT),
    ("template", RENDER),
    ("upload", PUSH),
    ("validate", CHECK),
    ("vet", CHECK),
    ("version", VERSION),
    ("watch", BUILD),
];

const SEVERAL_MANIFESTS: &str = "this verb takes one file here, and the shell may have made several of a pattern; 'check', 'compare' \
    and 'render' take several";

/// The error of a command line, with the way to go for a verb of other tools, and for several manifests. clap itself suggests
/// what is spelt alike.
pub(crate) fn with_suggestion(mut error: clap::Error) -> clap::Error {
    let word = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    };
    let suggestion = match error.kind() {
        ErrorKind::InvalidSubcommand => word(ContextKind::InvalidSubcommand).and_then(|word| {
            let mut known = VERBS_OF_OTHER_TOOLS.iter();
            known
                .find(|(verb, _)| *verb == word)
                .map(|(_, suggestion)| *suggestion)
        }),
        ErrorKind::UnknownArgument => word(ContextKind::InvalidArg)
            .filter(|word| !word.starts_with('-') && has_manifest_extension(word.as_ref()))
            .map(|_| SEVERAL_MANIFESTS),
        _ => None,
    };
    if let Some(suggestion) = suggestion {
        error.remove(ContextKind::SuggestedSubcommand);
        let suggestion = StyledStr::from(suggestion);
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![suggestion]),
        );
    }
    error
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn verb_of_another_tool_leads_to_a_verb_that_exists() {
        for (word, _) in VERBS_OF_OTHER_TOOLS {
            for command_line in [&["virt-hook", word][..], &["virt-hook", "policy", word]] {
                let Err(error) = Cli::try_parse_from(command_line) else {
                    panic!("{word} is a verb");
                };
                let text = with_suggestion(error).render().to_string();
                let mut suggested = text.split("tip: ");
                let tip = suggested.nth(1).unwrap();
                assert_eq!(suggested.next(), None, "{text}");
                let quoted = tip
                    .split('\'')
                    .filter_map(|part| part.strip_prefix("virt-hook "));
                for verb in quoted.filter_map(|part| part.split(' ').next()) {
                    let is_verb = Cli::command().find_subcommand(verb).is_some();
                    assert!(is_verb || verb == "--version" || verb == "VERB", "{text}");
                }
            }
        }
    }

    #[test]
    fn several_manifests_of_a_pattern_lead_to_the_verbs_that_take_them() {
        for line in [
            "virt-hook run a.wasm --vmi 1.yaml 2.yaml",
            "virt-hook bench a.wasm --vmi 1.yaml 2.yaml",
            "virt-hook host-facts 1.yaml 2.json",
        ] {
            let error = Cli::try_parse_from(line.split(' ')).err().unwrap();
            let text = with_suggestion(error).render().to_string();
            assert!(text.contains("unexpected argument '2."), "{text}");
            assert!(
                text.contains(&format!("tip: {SEVERAL_MANIFESTS}")),
                "{text}"
            );
        }
        let error = Cli::try_parse_from(["virt-hook", "run", "a.wasm", "--vmy"])
            .err()
            .unwrap();
        let text = with_suggestion(error).render().to_string();
        assert!(text.contains("exists: '--vmi'"), "{text}");
    }

    #[test]
    fn misspelt_verb_leads_to_the_one_that_is_spelt_alike() {
        let error = Cli::try_parse_from(["virt-hook", "chekc"]).err().unwrap();
        let text = with_suggestion(error).render().to_string();
        assert!(text.contains("'check'"), "{text}");
    }
}
