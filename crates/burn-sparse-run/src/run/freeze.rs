use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::Tensor;
use globset::{Glob, GlobMatcher};

use crate::recipe::RecipeError;

/// Excludes the parameters whose paths match one of the globs from training: they have neither gradients nor optimizer state.
///
/// # Errors
/// Returns an error when a glob is malformed or matches nothing, or all parameters match.
pub(super) fn freeze<M: Module>(model: M, globs: &[String]) -> Result<M, RecipeError> {
    let fail = |reason: String| RecipeError::value("train.freeze", reason);
    let one = |text: &String| match Glob::new(text) {
        Ok(glob) => Ok((glob.compile_matcher(), false)),
        Err(error) => Err(fail(error.to_string())),
    };
    let globs = globs.iter().map(one).collect::<Result<_, _>>()?;
    let mut freeze = Freeze { globs, trained: 0, path: Vec::new() };
    let model = model.map(&mut freeze);
    match freeze.globs.iter().find(|(_, matched)| !matched) {
        Some((glob, _)) => Err(fail(format!("`{}` matches no parameter", glob.glob()))),
        None if freeze.trained == 0 => Err(fail("leaves no parameter to train".into())),
        None => Ok(model),
    }
}

struct Freeze {
    /// Globs, and whether each has matched.
    globs: Vec<(GlobMatcher, bool)>,
    /// Number of parameters that match none of them.
    trained: usize,
    path: Vec<String>,
}

impl ModuleMapper for Freeze {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.into());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.path.join(".");
        let mut frozen = false;
        for (glob, matched) in &mut self.globs {
            if glob.is_match(&name) {
                (frozen, *matched) = (true, true);
            }
        }
        // Running statistics of a batch norm are not trained, whatever the globs say.
        self.trained += usize::from(!frozen && !is_statistic(&name));
        if frozen { param.set_require_grad(false) } else { param }
    }
}

fn is_statistic(name: &str) -> bool {
    ["running_mean", "running_var"].iter().any(|last| name.rsplit('.').next() == Some(last))
}

#[cfg(test)]
mod tests {
    use burn::module::ModuleVisitor;
    use burn::tensor::Device;
    use burn_sparse_models::MlpConfig;

    use super::*;

    #[derive(Default)]
    struct Trained(Vec<bool>);

    impl ModuleVisitor for Trained {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.push(param.val().is_require_grad());
        }
    }

    #[test]
    fn frozen_parameters_are_not_trained_and_a_glob_without_any_is_refused() {
        let model = || MlpConfig::new(4, 3, 2).init(&Device::flex().autodiff());
        let frozen = |globs: &[&str]| {
            let globs: Vec<String> = globs.iter().map(|&glob| glob.into()).collect();
            freeze(model(), &globs)
        };
        let mut trained = Trained::default();
        frozen(&["head.*"]).unwrap().visit(&mut trained);
        assert_eq!(trained.0.iter().filter(|&&trained| !trained).count(), 2);
        for (glob, expected) in [("tail.*", "matches no parameter"), ("a[", "train.freeze")] {
            let error = frozen(&["head.*", glob]).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let error = frozen(&["*"]).unwrap_err().to_string();
        assert!(error.contains("leaves no parameter to train"), "{error}");
    }

    #[test]
    fn running_statistics_are_no_parameters_to_train() {
        let model = burn::nn::BatchNormConfig::new(4).init(&Device::flex().autodiff());
        let globs: Vec<String> = ["gamma", "beta"].map(String::from).into();
        let error = freeze(model, &globs).unwrap_err().to_string();
        assert!(error.contains("leaves no parameter to train"), "{error}");
    }
}
