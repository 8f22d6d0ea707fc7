//! Tests of every image network: shapes, gradients of all parameters, and augmented batches.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use burn::train::TrainStep;
use burn_sparse_datasets::{ByteImageSet, ByteImages};
use burn_sparse_models::{PictureBatch, PictureNet, ResNetConfig, VggConfig};
use burn_sparse_run::{
    Cifar10Task, Classification, ImageTask, LstmLmTask, Samples, TranslationTask,
};

/// Collects parameters whose gradient is missing, not finite, or all zeros.
struct Unmoved<'a> {
    grads: &'a mut GradientsParams,
    path: Vec<String>,
    found: Vec<String>,
}

impl ModuleVisitor for Unmoved<'_> {
    fn enter_module(&mut self, name: &str, _kind: &str) {
        self.path.push(name.into());
    }

    fn exit_module(&mut self, _name: &str, _kind: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let name = self.path.join(".");
        if name.contains("running") {
            return;
        }
        let moved = self.grads.remove::<D>(param.id).is_some_and(|grad| {
            let most = grad.abs().max().into_scalar::<f32>();
            most.is_finite() && most > 0.0
        });
        if !moved {
            self.found.push(name);
        }
    }
}

/// Returns one image per label, with pixels that differ from image to image.
fn pictures(labels: &[u8]) -> ByteImages {
    let pixel = |at: usize| ((at * 7919 + at / 3072 * 31) % 251) as u8;
    let pixels = (0..labels.len() * 3072).map(pixel).collect();
    ByteImages { pixels, labels: labels.into(), shape: [3, 32, 32] }
}

fn data() -> ByteImageSet {
    ByteImageSet { train: pictures(&[0, 3, 9, 1, 1, 7]), test: pictures(&[2, 5]) }
}

fn learns<T: Classification<Data = ByteImageSet>>(task: &T)
where
    T::Model: TrainStep<Input = PictureBatch>,
{
    let (device, data) = (Device::flex().autodiff(), data());
    let model = task.model(&device);
    let batch = task.batch(&data, Samples { indices: &[4, 0, 2, 1], draw: 1 }, &device);
    assert_eq!(batch.images.dims(), [4, 3, 32, 32]);
    let mut output = TrainStep::step(&model, batch);
    assert_eq!(output.item.output.dims(), [4, 10]);
    let mut unmoved = Unmoved { grads: &mut output.grads, path: Vec::new(), found: Vec::new() };
    model.visit(&mut unmoved);
    assert_eq!(unmoved.found, Vec::<String>::new(), "{}", task.name());
}

#[test]
fn a_step_of_every_network_moves_all_of_its_parameters() {
    learns(&Cifar10Task::convnet());
    learns(&Cifar10Task::resnet());
    learns(&Cifar10Task::vgg());
}

#[test]
fn a_narrower_network_learns_with_fewer_parameters() {
    let device = Device::flex();
    learns(&Cifar10Task::convnet().narrowed(0.5));
    learns(&Cifar10Task::resnet().narrowed(0.6));
    learns(&Cifar10Task::vgg().narrowed(0.01));
    let parameters = |share| {
        let mlp = ImageTask::mnist().narrowed(share).model(&device).num_params();
        let lstm = LstmLmTask::small().narrowed(share).model(&device).num_params();
        let transformer = TranslationTask::small().narrowed(share).model(&device).num_params();
        [mlp, lstm, transformer]
    };
    // 784 to 256 to 256 to 10 features, with biases.
    assert_eq!(parameters(0.5)[0], 785 * 256 + 257 * 256 + 257 * 10);
    for (half, whole) in parameters(0.5).into_iter().zip(parameters(1.0)) {
        assert!(half * 3 < whole * 2, "{half} of {whole}");
    }
}

#[test]
fn depths_are_those_of_the_papers() {
    let device = Device::flex();
    // He et al., 2016, table 6: 0.27 million; their shortcuts have no weights. The count includes gamma, beta, and the
    // running statistics.
    let resnet = ResNetConfig::new(16, 3, 10).init(&device).num_params();
    assert!((269_000..275_000).contains(&resnet), "{resnet}");
    // Simonyan and Zisserman, 2015: 14.7 million parameters in the convolutions of VGG-16.
    let vgg = VggConfig::new(64, [2, 2, 3, 3, 3], 10).init(&device).num_params();
    assert!((14_710_000..14_760_000).contains(&vgg), "{vgg}");
}

#[test]
fn a_picture_varies_with_the_epoch_and_not_with_its_batch() {
    let (task, device, data) = (Cifar10Task::resnet(), Device::flex(), data());
    let drawn = |indices: &[usize], draw: u64| -> Vec<f32> {
        let batch = task.batch(&data, Samples { indices, draw }, &device);
        batch.images.into_data().try_into_vec().unwrap()
    };
    let [alone, among] = [drawn(&[2], 7), drawn(&[5, 2, 0], 7)];
    assert_eq!(alone, among[3072..6144]);
    assert_ne!(alone, drawn(&[2], 8));
    let plain = Cifar10Task::convnet();
    let batch = |draw| plain.batch(&data, Samples { indices: &[2], draw }, &device).images;
    assert_eq!(batch(1).into_data(), batch(2).into_data());
}
