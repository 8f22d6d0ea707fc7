//! The functions of the CUDA driver API that `cubecl-cuda` calls, by their names there. Everything is done when
//! a call returns, so that streams and events have nothing to wait for.
//!
//! Their safety is the driver's: pointers are valid for what a call reads or writes, and handles are those that
//! another call here has given.

mod device;
mod memory;
mod module;
mod status;
mod stream;
mod tensor_map;
