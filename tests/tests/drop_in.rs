//! `burn_sparse::nn` replaces `burn::nn`: the same program compiles against both, and computes the same.

use burn::module::Module;
use burn::nn::attention::generate_autoregressive_mask;
use burn::tensor::{Device, Tensor};
use burn_sparse_tests::models::seeded;
use burn_sparse_tests::tensors::{close, input};

/// Defines a module with the same program on layers of the given `nn` module.
macro_rules! program {
    ($name:ident, $($nn:ident)::+) => {
        mod $name {
            use $($nn)::+::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
            use $($nn)::+::conv::{Conv1d, Conv1dConfig, Conv2d, Conv2dConfig};
            use $($nn)::+::transformer::{
                PositionWiseFeedForward, PositionWiseFeedForwardConfig, TransformerDecoder,
                TransformerDecoderConfig, TransformerDecoderInput, TransformerEncoder,
                TransformerEncoderConfig, TransformerEncoderInput,
            };
            use $($nn)::+::{
                BatchNorm, BatchNormConfig, Dropout, DropoutConfig, LayerNorm, LayerNormConfig,
                Linear, LinearConfig, LinearLayout, Lstm, LstmConfig, LstmState, PaddingConfig2d,
                Relu,
            };

            use super::*;

            #[derive(Module, Debug)]
            pub struct Net {
                conv: Conv2d,
                norm: BatchNorm,
                across: Conv1d,
                relu: Relu,
                linear: Linear,
                column: Linear,
                layer_norm: LayerNorm,
                dropout: Dropout,
                attention: MultiHeadAttention,
                encoder: TransformerEncoder,
                post_norm: TransformerEncoder,
                decoder: TransformerDecoder,
                pwff: PositionWiseFeedForward,
                lstm: Lstm,
            }

            impl Net {
                pub fn new(device: &Device) -> Self {
                    let padding = PaddingConfig2d::Explicit(1, 1, 1, 1);
                    let encoder = TransformerEncoderConfig::new(32, 64, 4, 2).with_dropout(0.0);
                    let decoder = TransformerDecoderConfig::new(32, 64, 4, 2).with_dropout(0.0);
                    Self {
                        conv: Conv2dConfig::new([3, 8], [3, 3]).with_padding(padding).init(device),
                        norm: BatchNormConfig::new(8).init(device),
                        across: Conv1dConfig::new(8, 5, 1).init(device),
                        relu: Relu::new(),
                        linear: LinearConfig::new(36, 32).with_bias(false).init(device),
                        column: LinearConfig::new(32, 32)
                            .with_layout(LinearLayout::Col)
                            .init(device),
                        layer_norm: LayerNormConfig::new(32).init(device),
                        dropout: DropoutConfig::new(0.0).init(),
                        attention: MultiHeadAttentionConfig::new(32, 4)
                            .with_dropout(0.0)
                            .init(device),
                        encoder: encoder.clone().with_norm_first(true).init(device),
                        post_norm: encoder.init(device),
                        decoder: decoder.init(device),
                        pwff: PositionWiseFeedForwardConfig::new(32, 64)
                            .with_dropout(0.0)
                            .init(device),
                        lstm: LstmConfig::new(32, 32, true).init(device),
                    }
                }

                /// Maps `[batch, 3, 6, 6]` to the output of every layer, `[batch, 5, 32]`.
                pub fn forward(&self, x: Tensor<4>) -> Vec<Tensor<3>> {
                    let device = x.device();
                    let x = self.norm.forward(self.conv.forward(x)).flatten(2, 3);
                    let x = self.relu.forward(self.across.forward(x));
                    let x = self.column.forward(self.linear.forward(x));
                    let x = self.dropout.forward(self.layer_norm.forward(x));
                    let [batch, positions, _] = x.dims();
                    let causal = generate_autoregressive_mask(batch, positions, &device);
                    let whole = MhaInput::self_attn(x.clone()).mask_attn(causal.clone());
                    let attended = self.attention.forward(whole).context;
                    let encoded = TransformerEncoderInput::new(x.clone()).mask_attn(causal.clone());
                    let encoded = self.encoder.forward(encoded);
                    let post = self.post_norm.forward(TransformerEncoderInput::new(x.clone()));
                    let decoded = TransformerDecoderInput::new(x.clone(), encoded.clone())
                        .target_mask_attn(causal);
                    let decoded = self.decoder.forward(decoded);
                    let fed = self.pwff.forward(x.clone());
                    let zeros = Tensor::zeros([batch, 32], &device);
                    let state = LstmState::new(zeros.clone(), zeros);
                    let (recurrent, _) = self.lstm.forward(x.clone(), Some(state));
                    vec![x, attended, encoded, post, decoded, fed, recurrent]
                }

                /// Encodes and decodes `x [batch, positions, 32]` with caches, one position at a time.
                pub fn step_by_step(&self, x: Tensor<3>, memory: Tensor<3>) -> [Tensor<3>; 2] {
                    let device = x.device();
                    let [batch, positions, _] = x.dims();
                    let (mut of_encoder, mut of_decoder) =
                        (self.encoder.new_autoregressive_cache(), self.decoder.new_autoregressive_cache());
                    let (mut encoded, mut decoded) = (x.clone(), x.clone());
                    for end in 1..=positions {
                        let seen = x.clone().narrow(1, 0, end);
                        let causal = generate_autoregressive_mask(batch, end, &device);
                        let input = TransformerEncoderInput::new(seen.clone()).mask_attn(causal.clone());
                        encoded = self.encoder.forward_autoregressive_inference(input, &mut of_encoder);
                        let input = TransformerDecoderInput::new(seen, memory.clone())
                            .target_mask_attn(causal);
                        decoded = self.decoder.forward_autoregressive_inference(input, &mut of_decoder);
                    }
                    [encoded, decoded]
                }
            }
        }
    };
}

program!(stock, burn::nn);
program!(ours, burn_sparse::nn);

#[test]
fn a_program_on_burns_layers_compiles_on_ours_and_computes_the_same() {
    let device = Device::flex();
    let stock = seeded(&device, 3, stock::Net::new);
    let ours = ours::Net::new(&device).try_load_record(stock.clone().into_record()).unwrap();
    let x = input([2, 3, 6, 6], &device);
    for (at, (found, expected)) in
        ours.forward(x.clone()).into_iter().zip(stock.forward(x)).enumerate()
    {
        close(found, expected, &format!("output {at}"));
    }
}

#[test]
fn caches_give_what_burns_give_position_by_position() {
    let device = Device::flex();
    let stock = seeded(&device, 4, stock::Net::new);
    let ours = ours::Net::new(&device).try_load_record(stock.clone().into_record()).unwrap();
    let (x, memory) = (input([2, 5, 32], &device), input([2, 4, 32], &device) * 0.7);
    let found = ours.step_by_step(x.clone(), memory.clone());
    for (found, expected) in found.into_iter().zip(stock.step_by_step(x, memory)) {
        close(found, expected, "the last step");
    }
}

#[test]
fn records_of_ours_load_into_burns_layers() {
    let device = Device::flex();
    let ours = seeded(&device, 5, ours::Net::new);
    let stock = stock::Net::new(&device).try_load_record(ours.clone().into_record()).unwrap();
    let x = input([1, 3, 6, 6], &device);
    for (found, expected) in stock.forward(x.clone()).into_iter().zip(ours.forward(x)) {
        close(found, expected, "from our record");
    }
}

#[test]
fn a_layer_in_columns_is_pruned_in_its_own_shape_before_its_first_use() {
    use burn::nn::LinearLayout;
    use burn_sparse::nn::LinearConfig;
    use burn_sparse::prelude::*;

    let device = Device::flex();
    let config = LinearConfig::new(64, 32).with_layout(LinearLayout::Col);
    let layer = config.init(&device);
    let rule = PruneConfig::new(Pattern::balanced(32), 0.75);
    let plan = Plan::new(&rule, &layer, Horizon::steps(0)).unwrap();
    assert_eq!((plan.weights[0].view.rows(), plan.weights[0].view.cols()), (32, 64));
    let pruned = plan.attach(layer).unwrap().finish().unwrap();
    let packed = pruned.checkpoint().load(config.init(&device)).unwrap();
    let x: Tensor<2> = input([5, 64], &device);
    close(packed.forward(x.clone()), pruned.model().forward(x), "packed");
}
