use std::path::PathBuf;
use std::time::Instant;

use burn::tensor::Device;
use burn_sparse::prune::{Plan, Score};
use burn_sparse::train::{Compute, Scorer};
use burn_sparse_run::recipe::Recipe;
use burn_sparse_run::{Task, TaskVisitor, with_task};
use clap::Args;

use super::{Failure, recipe};
use crate::output;
use crate::recipes;

#[derive(Debug, Args)]
#[command(after_help = recipes::list())]
pub(crate) struct PlanArguments {
    /// The recipe: a file, a built-in name such as mnist-mlp-shfl-bw, or a checkpoint that carries one. Default: quickstart.
    pub(crate) recipe: Option<PathBuf>,
    /// Set a key of the recipe, as in prune.sparsity=0.9.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn plan(arguments: &PlanArguments) -> Result<(), Failure> {
    let recipe = recipe(arguments.recipe.as_deref(), &arguments.sets)?;
    let (plan, seconds) = with_task(&recipe, Make { recipe: &recipe })??;
    if arguments.json {
        let mut json = serde_json::to_value(&plan)?;
        json["task"] = recipe.task.as_str().into();
        json["compute"] = serde_json::to_value(recipe.train.compute)?;
        json["mask_update_seconds"] = seconds.into();
        return output::json(&json);
    }
    output::text(&format!("plan for task {}, seed {}\n{plan}", recipe.task, recipe.seed))?;
    if recipe.train.compute == Compute::Packed {
        output::text(&packed(&plan))?;
    }
    output::text(&format!("one mask update costs {seconds:.3} s here"))
}

/// Describes when training computes with kept values only.
fn packed(plan: &Plan) -> String {
    let along = plan.weights.iter().filter(|w| w.drops_for_good(w.score.needs_gradient())).count();
    let ramps = match along {
        0 => String::new(),
        _ => format!(", {along} of {} weights along their ramps too", plan.weights.len()),
    };
    format!("layers train on kept values from step {} on, where that is faster{ramps}", plan.end())
}

struct Make<'a> {
    recipe: &'a Recipe,
}

impl TaskVisitor for Make<'_> {
    type Output = Result<(Plan, f64), Failure>;

    fn visit<T: Task>(self, task: T) -> Self::Output {
        task.check(self.recipe)?;
        let device = Device::flex();
        device.seed(self.recipe.seed);
        let model = task.pretrained(&device)?;
        let steps_per_epoch = task.train_len().div_ceil(self.recipe.train.batch_size);
        let plan = self.recipe.plan(&model, steps_per_epoch)?;
        // Measures the cost of an update: all masks at once, from a cold start, without a gradient to rank by.
        let mut at_once = plan.clone();
        for weight in &mut at_once.weights {
            (weight.schedule.start, weight.schedule.end) = (0, 0);
            weight.score = Score::Magnitude;
        }
        let started = Instant::now();
        at_once.attach(model)?;
        Ok((plan, started.elapsed().as_secs_f64()))
    }
}
