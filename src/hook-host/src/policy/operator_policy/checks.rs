//! Checks of a policy that has been parsed.

use std::time::Duration;

use super::content::{Allow, Digests};
use super::{OperatorPolicy, PolicyError};
use crate::FailurePolicy;
use crate::policy::dangerous_patterns::kinds_named;
use crate::policy::hook_yaml::{
    MAX_DEADLINE, MAX_LOG, MAX_MEMORY, MAX_OUTPUT, MIN_MEMORY, MIN_OUTPUT,
};
use crate::policy::policy_error::YamlPosition;
use crate::policy::yaml_values::{Dangerous, WithPosition};
use crate::printable::printable;

/// Maximum number of keys of a rule: a signature is verified with each of them.
const MAX_KEYS: usize = 32;

/// Maximum length of a namespace's name.
const MAX_NAMESPACE_LENGTH: usize = 63;

/// Whether Kubernetes accepts a namespace of this name.
fn is_namespace_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let has_invalid_length = name.is_empty() || name.len() > MAX_NAMESPACE_LENGTH;
    !has_invalid_length
        && name.bytes().all(is_allowed)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

impl OperatorPolicy {
    /// Refuses a policy with values out of range, with contradictions, or with lines that would have no effect.
    pub(super) fn check(&self) -> Result<(), PolicyError> {
        self.check_ceilings()?;
        self.check_paths()?;
        self.check_rules()?;
        self.check_arrival()?;
        self.check_fail_allowed()
    }

    fn error_at(&self, position: YamlPosition, reason: impl Into<String>) -> PolicyError {
        PolicyError::at(&self.path, position, reason)
    }

    fn check_ceilings(&self) -> Result<(), PolicyError> {
        let limits = &self.content.limits;
        if let Some(deadline) = &limits.deadline
            && !(Duration::from_millis(1)..=MAX_DEADLINE).contains(&deadline.get().0)
        {
            let reason = format!("a deadline is from 1ms to {MAX_DEADLINE:?}");
            return Err(self.error_at(deadline.position(), reason));
        }
        for (name, value, min, max) in [
            ("memory", &limits.memory, MIN_MEMORY, MAX_MEMORY),
            ("output", &limits.output, MIN_OUTPUT, MAX_OUTPUT),
            ("log", &limits.log, 0, MAX_LOG),
        ] {
            if let Some(value) = value
                && !(min..=max).contains(&value.get().0)
            {
                let size = value.get().0;
                let reason = format!("{name} is from {min} to {max} bytes, not {size}");
                return Err(self.error_at(value.position(), reason));
            }
        }
        Ok(())
    }

    /// All `allow` sections.
    fn allows(&self) -> impl Iterator<Item = &Allow> {
        let top = self.content.allow.iter().map(WithPosition::get);
        top.chain(self.content.rules.iter().map(|rule| &rule.get().allow))
    }

    /// Refuses paths in a list in which they have no effect.
    fn check_paths(&self) -> Result<(), PolicyError> {
        for allow in self.allows() {
            for path in allow.paths.iter().flat_map(WithPosition::get) {
                if let [kind, ..] = kinds_named(&path.get().pattern, false)[..] {
                    let reason = format!(
                        "{} is of the dangerous set ({}), which only `dangerous` grants",
                        path.get().path(),
                        kind.name()
                    );
                    return Err(self.error_at(path.position(), reason));
                }
            }
            for path in allow.dangerous.iter().flat_map(WithPosition::get) {
                if let Dangerous::Path(granted) = path.get()
                    && kinds_named(&granted.pattern, true).is_empty()
                {
                    let pattern = granted.path();
                    let reason = format!(
                        "{pattern} names nothing of the dangerous set, which no wildcard matches: \
                         write out the path, name a kind such as DiskFormat, or move the path to \
                         `paths`"
                    );
                    return Err(self.error_at(path.position(), reason));
                }
            }
        }
        Ok(())
    }

    fn check_rules(&self) -> Result<(), PolicyError> {
        for rule in &self.content.rules {
            if let Some((key, position)) = rule.get().empty_list() {
                let reason = format!(
                    "{key} lists nothing, so the rule would hold for none: list some, or leave the key out to name all"
                );
                return Err(self.error_at(position, reason));
            }
            let has_keys = rule.get().keys.is_some();
            if rule.get().digests.is_none() && rule.get().namespaces.is_none() && !has_keys {
                let reason = "a rule names digests, namespaces or keys; what holds for all other \
                              hooks goes under `allow` at the top";
                return Err(self.error_at(rule.position(), reason));
            }
            if let Some(keys) = &rule.get().keys
                && !(1..=MAX_KEYS).contains(&keys.get().len())
            {
                let reason = format!("a rule has from 1 to {MAX_KEYS} keys");
                return Err(self.error_at(keys.position(), reason));
            }
            if let Some(position) = rule.get().final_position()
                && rule.get().digests.is_none()
                && !has_keys
            {
                let reason = "a final rule names digests or keys: in its namespaces, any module would have the last word";
                return Err(self.error_at(position, reason));
            }
            for namespace in rule.get().namespaces() {
                self.check_namespace(namespace)?;
            }
        }
        let mut rules = self.content.rules.iter();
        match &self.content.digests {
            Some(digests)
                if *digests.get() == Digests::Listed
                    && rules
                        .all(|rule| rule.get().digests.is_none() && rule.get().keys.is_none()) =>
            {
                let reason = "digests are to be listed, and no rule lists any or has keys: no \
                              module could run";
                Err(self.error_at(digests.position(), reason))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a name that no namespace can have: its rule would never apply, and so would not narrow anything.
    fn check_namespace(&self, namespace: &WithPosition<String>) -> Result<(), PolicyError> {
        let name = namespace.get().as_str();
        let reason = match name {
            "" => {
                "a rule names the namespace \"\", which stands for one that is not known".to_owned()
            }
            name if is_namespace_name(name) => return Ok(()),
            name => format!(
                "{:?} is not a name of a namespace (a-z, 0-9 and -, at most {MAX_NAMESPACE_LENGTH} characters): \
                 a rule lists each namespace, there are no patterns",
                printable(name, MAX_NAMESPACE_LENGTH)
            ),
        };
        Err(self.error_at(namespace.position(), reason))
    }

    fn check_fail_allowed(&self) -> Result<(), PolicyError> {
        match &self.content.failure_policies {
            Some(policies) if !policies.get().contains(&FailurePolicy::Fail) => {
                let reason = "Fail is what hooks have that say nothing; it cannot be forbidden";
                Err(self.error_at(policies.position(), reason))
            }
            _ => Ok(()),
        }
    }
}
