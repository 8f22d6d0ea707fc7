//! Inputs that the CPU refuses before a kernel runs.

use burn::tensor::{Device, FloatDType, Tensor};
use burn_sparse_kernels::{Activation, PackedTensors, sparse_linear};

mod support;

use support::{case, map_index, noise, tensor, values};

#[test]
fn indices_that_changed_after_a_call_are_checked_again() {
    let device = Device::flex();
    for text in ["shfl-bw(vector=32)", "unstructured"] {
        let case = case(text, 64, 64, 0.75, &device).unwrap();
        let x = tensor(&noise(64, 3), [1, 64], &device);
        let run = |weight: &PackedTensors| {
            let (x, weight) = (x.clone(), weight.clone());
            let run = || sparse_linear(x, &weight, None, Activation::None);
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).map(values)
        };
        let first = run(&case.packed).unwrap();
        assert_eq!(run(&case.packed).unwrap(), first, "{text}: the second call trusts the first");
        // This would be written in place if possible: the only other owner is the validation cache of the call.
        let mut broken = case.packed.clone();
        drop(case);
        broken = map_index(broken, |index| index.add_scalar(99));
        assert!(run(&broken).is_err(), "{text}");
        broken = map_index(broken, |index| index.sub_scalar(99));
        assert_eq!(run(&broken).unwrap(), first, "{text}");
        // A slice of the same memory is checked again as well.
        broken = map_index(broken, |index| {
            let count = index.dims()[0];
            index.narrow(0, 0, count - 1)
        });
        assert!(run(&broken).is_err(), "{text}");
    }
}

#[test]
#[should_panic(expected = "F64 inputs on the CPU")]
fn inputs_of_another_type_are_refused_before_a_kernel_runs() {
    let device = Device::flex();
    let case = case("shfl-bw(vector=32)", 64, 64, 0.75, &device).unwrap();
    let x = Tensor::<2>::zeros([1, 64], &device).cast(FloatDType::F64);
    let _ = sparse_linear(x, &case.packed, None, Activation::None);
}

#[test]
#[should_panic(expected = "column 99 of 64")]
fn a_column_that_does_not_exist_is_refused_before_a_kernel_runs() {
    let device = Device::flex();
    let packed = case("shfl-bw(vector=32)", 64, 64, 0.75, &device).unwrap().packed;
    let packed = map_index(packed, |index| index.mul_scalar(0).add_scalar(99));
    let x = Tensor::<2>::zeros([1, 64], &device);
    let _ = sparse_linear(x, &packed, None, Activation::None);
}
