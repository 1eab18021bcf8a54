//! Reads `edits.jsonl`.

use serde_json::Value;

/// What is decided about an edit.
pub(crate) enum Verdict {
    /// It is refused, and the error contains this: the path, or the message.
    Refused(String),
    Permitted,
}

/// A line of the file.
pub(crate) struct Edit {
    pub(crate) name: String,
    /// The edited domain; `None` if it is in UTF-16.
    pub(crate) answer: Option<String>,
    pub(crate) verdict: Verdict,
}

/// All edits of a domain.
pub(crate) fn edits(base: &str) -> Vec<Edit> {
    let lines = include_str!("edits.jsonl").lines();
    let edits: Vec<Edit> = lines
        .map(|line| edit(base, &serde_json::from_str(line).unwrap()))
        .collect();
    assert!(edits.len() > 200);
    edits
}

fn edit(base: &str, line: &Value) -> Edit {
    let name = line["name"].as_str().unwrap().to_owned();
    let mut answer = Some(base.to_owned());
    for step in line["edits"].as_array().unwrap() {
        let text = |index: usize| step[index].as_str().unwrap();
        answer = answer.and_then(|xml| match text(0) {
            "replace" => {
                let count = step
                    .get(3)
                    .map_or(usize::MAX, |n| n.as_u64().unwrap() as usize);
                assert!(xml.contains(text(1)), "{name}: {}", text(1));
                Some(xml.replacen(text(1), text(2), count))
            }
            "prefix" => Some(text(1).to_owned() + &xml),
            "encode" => None,
            other => panic!("{name}: {other}"),
        });
    }
    let verdict = match (line["refused"].as_str(), line["permitted"].as_str()) {
        (Some(place), None) => Verdict::Refused(place.to_owned()),
        (None, Some(reason)) if !reason.is_empty() => Verdict::Permitted,
        _ => panic!("{name}: either `refused` with the place, or `permitted` with the reason"),
    };
    Edit {
        name,
        answer,
        verdict,
    }
}
