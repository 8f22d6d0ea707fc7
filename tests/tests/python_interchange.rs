//! Weights exported to and imported from Python compute the same results.
//!
//! Needs a Python with numpy and safetensors: `PYTHON=… cargo test --test python_interchange -- --ignored`
//! (`.ci/run` makes one).

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use burn::tensor::{Device, Tensor, TensorData};
use burn_sparse::checkpoint::{Checkpoint, Format};
use burn_sparse::pattern::Pattern;
use burn_sparse::prune::PruneConfig;
use burn_sparse_models::Mlp;
use burn_sparse_models::huggingface::{BertEmbedder, CausalLm, Folder, TokenBatch, Weights};
use burn_sparse_run::pretrained::{Output, prune_folder};
use burn_sparse_run::recipe::Recipe;
use burn_sparse_run::{ImageTask, Task};
use burn_sparse_tests::pretrained::{BERT, LLAMA, bert_tensors, folder, llama_tensors, shard};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

fn python(what: &str, folder: &Path) {
    script("interchange.py", &[what.as_ref(), folder.as_os_str()]);
}

fn script(name: &str, arguments: &[&OsStr]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python").join(name);
    let python = std::env::var("PYTHON").unwrap_or("python3".into());
    let done = Command::new(python).arg(script).args(arguments).status().unwrap();
    assert!(done.success(), "{name} {arguments:?}");
}

fn tensor(file: &Path, name: &str, device: &Device) -> Tensor<2> {
    let bytes = std::fs::read(file).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let found = tensors.tensor(name).unwrap();
    let word = |b: &[u8]| f32::from_le_bytes(b.try_into().unwrap());
    let values: Vec<f32> = found.data().chunks_exact(4).map(word).collect();
    Tensor::from_data(TensorData::new(values, found.shape().to_vec()), device)
}

fn difference(a: Tensor<2>, b: Tensor<2>) -> f32 {
    let scale = b.clone().abs().max().into_scalar::<f32>().max(1.0);
    (a - b).abs().max().into_scalar::<f32>() / scale
}

fn model(device: &Device) -> Mlp {
    device.seed(0);
    ImageTask::glyphs().model(device)
}

#[test]
#[ignore = "needs Python"]
fn what_python_saved_computes_the_same_here() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    python("write", folder);
    let device = Device::flex();
    let expected = folder.join("expected.safetensors");
    let [x, y] = ["x", "y"].map(|name| tensor(&expected, name, &device));
    let renames = ["net.0=fc1", "net.2=fc2", "net.4=head"].map(|text| text.parse().unwrap());
    let file = folder.join("pytorch.safetensors");
    let imported = Checkpoint::import(file, &model(&device), &renames).unwrap();
    let dense = imported.load_dense(model(&device)).unwrap();
    assert!(difference(dense.forward(x.clone()), y.clone()) < 1e-5);

    let file = folder.join("bitmask.safetensors");
    let imported = Checkpoint::import(file, &model(&device), &[]).unwrap();
    assert_eq!(imported.packed().count(), 2);
    assert!((imported.sparsity() - 0.7).abs() < 0.01);
    for model in [imported.load_dense(model(&device)), imported.load(model(&device))] {
        assert!(difference(model.unwrap().forward(x.clone()), y.clone()) < 1e-5);
    }
}

#[test]
#[ignore = "needs Python"]
fn what_is_exported_computes_the_same_in_python() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let device = Device::flex();
    let recipe = "version = 1\ntask = \"glyphs-mlp\"\n[[prune]]\nexcept = [\"head.*\"]\n\
                  sparsity = 0.75\npattern = { kind = \"shfl-bw\", vector = 32 }\nend = \"0 steps\"\n";
    let training = Device::flex().autodiff();
    let plan = recipe.parse::<Recipe>().unwrap().plan(&model(&training), 1).unwrap();
    let pruned = plan.attach(model(&training)).unwrap().finish().unwrap();
    let checkpoint = pruned.checkpoint();
    for (name, format) in [
        ("packed", Format::Packed),
        ("dense", Format::DensePyTorch),
        ("exported-bitmask", Format::SparseBitmask),
    ] {
        checkpoint.write(folder.join(format!("{name}.safetensors")), format).unwrap();
    }
    // Outputs of our packed layers for some input.
    let packed = checkpoint.load(model(&device)).unwrap();
    let x: Vec<f32> = (0..3 * 784).map(|i| (i * 7919 % 1009) as f32 / 504.5 - 1.0).collect();
    let input = Tensor::<2>::from_data(TensorData::new(x.clone(), [3, 784]), &device);
    let y: Vec<f32> = packed.forward(input).into_data().try_into_vec().unwrap();
    let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let (x, y) = (bytes(&x), bytes(&y));
    let views = [
        ("x", TensorView::new(Dtype::F32, vec![3, 784], &x).unwrap()),
        ("y", TensorView::new(Dtype::F32, vec![3, 10], &y).unwrap()),
    ];
    let computed = safetensors::serialize(views, None).unwrap();
    std::fs::write(folder.join("computed.safetensors"), computed).unwrap();
    python("check", folder);
}

#[test]
#[ignore = "needs Python"]
fn a_reader_made_from_the_specification_reads_the_golden_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    python("golden", &root.join("../crates/burn-sparse-pattern/tests/golden"));
}

#[test]
#[ignore = "needs Python"]
fn exported_hugging_face_folders_compute_in_numpy_what_our_packed_models_do() {
    let tokens = [1_u32, 3, 2, 5, 4, 1, 0];
    for (config, tensors) in [(BERT, bert_tensors()), (LLAMA, llama_tensors())] {
        let original = folder(config, &tensors);
        if config == LLAMA {
            shard(original.path(), &tensors);
        }
        let place = tempfile::tempdir().unwrap();
        let [packed, dense] = ["packed", "dense"].map(|name| place.path().join(name));
        let opened = Folder::open(original.path()).unwrap();
        let rule = PruneConfig::new(Pattern::balanced(4), 0.5);
        let checkpoint = prune_folder(&opened, &rule, 0, None, Output::packed(&packed), |_| ())
            .unwrap()
            .checkpoint;
        let packed = Folder::open(&packed).unwrap();
        packed.export(&checkpoint, &dense).unwrap();
        let device = Device::flex();
        let output = if config == BERT {
            let model = BertEmbedder::load(&packed, Weights::Packed, &device).unwrap();
            let batch = TokenBatch::new(&[&tokens], &device);
            model.model().embed(batch.ids, None).into_data().try_into_vec::<f32>().unwrap()
        } else {
            let model = CausalLm::load(&packed, Weights::Packed, &device).unwrap();
            model.next_log_probabilities(&tokens).unwrap()
        };
        let bytes =
            |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let ids: Vec<u8> = tokens.iter().flat_map(|&id| i64::from(id).to_le_bytes()).collect();
        let values = bytes(&output);
        let views = [
            ("tokens", TensorView::new(Dtype::I64, vec![tokens.len()], &ids).unwrap()),
            ("output", TensorView::new(Dtype::F32, vec![output.len()], &values).unwrap()),
        ];
        let expected = safetensors::serialize(views, None).unwrap();
        std::fs::write(dense.join("expected.safetensors"), expected).unwrap();
        script("huggingface.py", &[dense.as_os_str()]);
    }
}
