//! How near two words are.

/// Edit distance (insert, delete, replace, swap of neighbours) if it is at most `most`.
#[must_use]
pub fn distance(a: &[u8], b: &[u8], most: usize) -> Option<usize> {
    let width = b.len() + 1;
    let mut rows = vec![(0..width).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i; width];
        for j in 1..width {
            let same = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1)
                .min(row[j - 1] + 1)
                .min(rows[i - 1][j - 1] + same);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row[j] = best;
        }
        if row.iter().min().is_some_and(|&least| least > most) {
            return None;
        }
        rows.push(row);
    }
    Some(rows[a.len()][width - 1]).filter(|&found| found <= most)
}
