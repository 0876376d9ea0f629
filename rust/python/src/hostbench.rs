//! Speed of a core: an integer kernel in the manner of Dhrystone, a floating-point one in the manner of LINPACK.
//!
//! They run without the interpreter lock for the time they are given; the clock is the edge's business here, as the
//! result is a rate.

use pyo3::prelude::*;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Dhrystones a second of the machine that counts as one MIPS, the VAX 11/780.
const VAX_DHRYSTONES: f64 = 1757.0;
/// Loops between two looks at the clock.
const BATCH: u64 = 20_000;
/// Rows and columns of the system of equations.
const ORDER: usize = 100;

#[derive(Clone, Copy)]
struct Record {
    kind: u32,
    number: i64,
    text: [u8; 30],
}

/// One round: assignments of records, comparisons of texts, calls, integer arithmetic, array accesses.
fn round(seed: u64, records: &mut [Record; 2], grid: &mut [[i64; 50]; 50]) -> i64 {
    let one = black_box((seed % 7) as i64 + 2);
    let mut two = one * 3;
    let row = (seed % 40) as usize;
    records[1] = records[0];
    records[1].number = records[0].number.wrapping_add(5);
    records[1].text[29] = b'0' + (seed % 3) as u8;
    if records[1].text > records[0].text {
        records[1].kind = records[0].kind.wrapping_add(1) % 5;
        two += i64::from(records[1].kind);
    }
    for step in 0..=1_usize {
        grid[row][row + step] = black_box(two) + step as i64;
        grid[row + 5][row] += 1;
    }
    let three = (two * one - 7).wrapping_div(one.max(1));
    two = 7 * (two - three) - one;
    records[0].number = records[0].number.wrapping_add(two & 3);
    black_box(two.wrapping_add(grid[row][row]))
}

fn integer_rate(seconds: f64) -> f64 {
    let mut records = [Record {
        kind: 1,
        number: 40,
        text: *b"A RECORD WITH A TEXT OF THIRTY",
    }; 2];
    let mut grid = [[0_i64; 50]; 50];
    let (began, limit) = (now(), Duration::from_secs_f64(seconds));
    let mut rounds = 0_u64;
    while began.elapsed() < limit {
        for step in 0..BATCH {
            black_box(round(rounds + step, &mut records, &mut grid));
        }
        rounds += BATCH;
    }
    rounds as f64 / began.elapsed().as_secs_f64() / VAX_DHRYSTONES
}

/// Solves one system by Gaussian elimination with partial pivoting; returns the sum of the solution.
fn solve(matrix: &mut [[f64; ORDER]], right: &mut [f64; ORDER]) -> f64 {
    for step in 0..ORDER {
        let mut pivot = step;
        for row in step + 1..ORDER {
            if matrix[row][step].abs() > matrix[pivot][step].abs() {
                pivot = row;
            }
        }
        matrix.swap(step, pivot);
        right.swap(step, pivot);
        let (head, tail) = matrix.split_at_mut(step + 1);
        let top = &head[step];
        for (offset, row) in tail.iter_mut().enumerate() {
            let factor = row[step] / top[step];
            for column in step..ORDER {
                row[column] -= factor * top[column];
            }
            right[step + 1 + offset] -= factor * right[step];
        }
    }
    for step in (0..ORDER).rev() {
        let known: f64 = (step + 1..ORDER).map(|c| matrix[step][c] * right[c]).sum();
        right[step] = (right[step] - known) / matrix[step][step];
    }
    right.iter().sum()
}

fn float_rate(seconds: f64) -> f64 {
    let order = ORDER as f64;
    let operations = 2.0 * order.powi(3) / 3.0 + 2.0 * order.powi(2);
    let (began, limit) = (now(), Duration::from_secs_f64(seconds));
    let mut solved = 0_u64;
    while began.elapsed() < limit {
        let mut state = 1325_u64 + solved;
        let mut matrix = vec![[0.0_f64; ORDER]; ORDER];
        let mut right = [0.0_f64; ORDER];
        for (row, values) in matrix.iter_mut().enumerate() {
            for value in values.iter_mut() {
                state = 3125 * state % 65_536;
                *value = (state as f64 - 32_768.0) / 16_384.0;
                right[row] += *value;
            }
        }
        black_box(solve(&mut matrix, &mut right));
        solved += 1;
    }
    solved as f64 * operations / began.elapsed().as_secs_f64() / 1000.0
}

#[allow(clippy::disallowed_methods)]
fn now() -> Instant {
    Instant::now()
}

/// MIPS of one core, measured for so many seconds.
#[pyfunction]
fn integer_benchmark(py: Python<'_>, seconds: f64) -> f64 {
    py.detach(|| integer_rate(seconds))
}

/// Thousands of floating-point operations a second of one core, measured for so many seconds.
#[pyfunction]
fn float_benchmark(py: Python<'_>, seconds: f64) -> f64 {
    py.detach(|| float_rate(seconds))
}

/// Adds the kernels to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(integer_benchmark, module)?)?;
    module.add_function(wrap_pyfunction!(float_benchmark, module)?)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equations_are_solved() {
        let mut matrix = vec![[0.0; ORDER]; ORDER];
        let mut right = [0.0; ORDER];
        for step in 0..ORDER {
            matrix[step][step] = 2.0;
            right[step] = 4.0;
        }
        assert!((solve(&mut matrix, &mut right) - 2.0 * ORDER as f64).abs() < 1e-9);
    }
}
