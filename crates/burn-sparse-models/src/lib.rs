//! Networks built from the layers of `burn_sparse::nn`: pretrained ones in [Hugging Face's folder format](huggingface), and,
//! with feature `classifiers`, those that burn-sparse's own tasks train from scratch.
//!
//! Without that feature, this crate is a runtime: it loads and runs a dense or a packed folder, without burn-train.
//!
//! ```no_run
//! use burn::tensor::Device;
//! use burn_sparse_models::huggingface::{BertEmbedder, Folder, Weights};
//!
//! let folder = Folder::open("packed-minilm")?;
//! let embedder = BertEmbedder::load(&folder, Weights::Packed, &Device::flex())?;
//! let vectors = embedder.embed(&["A man is playing a guitar."])?;
//! assert_eq!(vectors[0].len(), 384);
//! # Ok::<(), burn_sparse_models::huggingface::PretrainedError>(())
//! ```

#[cfg(feature = "classifiers")]
mod classifiers;
pub mod huggingface;
mod networks;

#[cfg(feature = "classifiers")]
pub use classifiers::{
    Classifier, ConvNet, ConvNetConfig, Decoding, ImageBatch, LstmLm, LstmLmConfig, Mlp, MlpConfig,
    PictureBatch, PictureNet, ResNet, ResNetConfig, TextBatch, Transformer, TransformerConfig,
    TranslationBatch, Vgg, VggConfig, classified,
};
pub use networks::{
    Bert, BertBlocks, BertConfig, Llama, LlamaBlocks, LlamaCache, LlamaConfig, Pooling,
};
