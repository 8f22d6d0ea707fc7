use burn::tensor::Tensor;
use burn::tensor::activation::{log_softmax, softmax};

use super::Distill;

impl Distill {
    /// Blends the loss with that of the teacher: `(1 - weight) · loss + weight · T² · KL(teacher ‖ student)`, both
    /// at temperature `T`; `T²` keeps the size of gradients independent of the temperature.
    ///
    /// # Shapes
    /// - loss: `[1]`
    /// - student, teacher: logits `[batch, classes]`; the teacher's are not trained
    pub fn blend(&self, loss: Tensor<1>, student: Tensor<2>, teacher: Tensor<2>) -> Tensor<1> {
        let [batch, _] = student.dims();
        let (weight, temperature) = (self.weight, self.temperature);
        let targets = softmax(teacher.clone() / temperature, 1);
        let expected = log_softmax(teacher / temperature, 1);
        let found = log_softmax(student / temperature, 1);
        let divergence = (targets * (expected - found)).sum() / batch as f64;
        loss * (1.0 - weight) + divergence * (weight * temperature * temperature)
    }
}
