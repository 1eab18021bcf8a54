//! The known name that a misspelt one resembles.

/// From this similarity on, of 1, a known name is suggested.
const SIMILAR: f64 = 0.8;

/// The most similar of the known names, if it is similar enough.
pub(super) fn similar<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let rated = known.map(|known| {
        let rating = strsim::jaro_winkler(&lower, &known.to_lowercase());
        (rating, known)
    });
    let best = rated.max_by(|one, other| one.0.total_cmp(&other.0).then(other.1.cmp(one.1)));
    best.filter(|(rating, _)| *rating >= SIMILAR)
        .map(|(_, known)| known)
}
