//! The reference driver, its command encoding and the model GPU.
