use burn::tensor::{Device, Distribution, Tensor, TensorData};
use burn_sparse_kernels::*;
use burn_sparse_pattern::{Packed, Pattern, Scores, Search};
use std::time::Instant;
fn main() {
    let device = Device::flex();
    let args: Vec<String> = std::env::args().collect();
    let filter = args.get(1).cloned().unwrap_or_default();
    let dense_too = args.get(2).is_some();
    for text in ["shfl-bw(vector=32)", "balanced(block=32)"] {
        if !text.contains(&filter) {
            continue;
        }
        let pattern: Pattern = text.parse().unwrap();
        for (rows, cols) in std::env::var("SH")
            .map(|s| {
                s.split(",")
                    .map(|p| {
                        let (a, b) = p.split_once("x").unwrap();
                        (a.parse().unwrap(), b.parse().unwrap())
                    })
                    .collect()
            })
            .unwrap_or(vec![(1024usize, 1024usize), (4096, 1024), (1024, 4096), (4096, 4096)])
        {
            let w: Tensor<1> =
                Tensor::random([rows * cols], Distribution::Normal(0.0, 1.0), &device);
            let wv: Vec<f32> = w.clone().into_data().try_into_vec().unwrap();
            let dense: Tensor<2> =
                Tensor::from_data(TensorData::new(wv.clone(), [cols, rows]), &device);
            let s: Vec<f32> = wv.iter().map(|x| x.abs()).collect();
            for sp in [0.75, 0.9] {
                let f = pattern
                    .project(
                        &Scores::new(rows, cols, &s).unwrap(),
                        sp,
                        &Search { rounds: 1, ..Search::default() },
                    )
                    .unwrap();
                let packed = Packed::pack(&pattern, &wv, &f.mask, f.row_order.as_ref()).unwrap();
                let t = PackedTensors::from_packed(&packed, &device);
                for n in std::env::var("NB")
                    .map(|s| s.split(",").map(|p| p.parse().unwrap()).collect())
                    .unwrap_or(vec![1usize, 16, 128, 512])
                {
                    let x =
                        Tensor::<2>::random([n, cols], Distribution::Uniform(-1.0, 1.0), &device);
                    let mut times = [vec![], vec![]];
                    let reps = (400_000_000 / (rows * cols * n)).clamp(1, 200);
                    for _ in 0..11 {
                        if dense_too {
                            let t0 = Instant::now();
                            for _ in 0..reps {
                                std::hint::black_box(burn::tensor::module::linear(
                                    x.clone(),
                                    dense.clone(),
                                    None,
                                ));
                            }
                            times[0].push(t0.elapsed().as_secs_f64() / reps as f64);
                        }
                        let t0 = Instant::now();
                        for _ in 0..reps {
                            std::hint::black_box(sparse_linear(
                                x.clone(),
                                &t,
                                None,
                                Activation::None,
                            ));
                        }
                        times[1].push(t0.elapsed().as_secs_f64() / reps as f64);
                    }
                    let med = |v: &mut Vec<f64>| {
                        v.sort_by(f64::total_cmp);
                        v.get(v.len() / 2).copied().unwrap_or(0.0)
                    };
                    let (d, sps) = (med(&mut times[0]), med(&mut times[1]));
                    println!(
                        "{text} {rows}x{cols} {sp} n={n}: dense {:.1} sparse {:.1} us  {:.2}x  {:.0} GF kept",
                        d * 1e6,
                        sps * 1e6,
                        d / sps,
                        2.0 * (f.mask.kept() * n) as f64 / sps / 1e9
                    );
                }
            }
        }
    }
}
