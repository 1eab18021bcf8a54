//! Conditions of wishes, `hook.yaml` and the operator's policy together, and what a wish for an element includes.

use super::*;
use crate::policy::NotGranted;

fn path_wishes(paths: &str) -> String {
    format!(r#"{{"wishes":{{"paths":[{paths}]}}}}"#)
}

/// The remedy of the refusal of a change; `None` if it is granted.
fn refused(grant: &Grant, before: &str, after: &str) -> Option<String> {
    let [before, after] = [before, after].map(|xml| Document::parse(xml).unwrap());
    let changes = diff(&before, &after);
    assert!(!changes.is_empty());
    let budget = Rc::new(Budget::unlimited());
    match grant.check(&changes, &before, &after, &budget) {
        Ok(()) => None,
        Err(NotGranted::Refused(refusal)) => Some(refusal.remedy),
        Err(NotGranted::CheckBudgetExhausted) => panic!("an unlimited budget"),
    }
}

const FILE: &str = "/domain/devices/serial/log/@file";

/// The remedy if a hook sets the log's file.
fn log_refused(settings: &EffectiveSettings, file: &str) -> Option<String> {
    let domain =
        |file: &str| format!("<domain><devices><serial><log{file}/></serial></devices></domain>");
    refused(
        &settings.grant,
        &domain(""),
        &domain(&format!(" file='{file}'")),
    )
}

#[test]
fn every_layers_condition_must_hold() {
    let wish = |below: &str| path_wishes(&format!(r#"{{"path":"{FILE}","below":"{below}"}}"#));
    let policy =
        |condition: &str| format!("allow:\n  dangerous:\n    - {{path: {FILE}, {condition}}}\n");
    for (wish, yaml, policy, granted, denied) in [
        // A wish with a condition is narrower than a policy without.
        (
            wish("/logs"),
            None,
            format!("allow: {{dangerous: ['{FILE}']}}"),
            &["/logs/a", "/logs/vm/a"][..],
            &["/etc/a"][..],
        ),
        (
            wish("/logs"),
            None,
            "allow: {dangerous: [HostPath]}".to_owned(),
            &["/logs/a"],
            &["/etc/a"],
        ),
        // A policy with a condition is narrower than a wish without.
        (
            path_wishes(&format!("\"{FILE}\"")),
            None,
            policy("below: /logs"),
            &["/logs/a"],
            &["/etc/a"],
        ),
        // Both.
        (
            wish("/logs"),
            None,
            policy("below: /logs/vm"),
            &["/logs/vm/a"],
            &["/logs/a"],
        ),
        (
            wish("/logs/vm"),
            None,
            policy("matches: '.*[.]log'"),
            &["/logs/vm/a.log"],
            &["/logs/vm/a", "/b.log"],
        ),
        // The owner's hook.yaml narrows further.
        (
            wish("/logs"),
            Some(format!(
                "allow: {{paths: [{{path: {FILE}, one-of: [/logs/a, /etc/a]}}]}}\n"
            )),
            policy("below: /"),
            &["/logs/a"],
            &["/logs/b", "/etc/a"],
        ),
    ] {
        let settings = resolve_texts(&wish, yaml.as_deref(), Some(&policy)).unwrap();
        for file in granted {
            assert_eq!(log_refused(&settings, file), None, "{wish} {policy} {file}");
        }
        for file in denied {
            assert!(
                log_refused(&settings, file).is_some(),
                "{wish} {policy} {file}"
            );
        }
    }
}

#[test]
fn a_value_is_refused_with_the_condition_its_place_and_the_remedy() {
    let wish = path_wishes(&format!("\"{FILE}\""));
    let policy = format!("allow:\n  dangerous:\n    - {{path: {FILE}, below: /logs}}\n");
    let settings = resolve_texts(&wish, None, Some(&policy)).unwrap();
    assert_eq!(
        log_refused(&settings, "/etc/a").unwrap(),
        format!(
            "\"/etc/a\" is not below /logs; let the hook write a value that meets the condition, or allow.dangerous of \
             p.yaml:3:5 would have to widen `{FILE} (below: /logs)`"
        )
    );
}

#[test]
fn the_list_that_has_the_condition_is_named() {
    let wish = path_wishes(&format!("\"{FILE}\""));
    let policy = format!(
        "allow:\n  paths: [/domain/title]\n  dangerous:\n    - {{path: {FILE}, below: /logs}}\n"
    );
    let settings = resolve_texts(&wish, None, Some(&policy)).unwrap();
    let remedy = log_refused(&settings, "/etc/a").unwrap();
    assert!(
        remedy.contains("or allow.dangerous of p.yaml:4:5 would have to widen"),
        "{remedy}"
    );
}

#[test]
fn a_wish_of_which_the_conditions_leave_nothing_is_refused_at_load() {
    let wish = path_wishes(&format!(r#"{{"path":"{FILE}","below":"/logs"}}"#));
    let policy = format!("allow: {{dangerous: [{{path: {FILE}, below: /other}}]}}\n");
    assert_eq!(
        refusal(&wish, None, Some(&policy)),
        format!(
            "it wants the path \"{FILE} (below: /logs)\", which allow.dangerous of p.yaml:1:20 does not allow: add it there"
        )
    );
}

#[test]
fn a_policy_with_an_unknown_condition_is_refused_by_name() {
    for (list, prefix) in [("paths", "/domain/title"), ("dangerous", FILE)] {
        for (condition, part) in [
            ("less-than: 5", "unknown field `less-than`"),
            ("oneOf: [a]", "unknown field `oneOf`"),
            ("below: relative", "not an absolute path"),
            ("matches: '('", "not a regular expression"),
            ("at-most: 1Ki", "a whole number for at-most"),
            ("at-most: -1", "a whole number for at-most"),
            ("at-most: '1'", "a whole number for at-most"),
            ("below:", ""),
        ] {
            let text = format!("allow:\n  {list}:\n    - {{path: {prefix}, {condition}}}\n");
            let error = OperatorPolicy::parse(Path::new("p.yaml"), &text)
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with("p.yaml:3:") && error.contains(part),
                "{text}: {error}"
            );
        }
    }
    let yaml = "allow:\n  paths:\n    - {path: /domain/title, less-than: 5}\n";
    let error = HookYaml::parse(Path::new("h/hook.yaml"), yaml)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("h/hook.yaml:3:") && error.contains("`less-than`"),
        "{error}"
    );
    // The dangerous set is granted by its own list only, with a condition too.
    let text = format!("allow: {{paths: [{{path: {FILE}, below: /logs}}]}}\n");
    let error = OperatorPolicy::parse(Path::new("p.yaml"), &text)
        .unwrap_err()
        .to_string();
    assert!(error.contains("which only `dangerous` grants"), "{error}");
    let text = "allow: {dangerous: [{path: /domain/title, one-of: [a]}]}\n";
    let error = OperatorPolicy::parse(Path::new("p.yaml"), text)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("/domain/title names nothing of the dangerous set"),
        "{error}"
    );
}

#[test]
fn a_wish_for_an_element_includes_its_own_attributes() {
    let entry = "/domain/sysinfo[@type='smbios']/system/entry";
    let sysinfo = |entries: &str| {
        format!("<domain><sysinfo type='smbios'><system>{entries}</system></sysinfo></domain>")
    };
    let before = sysinfo("<entry name='serial'>1</entry>");
    let wish = path_wishes(&format!("\"{entry}\""));
    let settings = resolve_texts(&wish, None, None).unwrap();
    for granted in [
        "<entry name='serial'>1</entry><entry name='sku'>s</entry>",
        "<entry name='serial'>2</entry>",
        "<entry name='family'>1</entry>",
    ] {
        assert_eq!(
            refused(&settings.grant, &before, &sysinfo(granted)),
            None,
            "{granted}"
        );
    }
    for denied in [
        "<entry name='serial'>1</entry><entry name='sku'><x/></entry>",
        "<entry name='serial'>1</entry><entry name='uuid'>x</entry>",
        "<entry name='serial'>1</entry><entry name='a' file='/etc/x'/>",
        "<entry name='serial'>1</entry><other/>",
    ] {
        assert!(
            refused(&settings.grant, &before, &sysinfo(denied)).is_some(),
            "{denied}"
        );
    }
    // The lists of policies grant what they say: there the attributes have a line of their own.
    let after = sysinfo("<entry name='serial'>1</entry><entry name='sku'>s</entry>");
    for (list, remedy) in [
        (
            format!("[\"{entry}\"]"),
            Some("allow.paths of p.yaml:1:16 would have to contain"),
        ),
        (format!("[\"{entry}\", \"{entry}/@*\"]"), None),
        (format!("[\"{entry}/**\"]"), None),
    ] {
        let policy = format!("allow: {{paths: {list}}}\n");
        let settings = resolve_texts(&wish, None, Some(&policy)).unwrap();
        let found = refused(&settings.grant, &before, &after);
        assert_eq!(found.is_some(), remedy.is_some(), "{list}: {found:?}");
        assert!(
            found
                .unwrap_or_default()
                .contains(remedy.unwrap_or_default()),
            "{list}"
        );
    }
}

#[test]
fn a_missing_container_needs_no_line_of_its_own_in_any_list() {
    let path = "/domain/cputune/iothreadpin/**";
    let wish = path_wishes(&format!("\"{path}\""));
    let after = "<domain><cputune><iothreadpin iothread='1' cpuset='3'/></cputune></domain>";
    let list = format!("allow: {{paths: ['{path}']}}\n");
    for (yaml, policy) in [
        (None, None),
        (Some(&list), None),
        (None, Some(&list)),
        (Some(&list), Some(&list)),
    ] {
        let settings =
            resolve_texts(&wish, yaml.map(String::as_str), policy.map(String::as_str)).unwrap();
        assert_eq!(refused(&settings.grant, "<domain/>", after), None);
        let more = after.replace("<cputune>", "<cputune><shares>9</shares>");
        assert!(refused(&settings.grant, "<domain/>", &more).is_some());
    }
}
