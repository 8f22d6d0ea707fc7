/// Where a visitor stands: names from the root, and the kind of module that holds each.
#[derive(Debug, Default)]
pub(crate) struct Path {
    names: Vec<String>,
    kinds: Vec<String>,
}

impl Path {
    pub(crate) fn enter(&mut self, name: &str, kind: &str) {
        self.names.push(name.into());
        self.kinds.push(kind.into());
    }

    pub(crate) fn exit(&mut self) {
        self.names.pop();
        self.kinds.pop();
    }

    /// `encoder.layers.0.weight`.
    pub(crate) fn name(&self) -> String {
        self.names.join(".")
    }

    /// The layer that holds the current parameter: `Linear`, `Conv2d`, …
    pub(crate) fn layer(&self) -> &str {
        self.kinds.last().map_or("", |kind| kind.rsplit(':').next().unwrap_or(kind))
    }

    /// The weight that a reparameterization's state hangs on, and the name of that state:
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
