//! 128-bit hashes of words and bytes: equal input, equal hash, in every process.

/// Mixes a word into a 128-bit hash (two independent 64-bit lanes).
#[inline]
pub fn mix(hash: u128, word: u64) -> u128 {
    let (low, high) = (hash as u64, (hash >> 64) as u64);
    let low = (low ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let low = low ^ (low >> 29);
    let high = (high.rotate_left(23) ^ word).wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    let high = high ^ (high >> 31);
    (u128::from(high) << 64) | u128::from(low)
}

/// A 128-bit hash of words.
#[must_use]
pub fn hash_words(words: impl IntoIterator<Item = u64>) -> u128 {
    words.into_iter().fold(0x1234_5678_9ABC_DEF0, mix)
}

/// A 128-bit hash of bytes.
#[must_use]
pub fn hash_bytes(bytes: &[u8]) -> u128 {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    mix(hash_words(words), bytes.len() as u64)
}
