//! The module's wishes, `hook.yaml` and the operator's policy brought together: a pure function.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use domain_xml::PathPattern;

use super::cover::{covers, names_dangerous};
use super::grant::{Grant, Layer};
use super::hook_yaml::{FailurePolicy, HookYaml};
use super::operator::{Allow, Digests, OperatorPolicy, Sidecars};
use super::read::{Place, PolicyError};
use super::values::{At, Bytes, Pattern};
use crate::wasm::{Description, Subscription, Wishes};
use crate::{HookPoint, Limits};

/// Whose settings are to be found.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The sha256 of the module in lower-case hexadecimal.
    pub digest: &'a str,
    /// The virtual machine's namespace, empty when it is not known.
    pub namespace: &'a str,
    /// What the module says of itself.
    pub description: &'a Description,
}

/// How a hook is run, and what it may do.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where it is called, and before whom.
    pub hook_points: Vec<Subscription>,
    /// What becomes of its failures.
    pub failure_policy: FailurePolicy,
    /// What it may use.
    pub limits: Limits,
    /// What it is told when it asks for its configuration.
    pub config: BTreeMap<String, String>,
    /// Directories that it may read.
    pub dirs: Vec<PathBuf>,
    pub(crate) grant: Grant,
}

/// Why a hook may not run as it would.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettleError {
    /// A line of `hook.yaml` does not fit the module or the operator's policy.
    #[error(transparent)]
    Line(#[from] PolicyError),
    /// It is another module than the one that was pinned.
    #[error("{place}: the module has the sha256 {found}, not {expected}")]
    Digest {
        /// The pin's file, line and column.
        place: String,
        /// The pin.
        expected: String,
        /// What the module has.
        found: String,
    },
    /// The operator wants the digest to be known.
    #[error("{place}: modules run only when {wanted}; this one has the sha256 {digest}")]
    UnknownDigest {
        /// The policy's file, line and column.
        place: String,
        /// Where the digest would have to stand.
        wanted: &'static str,
        /// What the module has.
        digest: String,
    },
    /// The operator forbids gRPC sidecars.
    #[error("{place}: gRPC sidecars are forbidden")]
    Sidecar {
        /// The policy's file, line and column.
        place: String,
    },
    /// The module wants more than it is granted.
    #[error("it wants the {what} {wish:?}, which {origin} does not allow: add it there")]
    NotGranted {
        /// `path`, `directory`, `configuration key` or `hook point`.
        what: &'static str,
        /// What it wants.
        wish: String,
        /// The list that would have to contain it.
        origin: String,
    },
}

/// What a hook gets of what it wants.
pub(crate) fn settle(
    subject: Subject<'_>,
    base: &Limits,
    yaml: Option<&HookYaml>,
    operator: Option<&OperatorPolicy>,
) -> Result<Settings, SettleError> {
    let terms = Terms {
        subject,
        yaml,
        operator,
        allows: operator.map_or_else(Vec::new, |policy| {
            policy.allows(subject.digest, subject.namespace)
        }),
    };
    terms.digest()?;
    Ok(Settings {
        hook_points: terms.hook_points()?,
        failure_policy: terms.failure_policy()?,
        limits: terms.limits(base)?,
        config: terms.config()?,
        dirs: terms.dirs()?,
        grant: terms.grant()?,
    })
}

/// How a gRPC sidecar is run: unrestricted, if at all.
pub(crate) fn settle_sidecar(
    hook_points: Vec<Subscription>,
    base: &Limits,
    yaml: Option<&HookYaml>,
    operator: Option<&OperatorPolicy>,
) -> Result<Settings, SettleError> {
    if let Some(operator) = operator
        && let Some(sidecars) = &operator.content.sidecars
        && *sidecars.get() == Sidecars::Forbid
    {
        return Err(SettleError::Sidecar {
            place: operator.at(sidecars.place()),
        });
    }
    if let Some((yaml, (key, place))) = yaml.and_then(|yaml| Some((yaml, yaml.for_modules()?))) {
        let reason = format!("{key} is for modules: a gRPC sidecar cannot be restricted");
        return Err(yaml.wrong(place, reason).into());
    }
    let description = Description {
        hook_points,
        ..Description::default()
    };
    let terms = Terms {
        subject: Subject {
            digest: "",
            namespace: "",
            description: &description,
        },
        yaml,
        operator,
        allows: Vec::new(),
    };
    Ok(Settings {
        hook_points: terms.hook_points()?,
        failure_policy: terms.failure_policy()?,
        limits: base.clone(),
        config: BTreeMap::new(),
        dirs: Vec::new(),
        grant: Grant::unlimited(),
    })
}

/// All that is said about one module.
struct Terms<'a> {
    subject: Subject<'a>,
    yaml: Option<&'a HookYaml>,
    operator: Option<&'a OperatorPolicy>,
    allows: Vec<&'a Allow>,
}

/// What the rules that name a hook cap together; `None` when one of them leaves it open.
struct Cap<'a, T> {
    values: Vec<&'a T>,
    origin: String,
}

impl<'a> Terms<'a> {
    fn digest(&self) -> Result<(), SettleError> {
        let found = self.subject.digest;
        let pin = self
            .yaml
            .and_then(|yaml| Some((yaml, yaml.content.sha256.as_ref()?)));
        if let Some((yaml, pin)) = pin
            && pin.get().0 != found
        {
            return Err(SettleError::Digest {
                place: at(yaml, pin.place()),
                expected: pin.get().0.clone(),
                found: found.to_owned(),
            });
        }
        let Some(operator) = self.operator else {
            return Ok(());
        };
        let Some(digests) = &operator.content.digests else {
            return Ok(());
        };
        let (known, wanted) = match digests.get() {
            Digests::Any => (true, ""),
            Digests::Pinned => (
                pin.is_some() || operator.lists(found),
                "their sha256 stands in their hook.yaml or in a rule of this policy",
            ),
            Digests::Listed => (
                operator.lists(found),
                "their sha256 stands in a rule of this policy",
            ),
        };
        if known {
            return Ok(());
        }
        Err(SettleError::UnknownDigest {
            place: operator.at(digests.place()),
            wanted,
            digest: found.to_owned(),
        })
    }

    fn hook_points(&self) -> Result<Vec<Subscription>, SettleError> {
        let own = &self.subject.description.hook_points;
        let content = self.yaml.map(|yaml| &yaml.content);
        let priority = content.and_then(|content| content.priority);
        let mut points: Vec<Subscription> = own
            .iter()
            .map(|own| Subscription {
                point: own.point,
                priority: priority.unwrap_or(own.priority),
            })
            .collect();
        if let Some((yaml, wanted)) = self.yaml.zip(content.and_then(|c| c.hook_points.as_ref())) {
            let mut chosen = Vec::new();
            for entry in wanted {
                let point = HookPoint::from(*entry.name.get());
                let Some(known) = points.iter().find(|known| known.point == point) else {
                    let reason = format!("the module does not know the hook point {point}");
                    return Err(yaml.wrong(entry.name.place(), reason).into());
                };
                let priority = entry.priority.unwrap_or(known.priority);
                chosen.push(Subscription { point, priority });
            }
            points = chosen;
        }
        if let Some(cap) = self.cap("allow.hookPoints", |allow| allow.hook_points.as_ref()) {
            let allowed = |point| {
                cap.values
                    .iter()
                    .any(|known| HookPoint::from(**known) == point)
            };
            if let Some(refused) = points.iter().find(|own| !allowed(own.point)) {
                return Err(cap.refuses("hook point", refused.point.name()));
            }
        }
        Ok(points)
    }

    fn failure_policy(&self) -> Result<FailurePolicy, SettleError> {
        let wanted = self
            .yaml
            .and_then(|y| Some((y, y.content.failure_policy.as_ref()?)));
        let Some((yaml, wanted)) = wanted else {
            return Ok(FailurePolicy::Fail);
        };
        let operator = self
            .operator
            .and_then(|o| Some((o, o.content.failure_policies.as_ref()?)));
        if let Some((operator, allowed)) = operator
            && !allowed.get().contains(wanted.get())
        {
            let reason = format!(
                "the failure policy {:?} is not among the failurePolicies of {}",
                wanted.get(),
                operator.at(allowed.place())
            );
            return Err(yaml.wrong(wanted.place(), reason).into());
        }
        Ok(*wanted.get())
    }

    fn limits(&self, base: &Limits) -> Result<Limits, SettleError> {
        let content = self.yaml.map(|yaml| &yaml.content);
        let caps = self.operator.map(|operator| &operator.content.limits);
        let number = |name, own: Option<&At<Bytes>>, cap: Option<&At<Bytes>>, base| {
            let own = own.map(|own| (own.get().0, own.place()));
            self.limit(name, own, cap.map(|cap| (cap.get().0, cap.place())), base)
        };
        let deadline = content.and_then(|c| c.deadline.as_ref());
        let deadline_cap = caps.and_then(|c| c.deadline.as_ref());
        Ok(Limits {
            call_deadline: self.limit(
                "deadline",
                deadline.map(|own| (own.get().0, own.place())),
                deadline_cap.map(|cap| (cap.get().0, cap.place())),
                base.call_deadline,
            )?,
            memory: number(
                "memory",
                content.and_then(|c| c.memory.as_ref()),
                caps.and_then(|c| c.memory.as_ref()),
                base.memory,
            )?,
            output: number(
                "output",
                content.and_then(|c| c.output.as_ref()),
                caps.and_then(|c| c.output.as_ref()),
                base.output,
            )?,
            log: number(
                "log",
                content.and_then(|c| c.log.as_ref()),
                caps.and_then(|c| c.log.as_ref()),
                base.log,
            )?,
            ..base.clone()
        })
    }

    /// What `hook.yaml` sets, else the default; a cap lowers the default and refuses the wish.
    fn limit<T: Ord + Copy + std::fmt::Debug>(
        &self,
        name: &str,
        own: Option<(T, Place)>,
        cap: Option<(T, Place)>,
        base: T,
    ) -> Result<T, SettleError> {
        let (Some((cap, cap_place)), Some(operator)) = (cap, self.operator) else {
            return Ok(own.map_or(base, |(own, _)| own));
        };
        let Some(((own, place), yaml)) = own.zip(self.yaml) else {
            return Ok(base.min(cap));
        };
        if own <= cap {
            return Ok(own);
        }
        let reason = format!(
            "{name} is {own:?} and may be {cap:?} at most, as {} says",
            operator.at(cap_place)
        );
        Err(yaml.wrong(place, reason).into())
    }

    fn config(&self) -> Result<BTreeMap<String, String>, SettleError> {
        let Some(yaml) = self.yaml else {
            return Ok(BTreeMap::new());
        };
        let cap = self.cap("allow.config", |allow| allow.config.as_ref());
        let mut config = BTreeMap::new();
        for (key, value) in &yaml.content.config {
            if let Some(wishes) = &self.subject.description.wishes
                && !wishes.config.contains(key)
            {
                let reason = format!(
                    "the module does not read the configuration key {key:?}, only [{}]",
                    wishes.config.join(", ")
                );
                return Err(yaml.wrong(value.place(), reason).into());
            }
            if let Some(cap) = &cap
                && !cap.values.contains(&key)
            {
                return Err(cap.refuses("configuration key", key));
            }
            config.insert(key.clone(), value.get().clone());
        }
        Ok(config)
    }

    /// Directories need someone's word beside the module's own.
    fn dirs(&self) -> Result<Vec<PathBuf>, SettleError> {
        let Some(wishes) = &self.subject.description.wishes else {
            return Ok(Vec::new());
        };
        let owner = self.yaml.and_then(|yaml| {
            let dirs = yaml.content.allow.dirs.as_ref()?;
            Some(Cap {
                values: dirs.get().iter().map(|dir| &dir.get().0).collect(),
                origin: format!("allow.dirs of {}", at(yaml, dirs.place())),
            })
        });
        let operator = self.cap("allow.dirs", |allow| allow.dirs.as_ref());
        let operator = operator.map(|cap| Cap {
            values: cap.values.into_iter().map(|dir| &dir.get().0).collect(),
            origin: cap.origin,
        });
        let layers: Vec<Cap<'_, PathBuf>> = owner.into_iter().chain(operator).collect();
        let mut granted = Vec::new();
        for wish in &wishes.dirs {
            if layers.is_empty() {
                return Err(SettleError::NotGranted {
                    what: "directory",
                    wish: wish.display().to_string(),
                    origin: format!("allow.dirs of {}", self.hook_yaml()),
                });
            }
            granted.extend(narrowed(wish, &layers)?);
        }
        Ok(granted)
    }

    fn grant(&self) -> Result<Grant, SettleError> {
        let mut layers = Vec::new();
        let owner = self.yaml.and_then(|yaml| {
            let paths = yaml.content.allow.paths.as_ref()?;
            Some(layer(
                paths.get(),
                format!("allow.paths of {}", at(yaml, paths.place())),
            ))
        });
        let dangerous = self.dangerous();
        let operator = self
            .cap("allow.paths", |allow| allow.paths.as_ref())
            .map(|cap| cap.layer().and(&dangerous));
        let wishes = self.subject.description.wishes.as_ref();
        let has_owner = owner.is_some();
        layers.extend(owner);
        layers.extend(operator);
        match wishes {
            Some(wishes) => {
                for wish in &wishes.paths {
                    granted(wish, &layers, &dangerous)?;
                }
                layers.insert(0, wished(wishes));
            }
            None if has_owner => {}
            None => layers.insert(
                0,
                Layer {
                    patterns: Vec::new(),
                    origin: format!(
                        "wishes.paths in its description, or allow.paths of {},",
                        self.hook_yaml()
                    ),
                },
            ),
        }
        // Everything short of the dangerous set, which no wildcard matches.
        let mut short_of_danger = dangerous;
        short_of_danger
            .patterns
            .extend(PathPattern::parse("/domain/**"));
        layers.push(short_of_danger);
        Ok(Grant::new(layers))
    }

    fn dangerous(&self) -> Layer {
        let lists = self
            .allows
            .iter()
            .filter_map(|allow| allow.dangerous.as_ref());
        let patterns: Vec<PathPattern> = lists
            .flat_map(|list| list.get().iter().map(|pattern| pattern.get().0.clone()))
            .collect();
        let origin = match self.operator {
            Some(operator) => {
                let list = self
                    .allows
                    .iter()
                    .find_map(|allow| allow.dangerous.as_ref());
                let place = list.map_or_else(
                    || operator.path.display().to_string(),
                    |list| operator.at(list.place()),
                );
                format!("allow.dangerous of the operator's policy ({place})")
            }
            None => "allow.dangerous of the operator's policy (there is none)".to_owned(),
        };
        Layer { patterns, origin }
    }

    fn cap<T>(
        &self,
        name: &str,
        list: impl Fn(&'a Allow) -> Option<&'a At<Vec<T>>>,
    ) -> Option<Cap<'a, T>> {
        let operator = self.operator?;
        let mut values = Vec::new();
        let mut places = Vec::new();
        for allow in &self.allows {
            let list = list(allow)?;
            values.extend(list.get());
            places.push(operator.at(list.place()));
        }
        let origin = format!("{name} of {}", places.join(" or "));
        (!places.is_empty()).then_some(Cap { values, origin })
    }

    fn hook_yaml(&self) -> String {
        self.yaml.map_or_else(
            || "a hook.yaml beside the module (there is none)".to_owned(),
            |yaml| yaml.path.display().to_string(),
        )
    }
}

impl<T> Cap<'_, T> {
    fn refuses(&self, what: &'static str, wish: &str) -> SettleError {
        SettleError::NotGranted {
            what,
            wish: wish.to_owned(),
            origin: self.origin.clone(),
        }
    }
}

impl Cap<'_, At<Pattern>> {
    fn layer(self) -> Layer {
        Layer {
            patterns: self.values.iter().map(|p| p.get().0.clone()).collect(),
            origin: self.origin,
        }
    }
}

fn at(yaml: &HookYaml, place: Place) -> String {
    format!("{}:{}:{}", yaml.path.display(), place.line, place.column)
}

fn layer(patterns: &[At<Pattern>], origin: String) -> Layer {
    Layer {
        patterns: patterns.iter().map(|p| p.get().0.clone()).collect(),
        origin,
    }
}

fn wished(wishes: &Wishes) -> Layer {
    Layer {
        patterns: wishes.paths.clone(),
        origin: "wishes.paths in the module's description".to_owned(),
    }
}

/// A wish is granted when something of it is allowed everywhere: to narrow it is everyone's right,
/// to leave nothing of it is a mistake that shows now rather than at boot.
fn granted(wish: &PathPattern, layers: &[Layer], dangerous: &Layer) -> Result<(), SettleError> {
    let overlaps = |layer: &Layer| {
        let mut patterns = layer.patterns.iter();
        patterns.any(|pattern| covers(pattern, wish) || covers(wish, pattern))
    };
    let needed = names_dangerous(wish).then_some(dangerous);
    match layers.iter().chain(needed).find(|layer| !overlaps(layer)) {
        None => Ok(()),
        Some(layer) => Err(SettleError::NotGranted {
            what: "path",
            wish: wish.as_str().to_owned(),
            origin: layer.origin.clone(),
        }),
    }
}

/// What of a directory is left by all that cap it.
fn narrowed(wish: &Path, layers: &[Cap<'_, PathBuf>]) -> Result<Vec<PathBuf>, SettleError> {
    let mut left = vec![wish.to_path_buf()];
    for layer in layers {
        let mut next = Vec::new();
        for dir in &left {
            for allowed in &layer.values {
                if dir.starts_with(allowed) {
                    next.push(dir.clone());
                } else if allowed.starts_with(dir) {
                    next.push((*allowed).clone());
                }
            }
        }
        if next.is_empty() {
            return Err(layer.refuses("directory", &wish.display().to_string()));
        }
        next.sort();
        next.dedup();
        left = next;
    }
    Ok(left)
}
