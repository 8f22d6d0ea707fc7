use std::collections::BTreeMap;

/// Lists names for an error message: names that differ only in numbers become one glob, such as `layers.*.query.weight`.
pub(crate) fn listed(names: &[&str]) -> String {
    let mut alike: BTreeMap<String, usize> = BTreeMap::new();
    for name in names {
        *alike.entry(glob(name)).or_default() += 1;
    }
    let mut listed: Vec<String> = Vec::new();
    for name in names {
        let glob = glob(name);
        let entry = if alike[&glob] > 1 { glob } else { (*name).into() };
        if !listed.contains(&entry) {
            listed.push(entry);
        }
    }
    if listed.is_empty() { "none".into() } else { listed.join(", ") }
}

/// Returns the name with a star for every number.
fn glob(name: &str) -> String {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = name.split('.').map(|part| if is_number(part) { "*" } else { part });
    parts.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_numbers_only_are_listed_once() {
        assert_eq!(listed(&[]), "none");
        let names = ["word.weight", "layers.0.q.weight", "layers.0.k", "layers.1.q.weight", "fc.0"];
        assert_eq!(listed(&names), "word.weight, layers.*.q.weight, layers.0.k, fc.0");
    }
}
