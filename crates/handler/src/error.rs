//! Why a module cannot be a kind of actor.

/// Why a module, or a program of modules, is refused. The message names the module and says what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleError {
    /// It is not a valid module, or uses a feature that handlers do not have.
    #[error("`{module}` is not a module that can handle messages: {problem}")]
    Invalid {
        /// The module.
        module: String,
        /// What is wrong, and where.
        problem: String,
    },
    /// An import is unknown or has another type.
    #[error("`{module}` imports `{import}`: {problem}")]
    Import {
        /// The module.
        module: String,
        /// The import, with the module that it is from.
        import: String,
        /// What is wrong.
        problem: String,
    },
    /// An export cannot be a handler.
    #[error("`{module}` exports `{export}`: {problem}")]
    Export {
        /// The module.
        module: String,
        /// The export.
        export: String,
        /// What is wrong.
        problem: String,
    },
    /// A line of the description is wrong.
    #[error("the section `everwarp.actor` of `{module}` has the line `{line}`: {problem}")]
    Description {
        /// The module.
        module: String,
        /// The line.
        line: String,
        /// What is wrong.
        problem: String,
    },
    /// The modules of a program do not fit each other.
    #[error("the program `{program}` cannot be made: {problem}")]
    Program {
        /// The program.
        program: String,
        /// What is wrong.
        problem: String,
    },
}
