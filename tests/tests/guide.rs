//! Tests of the guide and the README: the recipes that they print are valid.

use burn::tensor::Device;
use burn_sparse_run::recipe::Recipe;
use burn_sparse_run::{Task, TaskVisitor, with_task};

/// Plans a recipe for the model of its task, which refuses selectors that match nothing.
struct Planned<'a>(&'a Recipe);

impl TaskVisitor for Planned<'_> {
    type Output = ();

    fn visit<T: Task>(self, task: T) {
        let model = task.model(&Device::flex());
        let plan = self.0.plan(&model, 100).unwrap_or_else(|error| panic!("{error}"));
        assert!(plan.sparsity() > 0.7);
    }
}

/// Returns the TOML blocks of a page.
fn toml_blocks(page: &str) -> Vec<&str> {
    let mut blocks = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find("```toml\n") {
        rest = &rest[start + 8..];
        let end = rest.find("```").expect("an open block");
        blocks.push(&rest[..end]);
        rest = &rest[end..];
    }
    blocks
}

#[test]
fn every_recipe_of_the_guide_is_valid() {
    let page = include_str!("../../crates/burn-sparse/src/guide/recipes.md");
    let recipes: Vec<&str> =
        toml_blocks(page).into_iter().filter(|block| block.contains("version = 1")).collect();
    assert_eq!(recipes.len(), 2);
    for recipe in recipes {
        let recipe: Recipe = recipe.parse().unwrap_or_else(|error| panic!("{error}\n{recipe}"));
        with_task(&recipe, Planned(&recipe)).unwrap();
    }
}

#[test]
fn every_method_of_the_guide_is_a_valid_key() {
    let page = include_str!("../../crates/burn-sparse/src/guide/recipes.md");
    let (_, table) = page.split_once("| method | keys |").unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let base = "version = 1\ntask = \"mnist-mlp\"\n[[prune]]\npattern = \"unstructured\"\n\
                sparsity = 0.75\nend = \"1 epochs\"\n";
    let mut tried = 0;
    for row in rows {
        let sets: Vec<String> = row
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|code| code.contains(" = ") && !code.contains("keep_zeros"))
            .map(|code| {
                let (key, value) = code.split_once(" = ").unwrap();
                let table = if key.contains('.') { "" } else { "prune." };
                format!("{table}{key}={value}")
            })
            .collect();
        tried += sets.len();
        Recipe::parse_with(base, &sets).unwrap_or_else(|error| panic!("{sets:?}: {error}"));
    }
    assert!(tried >= 8, "{tried}");
}
