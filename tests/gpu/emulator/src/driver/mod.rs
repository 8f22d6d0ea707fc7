//! The CUDA driver API functions that `cubecl-cuda` calls, under their original names. Every call completes before it
//! returns, so that streams and events have nothing to wait for.
//!
//! Their safety contract is the driver's: pointers are valid for what a call reads or writes, and handles were returned
//! by another call here.

mod device;
mod memory;
mod module;
mod status;
mod stream;
mod tensor_map;
