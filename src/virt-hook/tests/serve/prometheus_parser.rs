//! A strict parser of Prometheus' text format 0.0.4, which refuses what promtool and the scraper refuse.

use std::collections::{BTreeMap, BTreeSet};

/// The labels of a sample.
pub(crate) type Labels = BTreeMap<String, String>;

/// Samples by name and labels.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    pub(crate) samples: BTreeMap<(String, Labels), f64>,
    types: BTreeMap<String, String>,
}

impl Exposition {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parsed = Self::default();
        let (mut metric, mut names_with_help) = (String::new(), BTreeSet::new());
        if !text.ends_with('\n') {
            return Err("the last line has no end".into());
        }
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let name = help.split(' ').next().unwrap_or_default();
                if !names_with_help.insert(name.to_owned()) {
                    return Err(format!("{name} has two HELP lines"));
                }
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').ok_or(line)?;
                if !["counter", "gauge", "histogram"].contains(&kind) {
                    return Err(format!("{line}: unknown type"));
                }
                if parsed
                    .types
                    .insert(name.to_owned(), kind.to_owned())
                    .is_some()
                {
                    return Err(format!(
                        "{name} has two TYPE lines, or its samples are apart"
                    ));
                }
                name.clone_into(&mut metric);
            } else {
                parsed.add(line, &metric)?;
            }
        }
        parsed.check_histograms()?;
        Ok(parsed)
    }

    /// The value of a sample with exactly these labels.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.samples
            .get(&(name.to_owned(), labels.collect()))
            .copied()
    }

    fn add(&mut self, line: &str, metric: &str) -> Result<(), String> {
        let (name, rest) = line.split_once('{').ok_or(format!("{line}: no labels"))?;
        let kind = self.types.get(metric).map_or("", String::as_str);
        let suffix = name
            .strip_prefix(metric)
            .ok_or(format!("{line}: not of {metric}"))?;
        let fits = match kind {
            "histogram" => ["_bucket", "_sum", "_count"].contains(&suffix),
            "counter" => suffix.is_empty() && name.ends_with("_total"),
            _ => suffix.is_empty(),
        };
        if !fits || !is_name(name) {
            return Err(format!("{line}: not of the {kind} {metric}"));
        }
        let (labels, value) = labels(rest).ok_or(format!("{line}: labels"))?;
        let value: f64 = value.parse().map_err(|_| format!("{line}: {value:?}"))?;
        match self.samples.insert((name.to_owned(), labels), value) {
            Some(_) => Err(format!("{line}: twice")),
            None => Ok(()),
        }
    }

    /// Checks that the values of buckets grow with their bounds, and that the last bucket equals the count.
    fn check_histograms(&self) -> Result<(), String> {
        let mut series: BTreeMap<(String, Labels), Vec<(f64, f64)>> = BTreeMap::new();
        for ((name, labels), value) in &self.samples {
            let Some(metric) = name.strip_suffix("_bucket") else {
                continue;
            };
            let mut labels = labels.clone();
            let bound = labels.remove("le").ok_or(format!("{name} without le"))?;
            let bound = bound.replace("+Inf", "inf").parse().map_err(|_| bound)?;
            let buckets = series.entry((metric.to_owned(), labels)).or_default();
            buckets.push((bound, *value));
        }
        for ((metric, labels), mut buckets) in series {
            buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
            let count = self
                .samples
                .get(&(format!("{metric}_count"), labels.clone()));
            let last = buckets.last().copied();
            if !buckets.is_sorted_by(|a, b| a.1 <= b.1)
                || last.map(|(bound, _)| bound) != Some(f64::INFINITY)
                || last.map(|(_, calls)| calls).as_ref() != count
                || !self
                    .samples
                    .contains_key(&(format!("{metric}_sum"), labels))
            {
                return Err(format!("{metric}: {buckets:?}, count {count:?}"));
            }
        }
        Ok(())
    }
}

/// Whether a name is valid for a metric or label.
fn is_name(name: &str) -> bool {
    let mut characters = name.chars();
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    characters.next().is_some_and(first) && characters.all(|c| first(c) || c.is_ascii_digit())
}

/// Parses `a="b",c="d"} 1`, the text after the opening brace.
fn labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut labels = Labels::new();
    loop {
        let (name, after) = rest.split_once("=\"")?;
        let (mut value, mut end, mut characters) = (String::new(), None, after.char_indices());
        while let Some((at, c)) = characters.next() {
            match c {
                '"' => {
                    end = Some(at);
                    break;
                }
                '\\' => value.push(match characters.next()?.1 {
                    'n' => '\n',
                    c @ ('\\' | '"') => c,
                    _ => return None,
                }),
                c => value.push(c),
            }
        }
        if !is_name(name) || labels.insert(name.to_owned(), value).is_some() {
            return None;
        }
        let after = &after[end? + 1..];
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None => return Some((labels, after.strip_prefix("} ")?)),
        }
    }
}

#[test]
fn text_that_promtool_refuses_is_refused() {
    let head = "# HELP a_total x\n# TYPE a_total counter\n";
    Exposition::parse(&format!("{head}a_total{{b=\"c\\n\\\"d\\\\\"}} 1\n")).unwrap();
    for wrong in [
        "a_total{b=\"c\"} 1\n".to_owned(),
        format!("{head}a_total{{b=\"c\"}} 1"),
        format!("{head}a_total{{b=\"c\"}} one\n"),
        format!("{head}a_total{{b=\"c\\x\"}} 1\n"),
        format!("{head}a_total{{b=\"c}} 1\n"),
        format!("{head}a_total{{b=\"c\"}} 1\na_total{{b=\"c\"}} 2\n"),
        format!("{head}b_total{{b=\"c\"}} 1\n"),
        "# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\na_sum{} 1\n".to_owned(),
    ] {
        assert!(Exposition::parse(&wrong).is_err(), "{wrong}");
    }
}
