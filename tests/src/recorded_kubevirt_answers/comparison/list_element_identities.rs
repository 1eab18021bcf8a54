//! The identities by which the elements of two lists are matched.

use std::collections::BTreeSet;

use serde_json::Value;

/// The identities of the elements of both lists: the first field that is different in all elements of each list, else
/// the indices.
pub(super) fn identities(recorded: &[Value], ours: &[Value]) -> (Vec<String>, Vec<String>) {
    const FIELDS: [&[&str]; 7] = [
        &["/Alias/Name"],
        &["/Target/Device"],
        &["/Name"],
        &["/name"],
        &["/diskName"],
        &["/ID"],
        &["/Type", "/Index"],
    ];
    let identities_by = |fields: &[&str], list: &[Value]| -> Option<Vec<String>> {
        let text = |element: &Value| {
            let parts = fields.iter().map(|field| match element.pointer(field)? {
                Value::String(text) => Some(text.replace('.', "_")),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            });
            Some(parts.collect::<Option<Vec<_>>>()?.join("-"))
        };
        let names: Vec<String> = list.iter().map(text).collect::<Option<_>>()?;
        let distinct: BTreeSet<_> = names.iter().collect();
        (distinct.len() == names.len()).then_some(names)
    };
    let by_field = FIELDS
        .into_iter()
        .find_map(|fields| identities_by(fields, recorded).zip(identities_by(fields, ours)));
    let indices = |list: &[Value]| (0..list.len()).map(|index| index.to_string()).collect();
    by_field.unwrap_or_else(|| (indices(recorded), indices(ours)))
}
