//! The CPU twin of `operators.cu`.

use everwarp::{DevPtr, TaskCx};

use super::{BIAS_RELU, DevOperators, ROWS, SOFTMAX, SPREAD, bias_relu_row, softmax_row};

fn params(t: &dyn TaskCx) -> DevOperators {
    // SAFETY: the instance was made with these parameters.
    *unsafe { t.params::<DevOperators>() }
}

/// # Safety
/// - Row `row` is in the array, and no task writes it meanwhile.
unsafe fn read<'a>(at: DevPtr<f32>, row: u64, columns: usize) -> &'a [f32] {
    let first = row as usize * columns;
    // SAFETY: the caller vouches.
    unsafe { std::slice::from_raw_parts((at.address() as *const f32).add(first), columns) }
}

/// # Safety
/// - Row `row` is in the array, and no other task reads or writes it meanwhile.
unsafe fn write<'a>(at: DevPtr<f32>, row: u64, columns: usize) -> &'a mut [f32] {
    let first = row as usize * columns;
    // SAFETY: the caller vouches.
    unsafe { std::slice::from_raw_parts_mut((at.address() as *mut f32).add(first), columns) }
}

pub(super) fn spread(t: &mut dyn TaskCx) {
    let (first, n) = (t.lo(), t.hi());
    let left = (n / 2).next_multiple_of(ROWS).min(n);
    for (first, n) in [(first, left), (first + left, n - left)] {
        let function = if n <= ROWS { BIAS_RELU } else { SPREAD };
        if n > 0 {
            t.spawn(function, 0, u64::from(n) << 32 | u64::from(first));
        }
    }
}

fn rows(t: &dyn TaskCx, p: &DevOperators) -> std::ops::Range<u64> {
    let (first, n) = (u64::from(t.lo()), u64::from(t.hi()));
    assert!(
        first + n <= p.rows.into(),
        "a task names rows that are not there"
    );
    first..first + n
}

pub(super) fn bias_relu(t: &mut dyn TaskCx) {
    let p = params(t);
    let columns = p.columns as usize;
    for row in rows(t, &p) {
        // SAFETY: the rows are there; the middle's are this task's until it spawns what reads them.
        unsafe {
            let (input, bias) = (read(p.input, row, columns), read(p.bias, 0, columns));
            bias_relu_row(input, bias, write(p.middle, row, columns));
        }
    }
    t.spawn(SOFTMAX, 0, t.arg());
}

pub(super) fn softmax(t: &mut dyn TaskCx) {
    let p = params(t);
    let columns = p.columns as usize;
    for row in rows(t, &p) {
        // SAFETY: the rows are there; the middle's were written by the task that spawned this one.
        unsafe { softmax_row(read(p.middle, row, columns), write(p.output, row, columns)) }
    }
}
