//! Tests of weights in 8 and 4 bits: what runs, how near its results are, and what is refused.

use burn::module::Module;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use burn_sparse::calibrate::CalibrateConfig;
use burn_sparse::checkpoint::{Checkpoint, Entry, FloatType, Format, ValueType};
use burn_sparse::nn::attention::{MhaInput, MultiHeadAttentionConfig};
use burn_sparse::nn::{
    Activation, EmbeddingConfig, LinearConfig, LstmConfig, QuantizedParam, record_dispatch,
};
use burn_sparse::pattern::Pattern;
use burn_sparse::pattern::format::{Integers, Scales};
use burn_sparse::prune::{Horizon, Plan, PruneConfig};
use burn_sparse_models::huggingface::{BertEmbedder, CausalLm, Folder, Weights};
use burn_sparse_run::pretrained::{
    Calibration, CalibrationTexts, Output, prune_folder, round_folder,
};
use burn_sparse_tests::pretrained::{BERT, LLAMA, bert_tensors, folder, llama_tensors};

fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    let device = Device::flex();
    device.seed(3);
    Tensor::random(shape, burn::tensor::Distribution::Normal(0.0, 1.0), &device)
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec().unwrap()
}

/// Asserts that outputs are within 5 % of the largest one; the kernels' own tests are exact.
fn assert_near(found: &[f32], expected: &[f32]) {
    assert_within(0.05, found, expected);
}

/// Asserts that outputs are within this share of the largest one.
fn assert_within(share: f32, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= share * largest, "{found} {expected} of {largest}");
    }
}

fn kernels(run: impl FnOnce()) -> Vec<String> {
    record_dispatch(run).1.iter().map(|ran| ran.choice.to_string()).collect()
}

#[test]
fn an_unpruned_layer_in_8_or_4_bits_is_near_the_layer_in_floats() {
    let device = Device::flex();
    let shapes = [(64, 48), (31, 33), (1, 5), (300, 1)];
    let forms = [(ValueType::Int8, "int8", 0.05), (ValueType::Int4, "int4", 0.25)];
    for ((inputs, outputs), (form, kernel, share)) in
        shapes.into_iter().flat_map(|shape| forms.map(|form| (shape, form)))
    {
        let dense = LinearConfig::new(inputs, outputs).init(&device);
        let checkpoint = Checkpoint::of_dense(&dense).with_values(form).unwrap();
        assert_eq!(checkpoint.entries()["weight"].value_type(), form);
        let layer = checkpoint.load(dense.clone()).unwrap();
        assert!(layer.weight.reparameterization::<QuantizedParam>().is_some());
        assert!(format!("{layer}").contains(&format!("d_input: {inputs}, d_output: {outputs}")));
        for tokens in [1, 7, 40] {
            let x = random([tokens, inputs]);
            for activation in [Activation::None, Activation::Relu, Activation::Gelu] {
                let expected = values(dense.forward_activated(x.clone(), activation));
                let found = values(layer.forward_activated(x.clone(), activation));
                assert_within(share, &found, &expected);
            }
            let kernels = kernels(|| drop(layer.forward(x)));
            assert!(kernels[0].starts_with(&format!("flex-dense-{kernel}-")), "{kernels:?}");
        }
        // Anything else reads the rounded floats.
        let read = values(layer.weight.val());
        let Entry::Dense { values, .. } = &checkpoint.entries()["weight"] else { panic!() };
        assert_eq!(&read, values);
    }
}

#[test]
fn weights_that_are_not_finite_are_refused_by_name() {
    let device = Device::flex();
    let mut dense = LinearConfig::new(4, 3).init(&device);
    for wrong in [f32::NAN, f32::INFINITY] {
        dense.weight = dense.weight.map(|weight| weight * 0.0 + wrong);
        let error = Checkpoint::of_dense(&dense).with_values(ValueType::Int8).unwrap_err();
        assert!(error.to_string().contains("parameter weight"), "{error}");
    }
}

#[test]
fn training_devices_read_floats() {
    let device = Device::flex().autodiff();
    let dense = LinearConfig::new(32, 32).init(&device);
    let checkpoint = Checkpoint::of_dense(&dense).with_values(ValueType::Int8).unwrap();
    let layer = checkpoint.load(dense).unwrap();
    assert!(layer.weight.reparameterization::<QuantizedParam>().is_none());
    let loss = layer.forward(Tensor::<2>::ones([4, 32], &device)).sum();
    assert!(layer.weight.val().grad(&loss.backward()).is_some());
}

#[test]
fn a_layer_in_8_bits_that_is_moved_to_a_training_device_reads_floats() {
    let layer = LinearConfig::new(96, 8).init(&Device::flex());
    let bytes = Checkpoint::of_dense(&layer).with_values(ValueType::Int8).unwrap();
    let layer = bytes.load(layer).unwrap();
    let x = random([3, 96]);
    let expected = values(layer.forward(x.clone()));
    assert_near(&values(layer.train().forward(x)), &expected);
}

#[test]
fn training_devices_hold_packed_values_of_sixteen_bits_in_f32() {
    let flex = Device::flex();
    let layer = |device: &Device| LinearConfig::new(64, 32).init(device);
    let plan =
        Plan::new(PruneConfig::new(Pattern::balanced(8), 0.5), &layer(&flex), Horizon::steps(0));
    let pruned = plan.unwrap().attach(layer(&flex)).unwrap().finish().unwrap().checkpoint();
    for (float, stored) in [(FloatType::F16, DType::F16), (FloatType::BF16, DType::BF16)] {
        let checkpoint = pruned.clone().with_values(float).unwrap();
        let loaded = |device: &Device| checkpoint.load(layer(device)).unwrap().weight;
        assert_eq!(loaded(&flex).base().dtype(), stored);
        let trained = loaded(&flex.clone().autodiff());
        assert_eq!(trained.base().dtype(), DType::F32);
        assert_eq!(values(trained.val().inner()), values(loaded(&flex).val()));
    }
}

#[test]
fn scales_in_blocks_that_the_format_lacks_are_refused() {
    let layer = LinearConfig::new(96, 4).init(&Device::flex());
    let plan = Plan::new(PruneConfig::new(Pattern::balanced(8), 0.5), &layer, Horizon::steps(0));
    let packed = plan.unwrap().attach(layer.clone()).unwrap().finish().unwrap().checkpoint();
    let dense = Checkpoint::of_dense(&layer);
    let scales = |block: usize| {
        let values = vec![0.5; 4 * 96_usize.div_ceil(block)];
        [("weight".to_string(), Scales::new(Integers::Int4, 96, block, values))].into()
    };
    for (checkpoint, good, bad) in [(packed, 64, 32), (dense, 32, 48)] {
        assert!(checkpoint.clone().with_scales(&scales(good)).is_ok());
        let error = checkpoint.with_scales(&scales(bad)).unwrap_err().to_string();
        assert!(error.contains("weight"), "{error}");
    }
}

#[test]
fn values_in_fewer_bits_stay_as_they_are() {
    let device = Device::flex();
    let dense = LinearConfig::new(70, 20).init(&device);
    let floats = || Checkpoint::of_dense(&dense);
    let [in_8, in_4] =
        [ValueType::Int8, ValueType::Int4].map(|form| floats().with_values(form).unwrap());
    let entry = |checkpoint: Checkpoint| checkpoint.entries()["weight"].clone();
    assert_eq!(entry(in_4.clone().with_values(ValueType::Int8).unwrap()), entry(in_4.clone()));
    assert_eq!(entry(in_4.clone().with_values(ValueType::Int4).unwrap()), entry(in_4));
    assert_eq!(entry(in_8.clone().with_values(ValueType::Int8).unwrap()), entry(in_8.clone()));
    let fewer = entry(in_8.with_values(ValueType::Int4).unwrap());
    assert_eq!(fewer.value_type(), ValueType::Int4);
}

#[test]
fn query_key_and_value_run_as_one_in_8_bits() {
    let device = Device::flex();
    let dense = MultiHeadAttentionConfig::new(64, 4).init(&device);
    let checkpoint = Checkpoint::of_dense(&dense).with_values(ValueType::Int8).unwrap();
    let layer = checkpoint.load(dense.clone()).unwrap();
    let x = random([2, 9, 64]);
    let expected = values(dense.forward(MhaInput::self_attn(x.clone())).context);
    assert_near(&values(layer.forward(MhaInput::self_attn(x.clone())).context), &expected);
    let kernels = kernels(|| drop(layer.forward(MhaInput::self_attn(x))));
    assert_eq!(kernels.len(), 4);
    assert!(kernels.iter().all(|kernel| kernel.contains("-int8-")), "{kernels:?}");
}

#[test]
fn gates_of_an_lstm_run_in_8_bits() {
    let device = Device::flex();
    let dense = LstmConfig::new(48, 32, true).init(&device);
    let checkpoint = Checkpoint::of_dense(&dense).with_values(ValueType::Int8).unwrap();
    let layer = checkpoint.load(dense.clone()).unwrap();
    let x = random([2, 11, 48]);
    let expected = values(dense.forward(x.clone(), None).0);
    assert_near(&values(layer.forward(x.clone(), None).0), &expected);
    let kernels = kernels(|| drop(layer.forward(x, None)));
    assert!(!kernels.is_empty() && kernels.iter().all(|kernel| kernel.contains("-int8-")));
}

#[test]
fn an_embedding_in_8_bits_reads_rows_and_scores_tokens() {
    let device = Device::flex();
    let dense = EmbeddingConfig::new(37, 24).init(&device);
    let checkpoint = Checkpoint::of_dense(&dense).with_values(ValueType::Int8).unwrap();
    let layer = checkpoint.load(dense.clone()).unwrap();
    assert!(format!("{layer}").contains("n_embedding: 37, d_model: 24"));
    let tokens = TensorData::from([[0, 36, 5], [17, 17, 16]]);
    let tokens = Tensor::<2, Int>::from_data(tokens, &device);
    let rounded = checkpoint.load_dense(dense.clone()).unwrap();
    assert_eq!(values(layer.forward(tokens.clone())), values(rounded.forward(tokens)));
    let features = random([2, 3, 24]);
    assert_near(&values(layer.scores(features.clone())), &values(dense.scores(features)));
    let nothing = || Tensor::<3>::zeros([2, 0, 24], &device);
    assert_eq!(dense.scores(nothing()).dims(), layer.scores(nothing()).dims());
}

#[test]
fn dense_exports_of_integers_hold_floats() {
    let folder = tempfile::tempdir().unwrap();
    let dense = EmbeddingConfig::new(37, 24).init(&Device::flex());
    let rounded = Checkpoint::of_dense(&dense).with_values(ValueType::Int8).unwrap();
    let path = folder.path().join("dense.safetensors");
    rounded.write(&path, Format::DenseBurn).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let found: Vec<_> = file.iter().map(|(name, view)| (name, view.dtype())).collect();
    assert_eq!(found, [("weight", safetensors::Dtype::F32)]);
    let read = Checkpoint::read(&path).unwrap();
    let layer = |checkpoint: &Checkpoint| checkpoint.load_dense(dense.clone()).unwrap();
    let stored = |layer: burn_sparse::nn::Embedding| values(layer.weight.val());
    assert_eq!(stored(layer(&read)), stored(layer(&rounded)));
}

#[test]
fn pruned_and_unpruned_folders_of_pretrained_models_run_in_8_bits() {
    let device = Device::flex();
    let packed = tempfile::tempdir().unwrap();
    let save = |folder: &Folder, name: &str| -> Folder {
        let out = packed.path().join(name);
        let checkpoint = folder.checkpoint().unwrap().with_values(ValueType::Int8).unwrap();
        let path = folder.copy_to(&out).unwrap();
        checkpoint.write(path, Format::Packed).unwrap();
        Folder::open(out).unwrap()
    };
    let bert = folder(BERT, &bert_tensors());
    let bert = Folder::open(bert.path()).unwrap();
    let [floats, bytes] = [&bert, &save(&bert, "bert")].map(|folder| {
        let model = BertEmbedder::load(folder, Weights::Packed, &device).unwrap();
        model.embed(&["a b c", "d e a"]).unwrap().concat()
    });
    assert_near(&bytes, &floats);

    let llama = folder(LLAMA, &llama_tensors());
    let llama = Folder::open(llama.path()).unwrap();
    let tokens = [1, 2, 3, 4];
    let log_probabilities = |folder: &Folder| {
        let model = CausalLm::load(folder, Weights::Packed, &device).unwrap();
        let (found, ran) = record_dispatch(|| model.next_log_probabilities(&tokens).unwrap());
        (found, ran.len(), ran.iter().all(|ran| ran.choice.to_string().contains("-int8-")))
    };
    let (expected, ran, _) = log_probabilities(&llama);
    assert_eq!(ran, 0);
    let (found, ran, in_bytes) = log_probabilities(&save(&llama, "llama"));
    assert_near(&found, &expected);
    // Seven matrices of two layers, and the embedding as the head.
    assert_eq!((ran, in_bytes), (15, true));

    let pruned = packed.path().join("pruned");
    let rule = PruneConfig::new(Pattern::balanced(4), 0.5);
    prune_folder(&llama, &rule, 1, None, Output::packed(&pruned), |_| ()).unwrap();
    let pruned = Folder::open(pruned).unwrap();
    let (expected, _, _) = log_probabilities(&pruned);
    let (found, ran, in_bytes) = log_probabilities(&save(&pruned, "pruned-in-bytes"));
    assert_near(&found, &expected);
    assert_eq!((ran, in_bytes), (15, true));
}

#[test]
fn a_language_model_in_4_bits_keeps_its_embedding_and_its_tied_head_in_8() {
    let (device, out) = (Device::flex(), tempfile::tempdir().unwrap());
    let llama = folder(LLAMA, &llama_tensors());
    let llama = Folder::open(llama.path()).unwrap();
    for (name, pruned) in [("dense", false), ("pruned", true)] {
        let from = match pruned {
            false => llama.clone(),
            true => {
                let path = out.path().join("pruned-floats");
                let rule = PruneConfig::new(Pattern::balanced(4), 0.5);
                prune_folder(&llama, &rule, 1, None, Output::packed(&path), |_| ()).unwrap();
                Folder::open(path).unwrap()
            }
        };
        let path = out.path().join(name);
        let checkpoint = from.checkpoint().unwrap().with_values(ValueType::Int4).unwrap();
        checkpoint.write(from.copy_to(&path).unwrap(), Format::Packed).unwrap();
        let model = CausalLm::load(&Folder::open(path).unwrap(), Weights::Packed, &device).unwrap();
        let (found, ran) = record_dispatch(|| model.next_log_probabilities(&[1, 2, 3, 4]).unwrap());
        let count =
            |kernel: &str| ran.iter().filter(|ran| ran.choice.to_string().contains(kernel)).count();
        assert_eq!((count("-int4-"), count("-int8-"), ran.len()), (14, 1, 15), "{name}");
        // The same weights with inputs in floats.
        let rounded = checkpoint.with_values(FloatType::F32).unwrap();
        let path = out.path().join(format!("{name}-rounded"));
        rounded.write(from.copy_to(&path).unwrap(), Format::Packed).unwrap();
        let model = CausalLm::load(&Folder::open(path).unwrap(), Weights::Packed, &device).unwrap();
        assert_near(&found, &model.next_log_probabilities(&[1, 2, 3, 4]).unwrap());
    }
}

#[test]
fn a_folder_is_rounded_by_the_inputs_of_a_text_pruned_or_not() {
    let (device, place) = (Device::flex(), tempfile::tempdir().unwrap());
    let text = place.path().join("text.txt");
    std::fs::write(&text, "a b c d e a c e b d ".repeat(40)).unwrap();
    let calibration = |config: CalibrateConfig| Calibration {
        config,
        texts: CalibrationTexts { files: vec![text.clone()], samples: 6, length: 8, seed: 1 },
    };
    let in_4 = calibration(CalibrateConfig::new().with_values(Integers::Int4));
    let llama = folder(LLAMA, &llama_tensors());
    let llama = Folder::open(llama.path()).unwrap();
    let rule = PruneConfig::new(Pattern::balanced(4), 0.5);
    let (dense, pruned) = (place.path().join("dense"), place.path().join("pruned"));
    round_folder(&llama, &in_4, &dense, |_| ()).unwrap();
    prune_folder(&llama, &rule, 1, Some(&in_4), Output::packed(&pruned), |_| ()).unwrap();
    for (out, packed) in [(dense, 0), (pruned, 14)] {
        let folder = Folder::open(out).unwrap();
        let checkpoint = folder.packed().unwrap().unwrap();
        assert_eq!(checkpoint.packed().count(), packed);
        let types = checkpoint.entries().values().map(Entry::value_type);
        let types: Vec<ValueType> = types.collect();
        let count = |wanted: ValueType| types.iter().filter(|found| **found == wanted).count();
        assert_eq!((count(ValueType::Int4), count(ValueType::Int8)), (14, 1));
        assert!(checkpoint.provenance().results().unwrap().contains("\"values\":\"int4\""));
        let model = CausalLm::load(&folder, Weights::Packed, &device).unwrap();
        let (_, ran) = record_dispatch(|| model.next_log_probabilities(&[1, 2, 3]).unwrap());
        assert_eq!(ran.iter().filter(|ran| ran.choice.to_string().contains("-int4-")).count(), 14);
    }
    let nothing = calibration(CalibrateConfig::new());
    let out = place.path().join("nothing");
    let error = round_folder(&llama, &nothing, &out, |_| ()).unwrap_err().to_string();
    assert!(error.contains("integers to round to") && !out.exists(), "{error}");
}

#[test]
fn sixteen_bit_values_are_those_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (dense, path) = (LinearConfig::new(33, 31).init(&Device::flex()), folder.path().join("a"));
    for float in [FloatType::F16, FloatType::BF16] {
        let checkpoint = Checkpoint::of_dense(&dense).with_values(float).unwrap();
        checkpoint.write(&path, Format::Packed).unwrap();
        let read = Checkpoint::read(&path).unwrap();
        assert_eq!(checkpoint.entries(), read.entries(), "{float:?}");
        assert_ne!(checkpoint.entries(), Checkpoint::of_dense(&dense).entries());
    }
}
