//! Recipes that do not fit a pretrained model, refused before anything is written.

use burn_sparse_run::recipe::Recipe;
use burn_sparse_tests::pretrained::LLAMA;
use burn_sparse_tests::pretrained_run::{EMBEDDING, LANGUAGE, Place};

#[test]
fn recipes_that_do_not_fit_their_pretrained_model_are_refused_before_anything_is_written() {
    let place = Place::new(LLAMA);
    let refused = |recipe: &Recipe| {
        let error = place.train(recipe, "refused", 1).unwrap_err();
        assert!(!place.run("refused").is_begun(), "{error}");
        error
    };
    let elsewhere = place.recipe(LANGUAGE, &["model=/no/such/folder"]);
    assert!(refused(&elsewhere).contains("there is no folder /no/such/folder"));
    let error = refused(&place.recipe(EMBEDDING, &[]));
    assert!(error.contains("not a model for task sentence-embedding"), "{error}");
    let error = refused(&Recipe { model: None, ..place.recipe(LANGUAGE, &[]) });
    assert!(error.contains("`model`"), "{error}");
    for (sets, hint) in [
        (&["data.text=nothing.txt"][..], "nothing.txt"),
        (&["data.context=9", "data.test=short.txt"], "short.txt"),
        (&["data.context=11"], "data.context"),
        (&["data.length=11"], "data.length"),
        (&["train.freeze=[\"no.*\"]"], "train.freeze"),
    ] {
        let error = refused(&place.recipe(LANGUAGE, sets));
        assert!(error.contains(hint), "{hint}: {error}");
    }
    let error = refused(&place.recipe(LANGUAGE, &["width=0.5"]));
    assert!(error.contains("`width`") && error.contains("width of its own"), "{error}");
    let text = "version = 1\ntask = \"glyphs-mlp\"\n";
    for (keys, hint) in [
        ("model = \"x\"", "`model`"),
        ("[data]\nsamples = 3", "`data`"),
        ("[train]\ndense_epochs = 1\ndistill = { weight = 1, layers = 1 }", "distill.layers"),
    ] {
        let error = refused(&format!("{text}{keys}").parse().unwrap());
        assert!(error.contains(hint), "{hint}: {error}");
    }
    for keys in [
        "[data]\nlength = 1",
        "[train]\nclip = 0",
        "[train]\nwarmup = 1",
        "[train]\nmicro_batch = 0",
        "width = 0",
        "width = 1.5",
        "width = nan",
    ] {
        assert!(format!("{text}{keys}").parse::<Recipe>().is_err(), "{keys}");
    }
}

#[test]
fn a_calibrated_recipe_has_no_ramp() {
    let place = Place::new(LLAMA);
    let recipe = place.recipe(&format!("{LANGUAGE}\n[calibrate]"), &[]);
    let error = place.train(&recipe, "run", usize::MAX).unwrap_err();
    assert!(error.contains("remove the ramp"), "{error}");
    for (key, reason) in [("samples=0", "calibrate.samples"), ("toward_dense=2.0", "toward_dense")]
    {
        let text = format!("version = 1\ntask = \"glyphs-mlp\"\n[calibrate]\n{key}\n");
        let error = text.parse::<Recipe>().unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}
