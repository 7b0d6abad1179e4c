//! Shapes: how many elements a buffer has along each axis.

use std::fmt;
use std::ops::Range;

use crate::error::BufferError;

/// How many elements there are along each axis. The last axis is the one whose elements are next to each other in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape(Vec<usize>);

impl Shape {
    /// The most axes, as in NumPy.
    pub const MOST: usize = 64;

    /// A shape, unless it has too many axes or elements.
    ///
    /// # Errors
    /// [`BufferError::TooLarge`].
    pub fn new(axes: &[usize]) -> Result<Self, BufferError> {
        let count = axes.iter().try_fold(1_usize, |n, len| n.checked_mul(*len));
        // Offsets of bytes must fit `isize`, and an element has up to eight bytes.
        match count.filter(|n| *n <= isize::MAX as usize / 8) {
            Some(_) if axes.len() <= Self::MOST => Ok(Self(axes.to_vec())),
            _ => Err(BufferError::TooLarge {
                shape: Self(axes.to_vec()).to_string(),
            }),
        }
    }
    /// The elements along each axis.
    pub fn axes(&self) -> &[usize] {
        &self.0
    }
    /// The number of elements.
    pub fn count(&self) -> usize {
        self.0.iter().product()
    }
    /// The number of rows: elements along the first axis. A shape without axes is one row.
    pub fn rows(&self) -> usize {
        self.0.first().copied().unwrap_or(1)
    }
    /// The elements of a row.
    pub fn row(&self) -> usize {
        self.0.iter().skip(1).product()
    }
    /// The shape of some of the rows.
    ///
    /// # Errors
    /// [`BufferError::OutOfBounds`].
    pub fn part(&self, rows: &Range<usize>) -> Result<Self, BufferError> {
        if rows.start > rows.end || rows.end > self.rows() {
            return Err(BufferError::OutOfBounds {
                begin: rows.start,
                end: rows.end,
                rows: self.rows(),
            });
        }
        let mut axes = self.0.clone();
        match axes.first_mut() {
            Some(first) => *first = rows.len(),
            None if rows.is_empty() => axes.push(0),
            None => {}
        }
        Ok(Self(axes))
    }
    /// The distance between neighbours along each axis, in elements.
    pub fn strides(&self) -> Vec<usize> {
        let mut strides = vec![1; self.0.len()];
        for axis in (1..self.0.len()).rev() {
            strides[axis - 1] = strides[axis] * self.0[axis];
        }
        strides
    }
    /// Whether memory with these strides, in elements, has the elements in the same order without gaps. An axis with one
    /// element may have any stride.
    pub fn is_dense(&self, strides: &[i64]) -> bool {
        let mut own = self.strides().into_iter().zip(strides).zip(&self.0);
        strides.len() == self.0.len()
            && (self.count() == 0
                || own.all(|((own, given), len)| *len == 1 || i64::try_from(own) == Ok(*given)))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (axis, len) in self.0.iter().enumerate() {
            let comma = if axis > 0 { ", " } else { "" };
            write!(f, "{comma}{len}")?;
        }
        f.write_str(if self.0.len() == 1 { ",)" } else { ")" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_parts_and_counts_follow_from_the_axes() {
        let shape = Shape::new(&[4, 3, 2]).expect("it is small");
        assert_eq!((shape.count(), shape.rows(), shape.row()), (24, 4, 6));
        assert_eq!(shape.strides(), [6, 2, 1]);
        let part = shape.part(&(1..3)).expect("there are four rows");
        assert_eq!(part.axes(), [2, 3, 2]);
        assert!(shape.part(&(3..5)).is_err());
        assert_eq!(shape.to_string(), "(4, 3, 2)");
        let none = Shape::new(&[]).expect("one element");
        assert_eq!((none.count(), none.rows(), none.row()), (1, 1, 1));
        assert!(Shape::new(&[usize::MAX, 2]).is_err());
        assert!(Shape::new(&[1; 65]).is_err());
    }

    #[test]
    fn dense_memory_has_these_strides_and_no_others() {
        let shape = Shape::new(&[4, 1, 2]).expect("it is small");
        assert!(shape.is_dense(&[2, 2, 1]));
        assert!(shape.is_dense(&[2, 99, 1]), "an axis of one element");
        assert!(!shape.is_dense(&[4, 2, 1]) && !shape.is_dense(&[2, 1]));
        assert!(!shape.is_dense(&[-2, 2, 1]));
        assert!(Shape::new(&[0, 7]).expect("empty").is_dense(&[5, 5]));
    }
}
