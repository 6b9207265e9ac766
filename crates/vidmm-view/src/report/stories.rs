//! The stories of all allocations, in blocks that the page unpacks one at a time.

use vidmm_trace::Explanations;

use super::page::compressed;
use super::tables::Tables;

/// The stories of a block. The page knows this number too.
const STORIES_IN_A_BLOCK: usize = 64;

/// The stories in the order of the table of allocations, with a zero between two of a block, each block compressed.
pub(super) fn blocks(explanations: Explanations, tables: &Tables) -> Vec<Vec<u8>> {
    let mut stories: Vec<(u64, String)> =
        explanations.finish().filter_map(|(allocation, text)| Some((tables.row(allocation)?, text))).collect();
    stories.sort_unstable_by_key(|&(row, _)| row);
    let blocks = stories.chunks(STORIES_IN_A_BLOCK).map(|block| {
        let texts: Vec<&str> = block.iter().map(|(_, text)| text.as_str()).collect();
        compressed(texts.join("\0").as_bytes())
    });
    blocks.collect()
}
