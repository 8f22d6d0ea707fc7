//! Names that Hugging Face gives to the parameters of our networks.

use super::{Architecture, ModelConfig};

/// Modules of a BERT encoder: ours, and Hugging Face's.
const BERT: [(&str, &str); 12] = [
    ("word.", "embeddings.word_embeddings."),
    ("position.", "embeddings.position_embeddings."),
    ("token_type.", "embeddings.token_type_embeddings."),
    ("norm.", "embeddings.LayerNorm."),
    (".attention.query.", ".attention.self.query."),
    (".attention.key.", ".attention.self.key."),
    (".attention.value.", ".attention.self.value."),
    (".attention.output.", ".attention.output.dense."),
    (".attention_norm.", ".attention.output.LayerNorm."),
    (".feed_forward.linear_inner.", ".intermediate.dense."),
    (".feed_forward.linear_outer.", ".output.dense."),
    (".feed_forward_norm.", ".output.LayerNorm."),
];

/// Modules of a Llama decoder.
const LLAMA: [(&str, &str); 12] = [
    ("embedding.", "model.embed_tokens."),
    ("norm.", "model.norm."),
    ("head.", "lm_head."),
    (".attention.query.", ".self_attn.q_proj."),
    (".attention.key.", ".self_attn.k_proj."),
    (".attention.value.", ".self_attn.v_proj."),
    (".attention.output.", ".self_attn.o_proj."),
    (".attention_norm.", ".input_layernorm."),
    (".feed_forward.gate.", ".mlp.gate_proj."),
    (".feed_forward.up.", ".mlp.up_proj."),
    (".feed_forward.down.", ".mlp.down_proj."),
    (".feed_forward_norm.", ".post_attention_layernorm."),
];

/// Returns Hugging Face's name of a parameter.
pub(super) fn huggingface(architecture: Architecture, name: &str) -> String {
    let (modules, layers) = match architecture {
        Architecture::Bert => (&BERT, "encoder.layer."),
        Architecture::Llama => (&LLAMA, "model.layers."),
    };
    let name = match name.strip_suffix(".gamma") {
        Some(module) => format!("{module}.weight"),
        None => name.into(),
    };
    let name = match name.strip_suffix(".beta") {
        Some(module) => format!("{module}.bias"),
        None => name,
    };
    let Some(inner) = name.strip_prefix("layers.") else {
        // A module outside the layers begins the name.
        let found = modules
            .iter()
            .find_map(|(ours, theirs)| Some(format!("{theirs}{}", name.strip_prefix(ours)?)));
        return found.unwrap_or(name);
    };
    let inner = modules
        .iter()
        .filter(|(ours, _)| ours.starts_with('.'))
        .find(|(ours, _)| inner.contains(ours))
        .map_or(inner.to_string(), |(ours, theirs)| inner.replacen(ours, theirs, 1));
    format!("{layers}{inner}")
}

/// Returns `true` for tensors that are not needed: BERT's pooler and heads, which sentence embeddings do not use, fixed tables that
/// older versions stored, and a head that is stored although it is tied to the embedding.
pub(super) fn ignored(config: &ModelConfig, name: &str) -> bool {
    match config {
        ModelConfig::Bert(_) => {
            let heads = ["pooler.", "cls.", "classifier."];
            heads.iter().any(|head| name.starts_with(head)) || name.ends_with("position_ids")
        }
        ModelConfig::Llama(config) => {
            name.ends_with("rotary_emb.inv_freq") || (config.tied && name == "lm_head.weight")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_the_names_of_hugging_face() {
        let bert = |name| huggingface(Architecture::Bert, name);
        assert_eq!(bert("word.weight"), "embeddings.word_embeddings.weight");
        assert_eq!(bert("norm.gamma"), "embeddings.LayerNorm.weight");
        assert_eq!(
            bert("layers.11.attention_norm.beta"),
            "encoder.layer.11.attention.output.LayerNorm.bias"
        );
        assert_eq!(
            bert("layers.0.attention.output.weight"),
            "encoder.layer.0.attention.output.dense.weight"
        );
        let llama = |name| huggingface(Architecture::Llama, name);
        assert_eq!(llama("norm.gamma"), "model.norm.weight");
        assert_eq!(llama("head.weight"), "lm_head.weight");
        assert_eq!(
            llama("layers.3.feed_forward_norm.gamma"),
            "model.layers.3.post_attention_layernorm.weight"
        );
        assert_eq!(
            llama("layers.29.feed_forward.gate.weight"),
            "model.layers.29.mlp.gate_proj.weight"
        );
    }
}
