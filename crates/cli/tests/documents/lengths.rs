//! The two first documents stay short enough to be read in one sitting.

use crate::read;

#[test]
fn readme_has_at_most_150_lines_and_architecture_300() {
    for (document, most) in [("README.md", 150), ("ARCHITECTURE.md", 300)] {
        let lines = read(document).lines().count();
        assert!(
            lines <= most,
            "{document} has {lines} lines; {most} are allowed"
        );
    }
}
