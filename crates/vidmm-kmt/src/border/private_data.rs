//! Private data: bytes of user-mode drivers, which those who open a shared resource get.

/// The private data of a shared resource.
#[derive(Default)]
pub struct PrivateData {
    pub runtime: Vec<u8>,
    pub resource: Vec<u8>,
    pub allocations: Vec<Vec<u8>>,
}

impl PrivateData {
    /// The bytes of all allocations together.
    pub fn total(&self) -> usize {
        self.allocations.iter().map(Vec::len).sum()
    }
}
