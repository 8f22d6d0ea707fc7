/// Position of a visitor: the names from the root, and the kind of module that holds each.
#[derive(Debug, Default)]
pub(crate) struct Path {
    names: Vec<String>,
    kinds: Vec<String>,
}

/// Kind of module in which Burn keeps the state of a reparameterization.
const REPARAMETERIZATION: &str = "Reparameterization";

impl Path {
    pub(super) fn enter(&mut self, name: &str, kind: &str) {
        self.names.push(name.into());
        self.kinds.push(kind.into());
    }

    pub(super) fn exit(&mut self) {
        self.names.pop();
        self.kinds.pop();
    }

    /// Returns the path, such as `encoder.layers.0.weight`.
    pub(crate) fn name(&self) -> String {
        self.names.join(".")
    }

    /// Returns the type of the layer that holds the current parameter: `Linear`, `Conv2d`, …
    pub(crate) fn layer(&self) -> &str {
        self.kinds.last().map_or("", |kind| kind.rsplit(':').next().unwrap_or(kind))
    }

    /// Returns the name of the reparameterization whose state is being visited, if any.
    pub(crate) fn reparameterization(&self) -> Option<&str> {
        let at = self.kinds.iter().position(|kind| kind == REPARAMETERIZATION)?;
        Some(&self.names[at])
    }

    /// Returns the weight that a reparameterization belongs to, and the name of the state being visited:
    /// `fc1.weight.masked.keep` is `("fc1.weight", "keep")` for `masked`.
    pub(crate) fn state_of(&self, reparameterization: &str) -> Option<(String, &str)> {
        match self.names.as_slice() {
            [weight @ .., inner, state] if inner == reparameterization => {
                Some((weight.join("."), state))
            }
            _ => None,
        }
    }
}
