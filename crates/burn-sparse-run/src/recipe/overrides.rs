use toml::{Table, Value};

use super::RecipeError;

/// Applies `key=value` overrides to a recipe's text; `prune.KEY` sets the key in every `[[prune]]` table.
pub(crate) fn apply(text: &str, sets: &[String]) -> Result<String, RecipeError> {
    let mut table: Table =
        toml::from_str(text).map_err(|error| RecipeError::from_toml(&error, text))?;
    for set in sets {
        let malformed = || RecipeError::Override { text: set.clone() };
        let (key, value) = set.split_once('=').ok_or_else(malformed)?;
        let path: Vec<&str> = key.trim().split('.').collect();
        if path.iter().any(|part| part.is_empty()) {
            return Err(malformed());
        }
        let through = || {
            let reason =
                format!("--set {set} leads through a plain value: set that one as a whole");
            RecipeError::value(key.trim(), reason)
        };
        if put(&mut table, &path, &parse(value.trim())).ok_or_else(through)? == 0 {
            let reason = format!("is empty, so --set {set} changes nothing");
            return Err(RecipeError::value(path[0], reason));
        }
    }
    Ok(table.to_string())
}

/// Parses a TOML value. Other text is a string, so that quotes need not survive a shell.
fn parse(text: &str) -> Value {
    let document = format!("value = {text}");
    let parsed = toml::from_str::<Table>(&document).ok();
    parsed.and_then(|mut table| table.remove("value")).unwrap_or_else(|| Value::String(text.into()))
}

/// Sets a key in a table, or in all tables of an array, and returns in how many; `None` if the path leads through another value.
fn put(table: &mut Table, path: &[&str], value: &Value) -> Option<usize> {
    let (first, rest) = path.split_first()?;
    if rest.is_empty() {
        table.insert((*first).into(), value.clone());
        return Some(1);
    }
    match table.entry(*first).or_insert_with(|| Value::Table(Table::new())) {
        Value::Table(inner) => put(inner, rest, value),
        Value::Array(tables) => tables.iter_mut().try_fold(0, |count, inner| match inner {
            Value::Table(inner) => Some(count + put(inner, rest, value)?),
            _ => None,
        }),
        _ => None,
    }
}
