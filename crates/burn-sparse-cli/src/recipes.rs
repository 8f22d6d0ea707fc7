//! Recipes that are built into the command, so that an installed command needs no clone.

use std::path::Path;

/// Includes the recipes of the repository, by file stem.
macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../recipes/", $name, ".toml")))),*]
    };
}

const BUILT_IN: [(&str, &str); 13] = built_in!(
    "quickstart",
    "mnist-mlp-unstructured",
    "mnist-mlp-balanced",
    "mnist-mlp-shfl-bw",
    "cifar10-convnet-shfl-bw",
    "cifar10-resnet-shfl-bw",
    "cifar10-vgg-shfl-bw",
    "lstm-lm-balanced",
    "minilm-sts-dense",
    "minilm-sts-balanced",
    "minilm-sts-shfl-bw",
    "smollm2-balanced",
    "translation-shfl-bw",
);

/// Recipe that runs by default.
pub(crate) const DEFAULT: &str = "quickstart";

/// Returns the text of the built-in recipe of this name.
pub(crate) fn named(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Lists the built-in recipes, for help texts.
pub(crate) fn list() -> String {
    let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
    format!("Built-in recipes: {}", names.join(", "))
}

/// Names the built-in recipes, for the error about a file that does not exist.
pub(crate) fn hint(missing: &Path) -> String {
    match missing.file_stem().and_then(|stem| stem.to_str()) {
        Some(stem) if named(stem).is_some() => {
            format!("no such file; the built-in recipe is named without a path: {stem}")
        }
        _ => {
            let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
            format!("no such file, and no built-in recipe; those are {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_of_the_repository_is_built_in() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../recipes");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let recipes = files.filter(|path| path.extension().is_some_and(|end| end == "toml"));
        let mut found = 0;
        for path in recipes {
            let stem = path.file_stem().unwrap().to_str().unwrap();
            assert!(named(stem).is_some(), "{stem} is not built in");
            found += 1;
        }
        assert_eq!(found, BUILT_IN.len());
    }
}
