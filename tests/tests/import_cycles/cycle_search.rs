//! Cycles between siblings in the graph of modules.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::modules::Modules;

/// Siblings that depend on each other.
#[derive(Debug)]
pub(crate) struct Cycle {
    /// The parent module of the siblings; empty for the crate's root.
    pub(crate) parent: String,
    pub(crate) members: Vec<String>,
    /// An example of each dependency between two members.
    edges: Vec<String>,
}

impl fmt::Display for Cycle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parent = if self.parent.is_empty() {
            "the root"
        } else {
            &self.parent
        };
        write!(formatter, "in {parent}: {}", self.members.join(", "))?;
        self.edges
            .iter()
            .try_for_each(|edge| write!(formatter, "\n    {edge}"))
    }
}

type Edges = BTreeMap<String, BTreeMap<String, String>>;

/// All cycles: the strongly connected components of each module's children.
pub(crate) fn cycles(modules: &Modules) -> Vec<Cycle> {
    let mut edges_by_parent: BTreeMap<Vec<String>, Edges> = BTreeMap::new();
    for (from, to) in modules.dependencies() {
        let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
        if let (Some(a), Some(b)) = (from.get(shared), to.get(shared)) {
            let edges = edges_by_parent.entry(from[..shared].to_vec()).or_default();
            let example = format!("{} uses {}", from.join("::"), to.join("::"));
            edges
                .entry(a.clone())
                .or_default()
                .insert(b.clone(), example);
        }
    }
    let of_parent =
        |(parent, edges): (Vec<String>, Edges)| strongly_connected(&parent.join("::"), &edges);
    edges_by_parent.into_iter().flat_map(of_parent).collect()
}

fn strongly_connected(parent: &str, edges: &Edges) -> Vec<Cycle> {
    let reached: BTreeMap<&String, BTreeSet<&String>> = edges
        .keys()
        .map(|name| (name, reachable(name, edges)))
        .collect();
    let mut cycles: Vec<Cycle> = Vec::new();
    for (name, targets) in &reached {
        let is_reported = cycles.iter().any(|cycle| cycle.members.contains(name));
        if is_reported || !targets.contains(name) {
            continue;
        }
        let reaches_name =
            |other: &&&String| reached.get(**other).is_some_and(|all| all.contains(name));
        let members: Vec<String> = targets
            .iter()
            .filter(reaches_name)
            .map(|name| (*name).clone())
            .collect();
        let internal_edges = members.iter().flat_map(|from| &edges[from]);
        let internal_edges = internal_edges.filter(|(to, _)| members.contains(to));
        cycles.push(Cycle {
            parent: parent.to_owned(),
            edges: internal_edges.map(|(_, example)| example.clone()).collect(),
            members,
        });
    }
    cycles
}

/// All siblings that a module depends on, directly or indirectly.
fn reachable<'a>(name: &'a String, edges: &'a Edges) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut to_visit = vec![name];
    while let Some(next) = to_visit.pop() {
        let targets = edges.get(next).into_iter().flat_map(BTreeMap::keys);
        to_visit.extend(targets.filter(|target| reached.insert(*target)));
    }
    reached
}
