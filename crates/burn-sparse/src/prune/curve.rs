use serde::{Deserialize, Serialize};

/// Curve of a ramp: sparsity as a function of `progress` (0 to 1) and the final sparsity `target`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", untagged)]
pub enum Curve {
    /// A named curve.
    Named(NamedCurve),
    /// Points `[[progress, share of the target], …]`, interpolated linearly. The first point is `[0, 0]` and the last
    /// `[1, 1]` unless given.
    Points(Vec<(f64, f64)>),
}

/// Curves that a recipe can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NamedCurve {
    /// `target · (1 − (1 − progress)³)` (Zhu and Gupta, 2017, equation 1).
    Cubic,
    /// `target · progress`.
    Linear,
    /// Density falls by a constant factor per step: `1 − (1 − target)^progress`.
    Exponential,
    /// `target · (1 − cos(π · progress)) / 2`.
    Cosine,
}

impl Default for Curve {
    fn default() -> Self {
        Self::Named(NamedCurve::Cubic)
    }
}

impl Curve {
    /// Returns the sparsity at `progress`; exactly `target` from 1 on.
    pub fn sparsity(&self, progress: f64, target: f64) -> f64 {
        if progress >= 1.0 {
            return target;
        }
        let progress = progress.max(0.0);
        match self {
            Self::Named(NamedCurve::Cubic) => target * (1.0 - (1.0 - progress).powi(3)),
            Self::Named(NamedCurve::Linear) => target * progress,
            Self::Named(NamedCurve::Exponential) => 1.0 - (1.0 - target).powf(progress),
            Self::Named(NamedCurve::Cosine) => {
                target * (1.0 - (std::f64::consts::PI * progress).cos()) / 2.0
            }
            Self::Points(points) => target * between(points, progress),
        }
    }

    /// Checks that there are points from 0 to 1, and that they rise.
    pub(crate) fn validate(&self) -> Result<(), String> {
        let Self::Points(points) = self else { return Ok(()) };
        let inside = |&(p, s): &(f64, f64)| (0.0..=1.0).contains(&p) && (0.0..=1.0).contains(&s);
        let rising = points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        if !points.is_empty() && points.iter().all(inside) && rising {
            Ok(())
        } else {
            Err("expected [progress, share] pairs from 0 to 1, both rising".into())
        }
    }
}

fn between(points: &[(f64, f64)], progress: f64) -> f64 {
    let (mut before, mut after) = ((0.0, 0.0), (1.0, 1.0));
    for &point in points {
        if point.0 <= progress {
            before = point;
        } else {
            after = point;
            break;
        }
    }
    let width = after.0 - before.0;
    let share = if width > 0.0 { (progress - before.0) / width } else { 1.0 };
    before.1 + share * (after.1 - before.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_curve(curve: &Curve, expected: [f64; 3]) {
        for (progress, expected) in [0.25, 0.5, 0.75].into_iter().zip(expected) {
            let found = curve.sparsity(progress, 0.75);
            assert!((found - expected).abs() < 5e-4, "{curve:?} at {progress}: {found}");
        }
        assert_eq!((curve.sparsity(0.0, 0.75), curve.sparsity(1.0, 0.75)), (0.0, 0.75));
    }

    #[test]
    fn curves_pass_through_their_published_points() {
        assert_curve(&Curve::Named(NamedCurve::Cubic), [0.4336, 0.65625, 0.7383]);
        assert_curve(&Curve::Named(NamedCurve::Linear), [0.1875, 0.375, 0.5625]);
        assert_curve(&Curve::Named(NamedCurve::Exponential), [0.2929, 0.5, 0.6464]);
        assert_curve(&Curve::Named(NamedCurve::Cosine), [0.1098, 0.375, 0.6402]);
        assert_curve(&Curve::Points(vec![(0.5, 0.8)]), [0.3, 0.6, 0.675]);
    }
}
